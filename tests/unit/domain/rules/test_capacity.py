"""capacity: fills the target, never more; backs off; orders whatever their rank."""

from __future__ import annotations

import pytest

from proverfleet.domain.fleet import NS, DestroyState, ExtraContract, Failure, ListEntry, Order
from proverfleet.domain.pending import end, pending_for
from proverfleet.domain.policy import Policy
from proverfleet.domain.rules import capacity
from tests.builders import NOW_NS, ago, fleet, offer, rental


def rents(f):
    pending = pending_for(f)
    return capacity.check(f, pending), pending


def searched(*rentals, target=2, offers=None, **fields):
    found = tuple(offer(n) for n in range(1, 6)) if offers is None else offers
    return fleet(*rentals, target=target, offers=found, **{"offers_beat": 6000, **fields})


def test_rents_the_best_offers_into_free_slots():
    said, pending = rents(searched(rental(1)))
    assert [(r.slot, r.offer.offer_id, r.min_rate, r.order) for r in said] == [(1, 9001, 38.0, "")]
    assert pending.search
    assert said[0].intent == "0000a000" and said[0].min_rate_from.startswith("ceil(")


def test_never_more_than_two_a_beat_nor_than_the_target():
    said, _ = rents(searched(target=5))
    assert [r.slot for r in said] == [0, 1] and said[0].offer.machine_id != said[1].offer.machine_id
    assert rents(searched(rental(1), rental(2)))[0] == []


def test_offers_are_from_this_beats_search_and_tried_once():
    assert rents(searched(offers_beat=5998))[0] == []
    said, _ = rents(searched(target=1, offers_tried=[9001, 9002]))
    assert said[0].offer.offer_id == 9003


@pytest.mark.parametrize("fields", [{"frozen": True}, {"list_ok": False}, {"credit_usd": 0.2}, {"credit_usd": 0.0}])
def test_a_brake_forbids_creates(fields):
    said, pending = rents(searched(rental(1), **fields))
    assert said == [] and not pending.search


def test_a_barren_market_is_asked_every_five_beats():
    nothing = (offer(1, price=9.0),)
    poor = Policy(cap_usd_per_hour=1.0)
    assert not rents(searched(target=1, offers=nothing, policy=poor))[1].search
    assert not rents(searched(target=1, offers=nothing, policy=poor, offers_beat=5996))[1].search
    assert rents(searched(target=1, offers=nothing, policy=poor, offers_beat=5995))[1].search
    assert rents(searched(target=1, offers_beat=5997))[1].search


def test_a_create_in_doubt_blocks_its_slot_only():
    said, _ = rents(searched(rental(1, "requested", in_doubt=True), target=2))
    assert [r.slot for r in said] == [1]


def test_what_is_destroyed_is_replaced_once_acknowledged_or_failing_for_ten_minutes():
    def ending(**state):
        r = rental(1, "destroying", destroy=DestroyState(**state))
        r.stage_heard_ns["destroying"] = ago(state.pop("_", 60))
        return r
    assert rents(searched(ending(attempts=1), target=1))[0] == []
    assert len(rents(searched(ending(attempts=1, acknowledged=True), target=1))[0]) == 1
    r = ending(attempts=5)
    r.stage_heard_ns["destroying"] = ago(600)
    assert len(rents(searched(r, target=1))[0]) == 1


def test_what_this_beat_ends_is_not_replaced_in_it():
    r = rental(1)
    f = searched(r, target=1)
    pending = pending_for(f)
    pending.take(end(r, "stall", "stalled", "", "", "machine"))
    assert capacity.check(f, pending) == []


def test_extra_contracts_and_orphans_count_as_paid():
    assert rents(searched(target=1, extras={9: ExtraContract(9, "x", "duplicate", "")}))[0] == []


def test_suspect_and_draining_are_replaced():
    assert len(rents(searched(rental(1, suspect=True), target=1))[0]) == 1
    assert len(rents(searched(rental(1, draining=True), target=1))[0]) == 1


def test_one_spare_for_an_overdue_pull():
    late = rental(1, "loading")
    late.observed_ns["loading"] = 1499 * NS
    assert rents(searched(late, target=1))[0] == []
    late.observed_ns["loading"] = 1500 * NS
    assert [r.slot for r in rents(searched(late, target=1))[0]] == [0]
    late.running_listed_ns = NOW_NS
    assert rents(searched(late, target=1))[0] == []
    late.running_listed_ns = None
    spare = rental(2, "loading", slot=0)
    spare.observed_ns["loading"] = 60 * NS
    assert rents(searched(late, spare, target=1))[0] == []
    spare.observed_ns["loading"] = 1500 * NS
    assert rents(searched(late, spare, target=1))[0] == []


def test_a_slot_waits_for_its_back_off():
    f = searched(target=2, slot_wait_until_heard_ns={0: NOW_NS + 1})
    assert [r.slot for r in rents(f)[0]] == [1]


def test_a_listed_machine_is_never_rented_nor_one_that_failed_lately():
    entry = ListEntry(50_001, "slow", 0, None, False, False)
    assert [r.offer.machine_id for r in rents(searched(target=1, blacklist={50_001: entry}))[0]] == [50_002]
    failed = Failure("f", 50_001, 8_001, "r", "RTX 4090", "i", ago(3599), 0, True)
    assert [r.offer.machine_id for r in rents(searched(target=1, failures=[failed]))[0]] == [50_002]


def test_a_host_of_three_failed_machines_is_avoided():
    failures = [Failure(f"f{i}", 60_000 + i, 8_001, "r", "RTX 4090", "i", ago(9000), 0, True) for i in range(3)]
    assert [r.offer.host_id for r in rents(searched(target=1, failures=failures))[0]] == [8_002]


def test_the_table_ranks_and_excludes_nobody():
    assert len(rents(searched(target=1, offers=(offer(1, rate=20.0),)))[0]) == 1


def test_caps_hold_together_with_what_this_beat_rents():
    assert len(rents(searched(target=3, policy=Policy(cap_usd_per_hour=0.6)))[0]) == 2
    assert len(rents(searched(target=3, policy=Policy(cap_usd_per_hour=0.59)))[0]) == 1
    assert rents(searched(target=3, policy=Policy(cap_usd_per_day=10.0), spent_today_usd=9.0))[0] == []


def test_an_order_is_rented_whatever_its_rank_and_beyond_the_target():
    order = Order("o1", 50_077, 29.0, None, None)
    f = fleet(target=0, orders={"o1": order}, ordered_offers=(offer(77, price=0.9, rate=10.0),))
    said, pending = rents(f)
    assert [(r.order, r.slot, r.min_rate) for r in said] == [("o1", -1, 29.0)]
    assert pending.search and list(pending.machines) == [50_077]


def test_an_order_counts_towards_the_target():
    order = Order("o1", 50_077, None, None, None)
    f = searched(target=1, orders={"o1": order}, ordered_offers=(offer(77),))
    assert [(r.order, r.slot) for r in rents(f)[0]] == [("o1", 0)]


def test_an_order_that_was_rented_is_not_rented_again():
    order = Order("o1", 50_077, None, None, None, intent="r0001")
    assert rents(fleet(target=0, orders={"o1": order}, ordered_offers=(offer(77),)))[0] == []
