"""Fold and decide together: a rental from the rent to its proven end, with a shell that obeys. No port, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from proverfleet.domain import events as e
from proverfleet.domain.decide import decide
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.fold import apply, new_fleet
from proverfleet.domain.ids import mark
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import Report
from tests.builders import FLEET, exited, offer, report, row


@dataclass
class Shell:
    """Applies facts beat by beat and carries decisions out at once. ``rows`` is what the market lists, ``agents`` the
    next report of each intent; ``works`` says how many partitions an agent adds a beat."""

    fleet: Fleet = field(default_factory=new_fleet)
    seq: int = 0
    n: int = 0
    rows: dict[int, e.RowFact] = field(default_factory=dict)
    agents: dict[str, Report] = field(default_factory=dict)
    works: dict[str, int] = field(default_factory=dict)
    offers: tuple[e.OfferFact, ...] = ()
    answers: dict[int, str] = field(default_factory=dict)
    said: list[Any] = field(default_factory=list)
    contract: int = 100
    create: str = "ok"
    destroys: bool = True
    trusted: bool = True
    plan: e.Plan | None = None

    def put(self, body: e.EventBody) -> None:
        self.seq += 1
        apply(self.fleet, e.Event(self.seq, self.n * 60 * NS + 1_780_000_000 * NS, body))

    def boot(self, target: int, **policy: Any) -> Shell:
        self.put(e.Booted("b1", "1", FLEET, policy, target))
        return self

    def beat(self, times: int = 1) -> Shell:
        for _ in range(times):
            self._facts()
            self.n += 1
            ids = tuple(f"{self.n:04x}{i:04x}" for i in range(16))
            self.put(e.Beat(self.n, 0 if self.n == 1 else 60 * NS, self.n == 1, True, self.trusted, 0.5, ids))
            self.plan = decide(self.fleet)
            for decision in self.plan.decisions:
                self.said.append(decision)
                self.put(decision)
            self._act()
        return self

    def _facts(self) -> None:
        asks = self.plan.asks if self.plan is not None else e.Asks()
        if self.trusted:
            changed = tuple(r for c, r in self.rows.items() if self.fleet.rows.get(c) != r)
            lost = tuple(c for c in self.fleet.rows if c not in self.rows)
            self.put(e.Listed("trusted", len(self.rows), 0, changed, lost, ""))
        else:
            self.put(e.Listed("failed", 0, 0, (), (), ""))
        for c in asks.contracts:
            self.put(e.ContractRead(c, "present" if c in self.rows else "absent", self.rows.get(c)))
        for c in asks.probes:
            self.put(e.Probed(c, self.answers.get(c, "unreachable")))
        if asks.source:
            self.put(e.SourceProbed(True))
        if asks.search:
            held = [r.machine_id for r in self.fleet.rentals.values() if r.stage != "gone"]
            self.put(e.Offered(False, len(self.offers), {}, tuple(o for o in self.offers if o.machine_id not in held)))
        self.put(e.AccountRead(100.0))
        for intent, last in list(self.agents.items()):
            more = self.works.get(intent, 0)
            acks = tuple(d[0] for d in self.fleet.rentals[intent].directives)
            now = replace(last, seq=last.seq + 1, partitions=last.partitions + more, mono_ns=last.mono_ns + 60 * NS,
                          acks=acks)
            self.agents[intent] = now
            self.put(e.Reported(now))

    def _act(self) -> None:
        for r in list(self.fleet.rentals.values()):
            if r.stage == "requested" and not r.create_sent and not r.refused:
                self._create(r)
            elif r.stage == "destroying" and r.contract_id is not None:
                self.agents.pop(r.intent, None)
                self._destroy(r.contract_id)
        for contract in list(self.fleet.extras):
            self._destroy(contract)

    def _create(self, r: Rental) -> None:
        self.put(e.CreateSent(r.intent))
        if self.create == "refused":
            self.put(e.CreateAnswered(r.intent, "refused", None, "no_such_ask"))
            return
        if self.create in ("ok", "lost_reply"):
            self.contract += 1
            self.rows[self.contract] = row(self.contract, "loading", label=mark(FLEET, r.intent), gpu_util=0.0,
                                           machine_id=r.machine_id, host_id=r.host_id, status_msg="pulling")
        outcome = "ok" if self.create == "ok" else "doubt"
        self.put(e.CreateAnswered(r.intent, outcome, self.contract if outcome == "ok" else None))

    def _destroy(self, contract: Any) -> None:
        self.put(e.DestroySent(contract, 1))
        if self.destroys:
            self.rows.pop(contract, None)
        self.put(e.DestroyAnswered(contract, "ok"))

    def runs(self, r: Rental, stage: str = "params", **fields: Any) -> None:
        """Its container runs, and its agent reports from this stage."""
        assert r.contract_id is not None
        self.rows[r.contract_id] = replace(self.rows[r.contract_id], actual_status="running", status_msg="success")
        base = {"proofs_accepted": 0, "partitions": 0, "srs_bytes": 0, "starved_s": 0.0, "seq": 1, **fields}
        self.agents[r.intent] = report(stage, rental=r.intent, **base)

    def of(self, kind: type) -> list[Any]:
        return [d for d in self.said if isinstance(d, kind)]

    def only(self) -> Rental:
        return list(self.fleet.rentals.values())[-1]


def shell(target: int = 1, **policy: Any) -> Shell:
    return Shell(offers=tuple(offer(n) for n in range(1, 6))).boot(target, **policy)


def test_a_healthy_rental_is_left_alone_for_a_day():
    s = shell().beat(3)
    r = s.only()
    assert r.stage == "loading" and r.contract_id == 101
    s.runs(r, "batch")
    s.works[r.intent] = 5
    s.beat(20)
    assert r.stage == "benchmark"
    s.agents[r.intent] = replace(s.agents[r.intent], stage="active")
    s.beat(1440)
    assert r.stage == "active" and s.of(e.End) == [] and s.of(e.Directed) == [] and s.of(e.Alerted) == []
    assert len(s.of(e.Rent)) == 1


def test_a_hung_prover_is_restarted_then_ended_proven_gone_and_replaced():
    s = shell().beat(3)
    r = s.only()
    s.runs(r, "active", partitions=10, proofs_accepted=1)
    s.answers[101] = "answers"
    s.beat(12)
    assert [d.what for d in s.of(e.Directed)] == ["restart_prover"]
    s.beat(19)
    assert s.of(e.End) == []
    s.beat(6)
    ended = s.of(e.End)
    assert [(x.verdict, x.intent) for x in ended] == [("stalled", r.intent)] and r.stage in ("destroying", "gone")
    s.beat(4)
    assert r.stage == "gone" and [g.contract_id for g in s.of(e.Gone)] == [101]
    assert len(s.of(e.Rent)) == 2 and s.of(e.Rent)[1].offer.machine_id != r.machine_id
    assert len(s.of(e.Struck)) == 1 and s.of(e.Blacklisted) == []


def test_a_market_that_says_success_and_does_nothing_is_not_believed():
    s = shell().beat(3)
    s.destroys = False
    s.put(e.Ordered("kill", {"intent": s.only().intent, "reason": "no"}))
    s.beat(30)
    r = next(iter(s.fleet.rentals.values()))
    assert r.stage == "destroying" and r.verdict == "operator"
    assert [a.name for a in s.of(e.Alerted)] == ["destroy_pending"]
    s.destroys = True
    s.beat(4)
    assert r.stage == "gone" and any(a.name == "destroy_pending" and not a.on for a in s.of(e.Alerted))


def test_a_lost_reply_is_resolved_by_its_label():
    s = shell()
    s.create = "lost_reply"
    s.beat(4)
    assert [(x.contract_id) for x in s.of(e.Resolved)] == [101]
    assert s.only().stage == "loading" and len(s.of(e.Rent)) == 1


def test_a_lost_request_is_resolved_by_proof_of_absence_and_only_then_replaced():
    s = shell()
    s.create = "lost_request"
    s.beat(4)
    assert len(s.of(e.Rent)) == 1 and s.of(e.Resolved) == []
    s.beat(2)
    assert [x.contract_id for x in s.of(e.Resolved)] == [None]
    s.create = "ok"
    s.beat(2)
    first, second = s.of(e.Rent)[:2]
    assert s.fleet.rentals[first.intent].stage == "gone" and second.offer.machine_id != 0


def test_refused_creates_back_off_and_blame_nobody():
    s = shell()
    s.create = "refused"
    s.beat(60)
    assert 4 <= len(s.of(e.Rent)) <= 8
    assert all(x.cause == "create_refused" and x.blame == "nobody" for x in s.of(e.End))
    assert s.of(e.Struck) == [] and all(r.stage == "gone" for r in list(s.fleet.rentals.values())[:-1])


def test_an_untrusted_listing_changes_nothing_for_an_hour():
    s = shell(target=3).beat(6)
    for r in s.fleet.rentals.values():
        s.runs(r, "batch")
        s.works[r.intent] = 5
    s.beat(3)
    before = len(s.said)
    s.trusted = False
    s.beat(60)
    new = [type(d).__name__ for d in s.said[before:]]
    assert sorted(set(new)) == ["Alerted", "Braked"]
    s.trusted = True
    s.beat(2)
    assert not [b for b in s.fleet.brakes.values() if b.name == "list_untrusted"] and s.of(e.End) == []


def test_a_vanished_contract_is_lost_only_after_all_channels_say_so():
    s = shell().beat(3)
    r = s.only()
    s.runs(r, "batch")
    s.works[r.intent] = 5
    s.beat(3)
    gone = s.rows.pop(101)
    s.beat(20)
    assert s.of(e.End) == []  # its agent reports
    s.agents.clear()
    s.beat(9)
    assert [x.verdict for x in s.of(e.End)] == ["lost"] and gone is not None


def test_an_oom_is_tried_smaller_and_ends_only_when_the_retries_are_spent():
    s = shell().beat(3)
    r = s.only()
    s.runs(r, "batch", p=13)
    for attempt, p in enumerate((13, 7, 4)):
        s.agents[r.intent] = replace(s.agents[r.intent], exit=exited(137, 9, oom=True), waiting="retry",
                                     attempt=attempt, p=p)
        s.beat(3)
    assert [d.args["p"] for d in s.of(e.Directed)] == [7, 4]
    assert [(x.verdict, x.blame) for x in s.of(e.End)] == [("out_of_memory", "us")]
    assert s.of(e.Struck) == []


def test_a_lower_target_drains_and_a_higher_one_rents():
    s = shell(target=2).beat(4)
    for r in list(s.fleet.rentals.values()):
        s.runs(r, "active", partitions=10, proofs_accepted=1)
        s.works[r.intent] = 5
    s.beat(2)
    s.put(e.Ordered("target", {"value": 1}))
    s.beat(2)
    drained = [d.intent for d in s.of(e.Directed) if d.what == "drain"]
    assert len(drained) == 1 and s.of(e.End) == []
    s.agents[drained[0]] = replace(s.agents[drained[0]], stage="stopped")
    s.beat(2)
    assert [(x.intent, x.verdict) for x in s.of(e.End)] == [(drained[0], "not_needed")]
    s.put(e.Ordered("target", {"value": 2}))
    s.beat(6)
    assert len(s.of(e.Rent)) == 3 and len(s.rows) == 2


def test_a_restored_database_adopts_its_orphans_and_kills_nobody():
    s = shell(target=3, beat_s=60.0)
    for n in (1, 2, 3):
        s.rows[200 + n] = row(200 + n, label=mark(FLEET, f"old{n:04d}"))
    s.beat(3)
    assert [a.contract_id for a in s.of(e.Adopted)] == [201, 202, 203]
    assert s.of(e.Rent) == [] and any(b.name == "orphans" and b.on for b in s.of(e.Braked))
    for r in s.fleet.rentals.values():
        s.agents[r.intent] = report("active", rental=r.intent)
        s.works[r.intent] = 5
    s.beat(60)
    assert s.of(e.End) == [] and not [b for b in s.fleet.brakes.values() if b.name == "orphans"]
    assert Policy.of(s.fleet.booted_policy).beat_s == 60.0
