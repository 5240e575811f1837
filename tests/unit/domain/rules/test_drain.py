"""drain, budget: who leaves first, and that a proof in flight may finish."""

from __future__ import annotations

from proverfleet.domain.events import Directed, End, Marked
from proverfleet.domain.fleet import NS
from proverfleet.domain.pending import pending_for
from proverfleet.domain.policy import Policy
from proverfleet.domain.rules import budget, drain
from tests.builders import ago, fleet, proofs, rental, report


def leaves(f, rule=drain):
    return rule.check(f, pending_for(f))


def who(said):
    return [d.intent for d in said if isinstance(d, End | Marked)]


def test_not_yet_productive_first_then_idle_then_the_dearest():
    dear = rental(1, price_usd_per_hour=0.9, rate_proofs_per_hour=50.0)
    cheap = rental(2, rate_proofs_per_hour=50.0)
    idle = rental(3, still_s=200)
    bench = rental(4, "benchmark")
    loads = rental(5, "loading")
    everyone = (dear, cheap, idle, bench, loads)
    order = ["r0005", "r0004", "r0003", "r0001", "r0002"]
    for n in range(6):
        assert who(leaves(fleet(*everyone, target=5 - n))) == order[:n]


def test_what_has_no_proof_in_flight_ends_at_once_the_rest_drains():
    said = leaves(fleet(rental(1, "setup"), target=0))
    assert isinstance(said[0], End) and said[0].verdict == "not_needed"
    marked, order = leaves(fleet(rental(1), target=0))
    assert isinstance(marked, Marked) and marked.name == "draining"
    assert isinstance(order, Directed) and order.what == "drain" and order.id.startswith("drain.target_lowered.")


def test_deploy_orders_are_never_surplus():
    assert leaves(fleet(rental(1, order="o1"), target=0)) == []
    assert who(leaves(fleet(rental(1, order="o1"), rental(2), target=1))) == ["r0002"]
    assert leaves(fleet(rental(1, order="o1"), rental(2, order="o2"), target=1)) == []


def test_never_on_an_untrusted_listing():
    assert leaves(fleet(rental(1), target=0, list_ok=False)) == []


def test_a_rental_that_the_market_does_not_show_keeps_nobody_from_staying():
    f = fleet(rental(1), rental(2, absent_listings=1), target=1)
    assert leaves(f) == []


def test_an_overdue_pull_leaves_once_its_spare_earns():
    late, spare = rental(1, "loading"), rental(2, "benchmark", slot=0)
    late.observed_ns["loading"] = 2000 * NS
    assert leaves(fleet(late, spare, target=1)) == []
    assert who(leaves(fleet(late, rental(2, slot=0), target=1))) == ["r0001"]


def drained(age_s, **fields):
    return rental(1, "draining", draining=True, drain_heard_ns=ago(age_s), **fields)


def finish(r):
    f = fleet(r)
    return drain.finish(f, r, pending_for(f))


def test_ends_when_the_agent_has_nothing_left_or_after_15_min():
    said = finish(drained(60, last=report("stopped")))
    assert isinstance(said, End) and (said.verdict, said.blame) == ("not_needed", "nobody")
    assert finish(drained(1049)) is None
    assert isinstance(finish(drained(1050)), End)
    assert finish(drained(60, last=report("stopped"), acked=["drain.cap_usd_per_day.x"])).verdict == "budget"


def test_a_broken_hourly_cap_sheds_until_it_holds():
    some = [rental(n, price_usd_per_hour=0.30) for n in (1, 2, 3)]
    assert who(leaves(fleet(*some, policy=Policy(cap_usd_per_hour=0.9)), budget)) == []
    assert len(who(leaves(fleet(*some, policy=Policy(cap_usd_per_hour=0.65)), budget))) == 1
    assert len(who(leaves(fleet(*some, policy=Policy(cap_usd_per_hour=0.3)), budget))) == 2


def test_pulls_that_bill_storage_only_do_not_break_it():
    some = [rental(n, "loading", price_usd_per_hour=0.30) for n in (1, 2, 3)]
    assert leaves(fleet(*some, policy=Policy(cap_usd_per_hour=0.1)), budget) == []


def test_an_idle_rental_goes_before_a_benchmark_that_progresses():
    some = [rental(1, "benchmark"), rental(2, still_s=200)]
    assert who(leaves(fleet(*some, policy=Policy(cap_usd_per_hour=0.5)), budget)) == ["r0002"]


def test_the_daily_cap_sheds_all_from_96_percent_on():
    some = [proofs(rental(n), 50) for n in (1, 2)]
    assert leaves(fleet(*some, policy=Policy(cap_usd_per_day=10.0), spent_today_usd=9.59), budget) == []
    assert len(who(leaves(fleet(*some, policy=Policy(cap_usd_per_day=10.0), spent_today_usd=9.6), budget))) == 2
