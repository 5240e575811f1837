"""The fold: facts and recorded decisions become the fleet; late, repeated and untrusted ones change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from proverfleet.domain import codec, evidence, fold, snapshot
from proverfleet.domain import events as e
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, mark
from proverfleet.domain.policy import Policy
from tests.builders import offer, report, row
from tests.unit.domain.bodies import BODIES

FLEET = "testfleet"
R1 = IntentId("r0001")
C1 = ContractId(1)
WALL = 1_780_000_000 * NS


class Story:
    """Events one after another, and the fleet that they make."""

    def __init__(self, **policy: Any) -> None:
        self.fleet = fold.new_fleet()
        self.events: list[e.Event] = []
        self.beats = 0
        self.seq = 0
        self.say(e.Booted("b1", "1", FLEET, policy, 1))

    def say(self, *bodies: e.EventBody) -> Story:
        for body in bodies:
            self.seq += 1
            event = e.Event(self.seq, WALL + self.beats * 60 * NS, body)
            self.events.append(event)
            fold.apply(self.fleet, event)
        return self

    def beat(self, times: int = 1, *, gap: bool = False, inbox_ok: bool = True, list_ok: bool = True) -> Story:
        for _ in range(times):
            self.beats += 1
            self.say(e.Beat(self.beats, 0 if gap else 60 * NS, gap, inbox_ok, list_ok, 0.5, ("aa", "bb")))
        return self

    def listed(self, *rows: e.RowFact, gone: tuple[int, ...] = (), trust: str = "trusted") -> Story:
        return self.say(e.Listed(trust, len(rows), 0, rows, tuple(ContractId(c) for c in gone), "h"))

    def rented(self, intent: str = "r0001", contract: int = 1) -> Story:
        i = IntentId(intent)
        self.say(e.Rent("capacity", i, 0, "", offer(contract), 250.0, None, 38.0, "ceil(0.3 $/h / 0.008 $/proof)"))
        return self.say(e.CreateSent(i), e.CreateAnswered(i, "ok", ContractId(contract)))

    def reports(self, stage: str, **fields: Any) -> Story:
        return self.say(e.Reported(report(stage, **fields)))

    @property
    def r(self) -> Rental:
        return self.fleet.rentals[R1]


def a_row(contract: int = 1, status: str = "running", intent: str = "r0001", **fields: Any) -> e.RowFact:
    return row(contract, status, label=mark(FLEET, IntentId(intent)), **fields)  # type: ignore[arg-type]


def zeros(**fields: Any) -> dict[str, Any]:
    base = {"bytes_received": 0, "bytes_hashed": 0, "srs_bytes": 0, "partitions": 0, "proofs_accepted": 0}
    return {**base, **fields}


# ---------------------------------------------------------------- the clock


def test_time_grows_only_while_the_controller_could_hear() -> None:
    s = Story()
    s.beat(gap=True)
    assert s.fleet.heard_ns == 0
    s.beat(2)
    s.beat(1, inbox_ok=False)
    s.beat(1, list_ok=False)
    assert s.fleet.heard_ns == 180 * NS and s.fleet.listed_ns == 120 * NS


def test_after_a_gap_ages_wait_for_the_backlogs_but_no_longer_than_ten_minutes() -> None:
    s = Story().rented().beat(2)
    s.reports("params", seq=1).beat()
    assert evidence.settled(s.fleet)
    s.beat(gap=True)
    assert not evidence.settled(s.fleet)
    s.reports("params", seq=2, backlog=3).beat()
    assert not evidence.settled(s.fleet)
    s.reports("params", seq=3, backlog=0).beat()
    assert evidence.settled(s.fleet)
    s.beat(gap=True).beat(9)
    assert not evidence.settled(s.fleet)
    s.beat()
    assert evidence.settled(s.fleet)


def test_three_beats_without_a_sign_from_outside_are_a_gap() -> None:
    s = Story().rented()
    s.reports("params", seq=1).beat()
    s.beat(2, inbox_ok=False).beat()
    assert evidence.settled(s.fleet)
    s.beat(3, inbox_ok=False).beat()
    assert not evidence.settled(s.fleet)


def test_an_age_is_never_longer_than_the_truth() -> None:
    s = Story().rented().beat(5)
    s.reports("params", seq=1, **zeros(bytes_received=5))
    s.beat()  # the report came at some time within this step
    assert evidence.progress_age_s(s.fleet, s.r) == 0.0
    s.beat(3)
    assert evidence.progress_age_s(s.fleet, s.r) == 180.0


def test_money_is_counted_while_it_runs_and_a_day_starts_anew() -> None:
    s = Story().rented().listed(a_row())
    s.beat(60)
    assert s.r.cost_usd == pytest.approx(0.30, abs=0.001)
    assert s.fleet.spent_today_usd == pytest.approx(s.r.cost_usd)
    s.listed(a_row(status="offline")).beat(60)
    assert s.r.cost_usd == pytest.approx(0.30, abs=0.001)
    s.beats += 1440
    s.beat()
    assert s.fleet.spent_today_usd < 0.01


# ---------------------------------------------------------------- reports


def test_stages_follow_the_agent_forward_only() -> None:
    s = Story().rented()
    assert s.r.stage == "loading"
    said = [("hello", "setup"), ("params", "setup"), ("batch", "benchmark"), ("params", "benchmark"),
            ("active", "active"), ("batch", "active"), ("draining", "draining")]
    for seq, (stage, want) in enumerate(said):
        s.reports(stage, seq=seq)
        assert s.r.stage == want


def test_late_and_repeated_reports_take_nothing_back() -> None:
    s = Story().rented()
    s.reports("active", seq=10, partitions=900, proofs_accepted=90, last_completions=((90, 9000 * NS),))
    s.beat()
    kept = snapshot.dump(s.fleet)["rentals"]["r0001"]
    for late in (report("batch", seq=4, partitions=300), report("active", seq=10), report("params", seq=1)):
        s.say(e.Reported(late))
    now = snapshot.dump(s.fleet)["rentals"]["r0001"]
    assert now.pop("evidence_new") and not kept.pop("evidence_new")
    assert now == kept


def test_a_late_report_may_still_carry_progress() -> None:
    s = Story().rented()
    s.reports("batch", seq=5, partitions=100).beat(5)
    s.reports("batch", seq=4, partitions=120).beat()
    assert evidence.progress_age_s(s.fleet, s.r) == 0.0


def test_an_ended_rental_is_never_revived() -> None:
    s = Story().rented()
    s.reports("active", seq=1)
    s.say(e.End("silent", R1, "silent", "agent_silent", "first", "machine", {}))
    s.reports("active", seq=2).say(e.End("active", R1, "slow", "rate", "second", "machine", {}))
    assert (s.r.stage, s.r.verdict, s.r.reason) == ("destroying", "silent", "first")
    s.say(e.Gone("gone", C1, R1, "absent"))
    s.reports("active", seq=3).say(e.Adopted("orphan", R1, C1, None, None, 0.3, 38.0, "x"))
    assert s.r.stage == "gone" and s.r.ended_wall_ns is not None and C1 not in s.fleet.by_contract


def test_progress_is_work_and_nothing_else() -> None:
    s = Story().rented()
    s.reports("batch", seq=1).beat(10)
    base = s.r.last
    assert base is not None
    idle = replace(base, restarts_agent=1, restarts_prover=3, busy_s=9e9, rss_gib=1.0)
    s.say(e.Reported(replace(idle, seq=2))).say(e.Reported(replace(idle, seq=3, boot="b2"))).beat()
    assert evidence.progress_age_s(s.fleet, s.r) == 600.0
    for seq, more in enumerate(({"srs_bytes": base.srs_bytes + (1 << 24)}, {"partitions": base.partitions + 1},
                                {"proofs_accepted": base.proofs_accepted + 1},
                                {"bytes_hashed": base.bytes_hashed + 1}), start=4):
        s.beat(3)
        base = replace(base, **more)  # type: ignore[arg-type]
        s.say(e.Reported(replace(base, seq=seq))).beat()
        assert evidence.progress_age_s(s.fleet, s.r) == 0.0


def test_a_wiped_agent_counts_from_its_own_beginning() -> None:
    s = Story().rented()
    s.reports("active", seq=500).beat()
    s.reports("hello", seq=0, boot="b2", **zeros()).beat(2)
    assert s.r.last is not None and s.r.last.boot == "b2"
    assert evidence.progress_age_s(s.fleet, s.r) == 120.0
    s.reports("params", seq=1, boot="b2", **zeros(bytes_received=10)).beat()
    assert evidence.progress_age_s(s.fleet, s.r) == 0.0
    s.reports("active", seq=499, boot="b1").beat()  # a late one of the old boot
    assert s.r.last.boot == "b2"


def test_starving_is_not_standing_still() -> None:
    s = Story().rented()
    s.reports("active", seq=1, starved_s=0.0).beat(2)
    for i in range(30):
        s.reports("active", seq=2 + i, starved_s=60.0 * (i + 1)).beat()
    assert evidence.progress_age_s(s.fleet, s.r) > 1800
    assert evidence.stall_age_s(s.fleet, s.r) < 180
    s.say(e.Worked(False, ()))
    s.beat(60)
    assert evidence.stall_age_s(s.fleet, s.r) < 180 + 30 * 60


def test_directives_go_when_acknowledged_and_count_their_retries() -> None:
    s = Story().rented()
    s.reports("batch", seq=1)
    s.say(e.Directed("crash", R1, "retry.0.a", "retry", {"p": 6, "after": "oom"}, "x"),
          e.Directed("crash", R1, "retry.0.a", "retry", {"p": 6, "after": "oom"}, "x"))
    assert (len(s.r.directives), s.r.oom_retries, s.r.crash_retries) == (1, 1, 0)
    s.reports("batch", seq=2, acks=("retry.0.a",))
    assert s.r.directives == [] and s.r.acked == ["retry.0.a"]


def test_an_exit_is_noted_once_and_the_size_that_died_remembered() -> None:
    s = Story().rented()
    dead = BODIES[7]
    assert isinstance(dead, e.Reported) and dead.report.exit is not None
    for seq in (1, 2, 3):
        s.reports("batch", seq=seq, exit=dead.report.exit, p=16)
    assert s.r.exits_seen == 1 and s.r.oom_at_p == 16
    s.reports("batch", seq=4, exit=dead.report.exit, p=9, attempt=1)
    assert s.r.exits_seen == 2 and s.r.oom_at_p == 9


# ---------------------------------------------------------------- the market


@pytest.mark.parametrize("trust", ["empty", "partial", "shrunken", "stale", "malformed", "failed"])
def test_an_untrusted_listing_changes_nothing_but_its_note(trust: str) -> None:
    s = Story().rented().listed(a_row()).beat()
    before = snapshot.dump(s.fleet)
    s.listed(trust=trust)
    after = snapshot.dump(s.fleet)
    assert after.pop("list_trust") == trust and before.pop("list_trust") == "trusted"
    assert {k: v for k, v in after.items() if k not in ("seq", "wall_ns")} == {
        k: v for k, v in before.items() if k not in ("seq", "wall_ns")}


def test_absence_counts_from_whole_listings() -> None:
    s = Story().rented().listed(a_row()).beat()
    s.listed(gone=(1,)).beat()
    s.listed().beat(2)
    assert s.r.absent_listings == 2 and evidence.absent_age_s(s.fleet, s.r) == 180.0
    s.say(e.ContractRead(C1, "absent"))
    assert s.r.absent_by_id
    s.listed(a_row())
    assert s.r.absent_listings == 0 and not s.r.absent_by_id and evidence.absent_age_s(s.fleet, s.r) == 0.0


def test_a_pull_moves_with_its_text_and_its_disk() -> None:
    s = Story().rented().listed(a_row(status="loading", status_msg="layer 1 of 9")).beat(3)
    assert not s.r.status_moved and evidence.loading_age_s(s.fleet, s.r) == 180.0
    s.listed(a_row(status="loading", status_msg="layer 2 of 9")).beat()
    assert s.r.status_moved and evidence.loading_age_s(s.fleet, s.r) == 0.0
    s.listed(a_row(status="loading", status_msg="Error response from daemon: manifest unknown")).beat(2)
    assert evidence.loading_age_s(s.fleet, s.r) == 120.0 and s.r.bad_status_beats == 1


def test_orphans_are_marked_contracts_that_no_rental_knew() -> None:
    s = Story().rented()
    s.listed(a_row(1), a_row(2, intent="ffff0001"), row(3), replace(row(4), label="pf.other.abcd1234"),
             a_row(5, intent="r0001"))
    assert list(s.fleet.orphans) == [2]
    s.say(e.Adopted("orphan", IntentId("ffff0001"), ContractId(2), MachineId(1), HostId(2), 0.4, 50.0, "ceil"))
    assert not s.fleet.orphans and s.fleet.rentals[IntentId("ffff0001")].adopted


def test_a_probe_shows_progress_only_under_the_same_daemon() -> None:
    s = Story().rented()
    s.reports("batch", seq=1).beat(5)
    s.say(e.Probed(C1, "answers", 10.0, 100, 10)).beat()
    assert evidence.progress_age_s(s.fleet, s.r) > 0 and evidence.silence_age_s(s.fleet, s.r) == 0.0
    s.say(e.Probed(C1, "answers", 99.0, 200, 10)).beat()
    assert evidence.progress_age_s(s.fleet, s.r) > 0
    s.say(e.Probed(C1, "answers", 99.0, 201, 10)).beat()
    assert evidence.progress_age_s(s.fleet, s.r) == 0.0


# ---------------------------------------------------------------- creating and destroying


def test_a_refused_create_makes_no_contract_and_a_doubtful_one_waits_for_its_label() -> None:
    s = Story()
    s.say(e.Rent("capacity", R1, 0, "", offer(1), 250.0, None, 38.0, "x"), e.CreateSent(R1))
    s.say(e.CreateAnswered(R1, "doubt", None, "TimedOut"))
    s.listed().beat().listed().beat()
    assert s.r.in_doubt and s.r.doubt_listings == 2
    s.listed(a_row(7)).beat()
    assert s.r.doubt_listings == 0
    s.say(e.Resolved("resolve", R1, ContractId(7), "label"))
    assert (s.r.contract_id, s.r.stage, s.r.in_doubt) == (7, "loading", False)
    s.say(e.Rent("capacity", IntentId("r2"), 0, "", offer(2), 250.0, None, 38.0, "x"))
    s.say(e.CreateAnswered(IntentId("r2"), "refused", None, "no_such_ask"))
    assert s.fleet.rentals[IntentId("r2")].refused == "no_such_ask"


def test_success_false_that_names_a_contract_is_a_contract() -> None:
    s = Story()
    s.say(e.Rent("capacity", R1, 0, "", offer(1), 250.0, None, 38.0, "x"), e.CreateAnswered(R1, "pending", C1, "x"))
    assert s.r.contract_id == C1 and s.r.stage == "loading"


def test_absence_is_proven_only_after_the_acknowledgement() -> None:
    s = Story().rented().listed(a_row())
    s.say(e.End("operator", R1, "operator", "order", "x", "nobody", {}), e.DestroySent(C1, 1))
    s.listed(gone=(1,)).say(e.ContractRead(C1, "absent"))
    assert (s.r.destroy.absent_listings, s.r.destroy.absent_reads) == (0, 0)
    s.say(e.DestroyAnswered(C1, "ok")).listed().say(e.ContractRead(C1, "absent"))
    assert (s.r.destroy.absent_listings, s.r.destroy.absent_reads) == (1, 1)
    s.listed(a_row())
    assert s.r.destroy.absent_listings == 0


def test_failed_starts_make_a_slot_wait_longer_and_a_success_ends_that() -> None:
    s = Story()
    waits = []
    for n in range(1, 7):
        s.rented(f"r{n:04d}", n)
        s.say(e.End("loading", IntentId(f"r{n:04d}"), "never_started", "loading_stuck", "x", "machine", {}))
        waits.append((s.fleet.slot_wait_until_heard_ns.get(0, 0) - s.fleet.heard_ns) // NS)
    assert waits == [0, 0, 300, 900, 2700, 2700]
    s.rented("r0009", 9).say(e.Reported(report("active", rental=IntentId("r0009"))))
    assert not s.fleet.slot_failures and not s.fleet.slot_wait_until_heard_ns


def test_what_the_consumer_says_is_cumulative() -> None:
    s = Story().rented()
    s.reports("active", seq=1)
    s.say(e.Worked(True, ((R1, 5, 0),))).say(e.Worked(True, ((R1, 5, 2),))).say(e.Worked(True, ((R1, 4, 1),)))
    assert (s.r.work_accepted, s.r.work_rejected, s.r.rejected_in_a_row) == (5, 2, 2)
    s.say(e.Worked(True, ((R1, 6, 3),)))
    assert s.r.rejected_in_a_row == 0 and s.r.work_results == [True] * 5 + [False] * 3 + [True]


def test_orders_are_applied() -> None:
    s = Story(beat_s=60.0).rented()
    s.say(e.Ordered("target", {"value": 5}), e.Ordered("policy", {"set": {"oom_retries": 4}}),
          e.Ordered("freeze", {"on": True}), e.Ordered("kill", {"intent": "r0001", "reason": "mine"}),
          e.Ordered("blacklist", {"machine_id": 7, "reason": "bad", "until_s": 60, "evict": True}),
          e.Ordered("deploy", {"order": "d1", "machine_id": 9, "min_rate": 29.0}),
          e.Ordered("history", {"machine_id": 8, "gpu_name": "RTX 4090", "num_gpus": 1, "gpu_frac": 1.0, "image": "i",
                                "rate_proofs_per_hour": 54.8, "proofs": 12}))
    f = s.fleet
    assert f.measured[MachineId(8)][0].rate_proofs_per_hour == 54.8
    assert (f.target, f.policy.oom_retries, f.frozen, f.kills_ordered) == (5, 4, True, {R1: "mine"})
    assert f.blacklist[MachineId(7)].evict and f.orders["d1"].min_rate == 29.0
    s.say(e.Booted("b2", "1", FLEET, {"beat_s": 60.0}, 1))  # the same settings: the operator's orders stay
    assert (f.target, f.policy.oom_retries) == (5, 4)
    s.say(e.Booted("b3", "1", FLEET, {"beat_s": 60.0, "oom_retries": 1}, 2))
    assert (f.target, f.policy.oom_retries) == (2, 1)
    with pytest.raises(fold.FoldError, match="order 'dance' is not known"):
        s.say(e.Ordered("dance", {}))


def test_an_unknown_kind_stops_the_fold() -> None:
    with pytest.raises(fold.FoldError, match="the fold knows no EventBody"):
        fold.apply(fold.new_fleet(), e.Event(1, 1, e.EventBody()))


# ---------------------------------------------------------------- snapshots


def a_long_story() -> Story:
    s = Story().rented()
    s.listed(a_row(status="loading")).beat()
    for body in BODIES:
        s.say(body)
        s.beat()
    s.rented("r0002", 2).listed(a_row(2, intent="r0002"))
    for i in range(200):
        done = tuple((k, k * 90 * NS) for k in range(max(1, i - 19), i + 1))
        s.say(e.Reported(report("batch" if i < 12 else "active", rental=IntentId("r0002"), seq=i, mono_ns=i * 90 * NS,
                                last_completions=done, proofs_accepted=i)))
        s.beat()
    return s


def test_every_kind_folds_and_a_snapshot_with_its_tail_equals_the_whole() -> None:
    s = a_long_story()
    for cut in (1, 7, 40, len(s.events) // 2, len(s.events) - 3):
        half = fold.new_fleet()
        for event in s.events[:cut]:
            fold.apply(half, event)
        back = snapshot.load(json.loads(json.dumps(snapshot.dump(half))))
        assert back == half
        for event in s.events[cut:]:
            fold.apply(back, codec.event_from_dict(json.loads(json.dumps(codec.event_to_dict(event)))))
        assert back == s.fleet
        assert json.dumps(snapshot.dump(back)) == json.dumps(snapshot.dump(s.fleet))


def test_a_snapshot_fits_its_fold_and_its_policy_only() -> None:
    assert snapshot.header(Policy()) == snapshot.header(Policy())
    assert snapshot.header(Policy()) != snapshot.header(Policy(oom_retries=3))
    with pytest.raises(codec.CodecError, match="snapshot"):
        snapshot.load({"nonsense": 1})
    assert snapshot.load(snapshot.dump(Fleet())) == Fleet()
