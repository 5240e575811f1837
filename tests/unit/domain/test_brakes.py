"""brakes and the systemic brake: what may go, what is held, and that each says so once."""

from __future__ import annotations

import pytest

from proverfleet.domain import brakes, systemic
from proverfleet.domain.decide import decide
from proverfleet.domain.events import Alerted, Braked, End
from proverfleet.domain.fleet import NS, BrakeState, Failure
from proverfleet.domain.pending import end, pending_for
from proverfleet.domain.policy import Policy
from tests.builders import ago, exited, fleet, offer, probed, rental, report


def hold(f, r, said):
    return brakes.hold(f, pending_for(f), r, said)


def ended(r, rule="stall", verdict="stalled", cause="no_progress", blame="machine"):
    return end(r, rule, verdict, cause, "why", blame)


def test_without_a_brake_an_end_goes():
    r = rental(1)
    said = ended(r)
    assert hold(fleet(r), r, said) is said


def test_the_freeze_stops_all_but_an_operators_order():
    r = rental(1)
    assert hold(fleet(r, frozen=True), r, ended(r)) == "freeze"
    order = ended(r, "operator", "operator")
    assert hold(fleet(r, frozen=True), r, order) is order


@pytest.mark.parametrize("rule", ["loading", "lost", "orphan", "blacklist", "market_end"])
def test_an_untrusted_listing_stops_what_rests_on_the_markets_word(rule):
    r = rental(1)
    assert hold(fleet(r, list_ok=False), r, ended(r, rule)) == "list_untrusted"


def test_kills_on_the_agents_own_evidence_go_on_when_a_read_by_id_succeeds():
    r = rental(1)
    assert isinstance(hold(fleet(r, list_ok=False), r, ended(r)), End)
    r.by_id_ok_beat = 5996
    f = fleet(r, list_ok=False)
    pending = pending_for(f)
    assert brakes.hold(f, pending, r, ended(r)) == "list_untrusted"
    assert list(pending.contracts) == [1]


def test_at_most_a_tenth_a_beat():
    for n, allowed in ((5, 1), (19, 1), (20, 2), (31, 3)):
        some = [rental(i) for i in range(1, n + 1)]
        f = fleet(*some)
        pending = pending_for(f)
        went = [r for r in some if isinstance(brakes.hold(f, pending, r, ended(r)), End)]
        assert len(went) == allowed


def test_orders_and_contracts_that_are_gone_use_no_budget():
    some = [rental(i) for i in range(1, 6)]
    f = fleet(*some)
    pending = pending_for(f)
    assert all(isinstance(brakes.hold(f, pending, r, ended(r, "operator")), End) for r in some)
    assert pending.kills == 0


def crashed(n, host=None, attempt=1, still_s=60.0, **fields):
    last = report("batch", exit=exited(134, 6), waiting="retry", attempt=attempt)
    more = {} if host is None else {"host_id": host}
    return rental(n, "benchmark", still_s=still_s, last=last, crash_retries=1, **more, **fields)


def kinds(plan, kind):
    return [d for d in plan.decisions if isinstance(d, kind)]


def test_the_same_failure_on_three_machines_of_two_hosts_is_a_common_cause():
    plan = decide(fleet(crashed(1), crashed(2), crashed(3)))
    assert kinds(plan, End) == []
    brake = next(b for b in kinds(plan, Braked) if b.name == "systemic")
    assert brake.on and brake.detail["cards"] == ["RTX 4090"]
    assert brake.key == "benchmark|signal 6|signal|prover|proverfleet/agent|large"
    assert any(a.name == "systemic" and a.on for a in kinds(plan, Alerted))


def test_three_machines_of_one_host_are_the_hosts_affair():
    plan = decide(fleet(crashed(1, 7), crashed(2, 7), crashed(3, 7)))
    assert len(kinds(plan, End)) == 1  # the kill budget


def test_not_common_while_more_than_half_get_past():
    others = [rental(n, "benchmark") for n in range(4, 8)]
    plan = decide(fleet(crashed(1), crashed(2), crashed(3), *others))
    assert not any(b.name == "systemic" for b in kinds(plan, Braked))


def test_earlier_failures_within_two_hours_count():
    def failed(age_s):
        r = crashed(9)
        key = ended(r, "crash", "crashed", "signal").evidence["fingerprint"]
        return [Failure(key, 42_000 + n, 7_000 + n, f"r{n}", "RTX 4090", r.image, ago(age_s), 0, True) for n in (1, 2)]
    assert kinds(decide(fleet(crashed(9), failures=failed(7000))), End) == []
    assert len(kinds(decide(fleet(crashed(9), failures=failed(7300))), End)) == 1


def under_brake(*rentals, age_s=600.0, **fields):
    key = ended(crashed(1), "crash", "crashed", "signal").evidence["fingerprint"]
    detail = {"image": "proverfleet/agent", "cards": ["RTX 4090"], "machines": [1, 2, 3]}
    state = BrakeState("systemic", key, "why", detail, ago(age_s), 0)
    return fleet(*rentals, brakes={f"systemic:{key}": state}, **fields)


def test_what_fails_under_it_is_held_an_hour_and_then_ends_without_blame():
    assert kinds(decide(under_brake(crashed(1, still_s=3599))), End) == []
    said = kinds(decide(under_brake(crashed(1, still_s=3600))), End)
    assert [(e.verdict, e.blame) for e in said] == [("systemic", "nobody")]


def test_one_canary_every_half_hour():
    def allowed(f, card="RTX 4090"):
        return systemic.allows(f, pending_for(f), offer(1, gpu_name=card), [])
    assert not allowed(under_brake(age_s=1799))
    assert allowed(under_brake(age_s=1800))
    assert allowed(under_brake(age_s=60), "RTX 5090")
    canary = rental(4, "loading")
    canary.stage_heard_ns = {"requested": ago(600)}
    assert not allowed(under_brake(canary, age_s=3600))


def test_one_success_ends_it():
    canary = rental(4, "active")
    canary.stage_heard_ns = {"requested": ago(600), "active": ago(60)}
    off = [b for b in kinds(decide(under_brake(canary, age_s=3600)), Braked) if b.name == "systemic"]
    assert [b.on for b in off] == [False] and "r0004" in off[0].reason


def test_two_hours_without_another_end_it():
    assert not [b for b in kinds(decide(under_brake(age_s=7199)), Braked) if b.name == "systemic"]
    assert [b for b in kinds(decide(under_brake(age_s=7200)), Braked) if b.name == "systemic"]


def test_brakes_say_so_once():
    on = list(kinds(decide(fleet(list_ok=False, list_trust="partial")), Braked))
    assert [(b.name, b.on) for b in on] == [("list_untrusted", True)]
    state = BrakeState("list_untrusted", "", "", {}, ago(60), 0)
    again = decide(fleet(list_ok=False, list_trust="partial", brakes={"list_untrusted:": state}))
    assert kinds(again, Braked) == []
    assert [(a.name, a.on) for a in kinds(again, Alerted)] == [("list_untrusted", True)]
    off = decide(fleet(brakes={"list_untrusted:": state}, alerts={"list_untrusted:": 1}))
    assert [(b.name, b.on) for b in kinds(off, Braked)] == [("list_untrusted", False)]
    assert [(a.name, a.on) for a in kinds(off, Alerted)] == [("list_untrusted", False)]


def test_a_freeze_alerts_after_an_hour():
    young = fleet(frozen=True, frozen_heard_ns=ago(3599))
    old = fleet(frozen=True, frozen_heard_ns=ago(3600))
    assert not any(a.name == "freeze" for a in kinds(decide(young), Alerted))
    assert any(a.name == "freeze" for a in kinds(decide(old), Alerted))


def test_money_says_which_cap():
    f = fleet(rental(1), policy=Policy(cap_usd_per_hour=0.2))
    assert any(b.name == "money" and b.reason == "cap_usd_per_hour" for b in kinds(decide(f), Braked))


def test_decide_changes_nothing_and_repeats_itself():
    def world():
        stuck = probed(rental(1, still_s=5000, restarted_in_place_attempt=0), "answers")
        return fleet(stuck, crashed(2), rental(3, "loading"), target=6, offers=(offer(1),), offers_beat=6000)
    f = world()
    assert decide(f) == decide(f) == decide(world())
    assert f == world()
    assert decide(f).asks.search and NS


def test_the_plan_names_rule_evidence_and_a_reason():
    for said in kinds(decide(fleet(probed(rental(1, still_s=5000, restarted_in_place_attempt=0), "answers"))), End):
        assert said.rule == "stall" and said.evidence["still_s"] == 5000.0 and said.reason
