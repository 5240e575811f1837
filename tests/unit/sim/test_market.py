"""The simulated market: what it bills, what it says, and the typed outcome of each of its faults."""

from __future__ import annotations

from typing import Any

import pytest
from places import LABEL, Place, fault

from proverfleet.domain.ids import ContractId, OfferId
from proverfleet.errors import (
    AuthBroken,
    Malformed,
    NotAllowed,
    NotFound,
    RateLimited,
    Refused,
    RouteGone,
    ServerError,
    Unreachable,
)
from proverfleet.ports import CreateSpec
from sim.counter import cause_of
from sim.market import STORAGE_SHARE_MAX, STORAGE_USD_PER_GB_MONTH

STORAGE = STORAGE_USD_PER_GB_MONTH / 720 * 250  # $/h of the usual disk
PRICE = 0.36


def approx(value: float) -> Any:
    return pytest.approx(value, abs=1e-9)


def contract_id(contract: Any) -> ContractId:
    return ContractId(contract.contract_id)


# ---------------------------------------------------------------- billing


def test_storage_is_billed_while_loading_and_everything_while_running() -> None:
    place = Place()
    contract = place.rent()
    created = contract.created_ns
    place.run(60)
    truth = place.truth(contract)
    assert truth.paid_usd == approx(STORAGE * (place.world.now_ns() - created) / 3.6e12)
    while truth.running is None:
        place.run(1)
    running = truth.running
    place.to(running / 1e9 + 3600)
    loading_h = (running - created) / 3.6e12
    assert place.truth(contract).paid_usd == approx(STORAGE * loading_h + PRICE)
    assert truth.paid.at(place.world.now_ns()) == approx(PRICE)
    assert place.ask(place.port.account()).credit_usd == pytest.approx(100 - truth.paid_usd, abs=1e-4)
    assert place.world.truth.credit.at(place.world.now_ns()) == pytest.approx(100 - PRICE, abs=0.01)


def test_the_offer_is_the_spec_s_price_with_the_usual_disk_and_dearer_with_more() -> None:
    place = Place()
    assert place.market.offers(250.0)[0].price_usd_per_hour == approx(PRICE)
    assert place.market.offers(500.0)[0].price_usd_per_hour == pytest.approx(PRICE + STORAGE, abs=1e-6)
    assert place.market.offers(1001.0) == ()
    cheap = Place(price_usd_per_hour=0.05)
    _, storage = cheap.market.lots[1].prices(250.0)
    assert storage == approx(STORAGE_SHARE_MAX * 0.05)


def test_an_offline_host_bills_nothing_and_shows_unknown_then_offline() -> None:
    place = Place(fault("host.offline", at_s=1000, for_s=600, machines=[1], unknown_s=120))
    contract = place.running()
    place.to(999)
    before = place.truth(contract).paid_usd
    place.to(1060)
    assert contract.state.actual_status == "unknown"
    place.to(1300)
    assert contract.state.actual_status == "offline"
    row = place.row(contract)
    assert row is not None and (row.actual_status, row.intended_status) == ("offline", "running")
    place.to(1599)
    assert place.truth(contract).paid_usd == approx(before + PRICE / 3600)
    place.to(1700)
    assert contract.state.actual_status == "running"
    assert place.truth(contract).paid_usd == approx(before + PRICE * 101 / 3600)


def test_destroying_ends_the_bill_and_puts_the_machine_back_under_another_id() -> None:
    place = Place()
    contract = place.running()
    offer = place.market.lots[1].offer_id
    assert place.market.offers(250.0) == ()
    place.ask(place.port.destroy(contract_id(contract)))
    truth = contract.truth
    assert truth.gone is not None and truth.gone_by == "destroy" and place.world.market.live == {}
    paid = truth.paid_usd
    place.run(3600)
    assert place.truth(contract).paid_usd == paid and place.market.ledger.rate_usd_per_hour == 0
    assert place.market.offers(250.0)[0].offer_id != offer
    assert place.row(contract) is None
    with pytest.raises(NotFound):
        place.ask(place.port.destroy(contract_id(contract)))
    assert [(c.op, c.done, c.failed) for c in place.world.truth.calls if c.op == "destroy"] == [
        ("destroy", True, False), ("destroy", False, True)]


def test_credit_that_runs_out_stops_everything_and_the_disk_bills_on() -> None:
    place = Place(credit_usd=0.05)
    contract = place.running()
    place.run(1200)
    truth = place.truth(contract)
    assert contract.stopped == "credit" and truth.market_stopped.on
    assert truth.paid.values[-1] == approx(STORAGE)
    assert truth.paid_usd > 0.05 and place.ask(place.port.account()).credit_usd == 0.0
    row = place.row(contract)
    assert row is not None
    assert (row.actual_status, row.intended_status, row.cur_state, row.next_state) == (
        "exited", "stopped", "stopped", "stopped")
    with pytest.raises(Refused) as refused:
        place.ask(place.port.start(contract_id(contract)))
    assert refused.value.code == "insufficient_credit"
    place.market.ledger.top_up(10.0)
    place.ask(place.port.start(contract_id(contract)))
    place.run(30)
    assert contract.state.actual_status == "running" and not truth.market_stopped.on


# ---------------------------------------------------------------- states


def test_states_and_texts_on_the_way_to_running() -> None:
    place = Place()
    contract = place.rent()
    row = place.row(contract)
    assert row is not None and row.actual_status == "loading" and row.label == LABEL
    assert (row.intended_status, row.cur_state, row.next_state) == ("running",) * 3
    assert row.gpu_util is None and row.disk_usage_gb is None
    assert row.price_usd_per_hour == approx(PRICE)
    seen = []
    while contract.truth.running is None:
        place.run(5)
        seen.append(contract.state.status_msg)
    assert "pulling image: layer 3 of 12 (16.7 %)" in seen
    row = place.row(contract)
    assert row is not None and row.actual_status == "running" and row.gpu_util == 0.0
    assert str(row.status_msg).startswith("success, running")
    assert list(contract.truth.marks) == ["requested", "created", "running"]


def test_a_listing_comes_in_pages_of_25_by_rising_id() -> None:
    place = Place(fault("market.foreign_contract", count=60))
    first = place.list()
    second = place.list(first.next)
    third = place.list(second.next)
    assert [len(p.rows) for p in (first, second, third)] == [25, 25, 10] and third.next is None
    assert {p.total for p in (first, second, third)} == {60}
    ids = [r.contract_id for p in (first, second, third) for r in p.rows]
    assert ids == sorted(set(ids))
    assert first.rows[0].label is None and not place.world.truth.contracts[ids[0]].ours


def test_an_offer_is_good_for_one_contract() -> None:
    place = Place()
    offer = place.market.offers(250.0)[0]
    place.rent()
    with pytest.raises(Refused) as refused:
        place.ask(place.port.create(offer.offer_id, CreateSpec(LABEL, "image", 250.0, {})))
    assert refused.value.code == "no_such_ask" and cause_of(refused.value) is None


def test_a_bid_below_the_lowest_makes_a_stopped_contract() -> None:
    place = Place(min_bid_usd_per_hour=0.2)
    created = place.create(bid_usd_per_hour=0.1)
    assert created.contract_id is not None and not created.started
    contract = place.market.contracts[created.contract_id]
    assert contract.stopped == "pending" and contract.container is None
    place.run(3600)
    assert place.truth(contract).paid_usd == pytest.approx(STORAGE, rel=1e-3)
    with pytest.raises(Refused):
        place.ask(place.port.start(contract_id(contract)))


def test_same_seed_same_ids() -> None:
    ids = [[(o.offer_id, o.machine_id) for o in Place(machines=5, seed=3).market.offers(100)] for _ in range(2)]
    assert ids[0] == ids[1] and len({i for i, _ in ids[0]}) == 5


# ---------------------------------------------------------------- faults on listings


def test_list_empty() -> None:
    place = Place(fault("market.list_empty", at_s=1000, times=1))
    place.running()
    place.to(1001)
    page = place.list()
    assert page.rows == () and page.total == 0 and page.next is None
    assert len(place.list().rows) == 1  # times = 1
    assert place.world.faults.counts == {"market.list_empty": 1}


@pytest.mark.parametrize(("kind", "params"), [
    ("market.list_empty", {"how": "no_field"}), ("market.list_empty", {"how": "blank"}),
    *[("market.list_garbage", {"how": h}) for h in ("truncated", "html", "wrong_type", "not_a_list", "content_type")],
])
def test_a_malformed_listing_is_one_error(kind: str, params: dict[str, Any]) -> None:
    place = Place(fault(kind, **params))
    with pytest.raises(Malformed) as error:
        place.list()
    cause = cause_of(error.value)
    assert cause is not None and cause.params["how"] == params["how"]


@pytest.mark.parametrize("status", [410, 200])
def test_list_gone_410(status: int) -> None:
    with pytest.raises(RouteGone):
        Place(fault("market.list_gone_410", status=status)).list()


def test_list_partial_page_error_hits_the_second_page_or_the_only_one() -> None:
    place = Place(fault("market.foreign_contract", count=30), fault("market.list_partial"))
    first = place.list()
    assert len(first.rows) == 25
    with pytest.raises(ServerError):
        place.list(first.next)
    alone = Place(fault("market.foreign_contract", count=3), fault("market.list_partial"))
    with pytest.raises(ServerError):
        alone.list()


@pytest.mark.parametrize(("total", "expected"), [("true", 2), ("matches", 1)])
def test_list_partial_rows_missing(total: str, expected: int) -> None:
    place = Place(fault("market.list_partial", at_s=900, how="rows_missing", total=total, machines=[2]), machines=2)
    kept = place.running(1)
    place.running(2, "pf.fleet1.intent2")
    place.to(901)
    page = place.list()
    assert [r.contract_id for r in page.rows] == [kept.contract_id] and page.total == expected


@pytest.mark.parametrize("how", ["row_twice", "row_moves"])
def test_list_partial_rows_that_wander(how: str) -> None:
    place = Place(fault("market.foreign_contract", count=30), fault("market.list_partial", how=how))
    first = place.list()
    rows = [*first.rows, *place.list(first.next).rows]
    assert first.total == 30 and len(rows) == (31 if how == "row_twice" else 29)


def test_list_stale_shows_the_past_and_by_id_as_well_if_asked() -> None:
    place = Place(fault("market.list_stale", at_s=1000, for_s=600, age_s=120))
    contract = place.running()
    place.to(1010)
    place.ask(place.port.destroy(contract_id(contract)))
    assert len(place.list().rows) == 1 and place.row(contract) is None
    place.to(1140)
    assert place.list().rows == ()
    both = Place(fault("market.list_stale", at_s=60, age_s=300, by_id=True))
    late = both.rent()
    assert both.row(late) is not None
    both.to(100)
    assert both.list().rows == () and both.row(late) is None
    both.to(400)
    row = both.row(late)
    assert row is not None and row.actual_status == "loading" and late.state.actual_status == "running"


@pytest.mark.parametrize(("field", "how", "value", "shown"), [
    ("label", "null", None, None), ("label", "missing", None, None), ("label", "wrong_type", None, 12345),
    ("actual_status", "value", "weird", "weird"), ("machine_id", "wrong_type", None, None),
    ("host_id", "value", 7, 7), ("dph_total", "wrong_type", None, None), ("gpu_util", "value", 55, 55.0),
])
def test_row_poison_is_carried_as_the_live_client_would(field: str, how: str, value: Any, shown: Any) -> None:
    place = Place(fault("market.row_poison", at_s=900, field=field, how=how, value=value))
    place.running()
    place.to(901)
    row = place.list().rows[0]
    name = {"dph_total": "price_usd_per_hour"}.get(field, field)
    assert getattr(row, name) == shown


def test_row_poison_of_the_id_makes_a_row_that_cannot_be_read_every_other_time() -> None:
    place = Place(fault("market.row_poison", at_s=900, field="id", how="null", alternate=True))
    place.running()
    place.to(901)
    pages = [place.list() for _ in range(4)]
    assert [(len(p.rows), p.skipped, p.total) for p in pages] == [(0, 1, 1), (1, 0, 1), (0, 1, 1), (1, 0, 1)]


def test_status_says_something_else_in_the_listing_only() -> None:
    place = Place(fault("market.status", at_s=900, value=["odd"], status_msg="hm", machines=[1]))
    contract = place.running()
    place.to(901)
    listed, by_id = place.list().rows[0], place.row(contract)
    assert listed.actual_status == ["odd"] and listed.status_msg == "hm"
    assert by_id is not None and by_id.actual_status == "running" and contract.state.actual_status == "running"


def test_get_null() -> None:
    place = Place(fault("market.get_null", at_s=900, for_s=100))
    contract = place.running()
    place.to(901)
    assert place.row(contract) is None and len(place.list().rows) == 1
    place.to(1001)
    assert place.row(contract) is not None


# ---------------------------------------------------------------- faults on any call


def test_error_with_and_without_effect() -> None:
    place = Place(fault("market.error", status=503, times=1, op="create"))
    with pytest.raises(ServerError) as error:
        place.create()
    assert error.value.status == 503 and error.value.in_doubt and place.market.live == {}
    place = Place(fault("market.error", status=0, after_effect=True, times=1, op="create"))
    with pytest.raises(Unreachable):
        place.create()
    assert len(place.market.live) == 1
    call = place.world.truth.calls[-1]
    assert call.done and call.failed and call.contract_id in place.market.live


@pytest.mark.parametrize(("kind", "made"), [("market.lost_request", 0), ("market.lost_reply", 1)])
def test_lost_calls_are_never_answered(kind: str, made: int) -> None:
    place = Place(fault(kind))
    with pytest.raises(TimeoutError):
        place.create()
    assert len(place.market.live) == made and place.now_s == pytest.approx(30.001, abs=0.001)
    assert [c.op for c in place.world.truth.calls] == ["create"]


@pytest.mark.parametrize(("delay_s", "effect", "made_at_once"), [(8, "first", 1), (8, "last", 0)])
def test_hang(delay_s: float, effect: str, made_at_once: int) -> None:
    place = Place(fault("market.hang", delay_s=delay_s, effect=effect, op="create"))
    with pytest.raises(TimeoutError):
        place.ask(place.port.create(place.market.offers(1)[0].offer_id, CreateSpec(LABEL, "i", 250.0, {})), 5.0)
    assert len(place.market.live) == made_at_once
    place.run(10)
    assert len(place.market.live) == 1  # a caller that gave up does not stop the market


def test_hang_for_ever_and_slow_answers() -> None:
    place = Place(fault("market.hang", op="user"))
    with pytest.raises(TimeoutError):
        place.ask(place.port.account())
    place = Place(fault("market.hang", op="user", delay_s=4))
    assert place.ask(place.port.account()).credit_usd == 100.0 and place.now_s > 4


def test_rate_limit_is_one_bucket_an_operation() -> None:
    place = Place(fault("market.rate_limit", interval_s=3.0, retry_after_s=2.5))
    place.list()
    with pytest.raises(RateLimited) as error:
        place.list()
    assert error.value.retry_after_s == 2.5
    place.ask(place.port.account())
    place.run(3)
    place.list()
    silent = Place(fault("market.rate_limit"))
    silent.list()
    with pytest.raises(RateLimited) as error:
        silent.list()
    assert error.value.retry_after_s is None


def test_auth_broken_is_never_not_found() -> None:
    place = Place(fault("market.auth_broken", at_s=900))
    contract = place.running()
    place.to(901)
    for call in (place.port.list_page(None), place.port.get(contract_id(contract)),
                 place.port.destroy(contract_id(contract)), place.port.account(), place.port.search(250.0)):
        with pytest.raises(AuthBroken):
            place.ask(call)
    assert contract.contract_id in place.market.live


def test_key_scope_denies_one_operation() -> None:
    place = Place(fault("market.key_scope", at_s=900))
    contract = place.running()
    place.to(901)
    with pytest.raises(NotAllowed):
        place.ask(place.port.destroy(contract_id(contract)))
    assert len(place.list().rows) == 1


def test_controller_offline_hears_nothing() -> None:
    place = Place(fault("controller.offline", for_s=60))
    with pytest.raises(TimeoutError):
        place.ask(place.port.list_page(None), 15.0)
    place.to(61)
    place.list()


# ---------------------------------------------------------------- faults on create and destroy


def test_no_such_ask_takes_the_offer_out_of_the_search() -> None:
    place = Place(fault("market.no_such_ask"))
    with pytest.raises(Refused) as error:
        place.create()
    assert error.value.code == "no_such_ask" and place.market.offers(250.0) == ()
    place.run(7300)
    assert len(place.market.offers(250.0)) == 1


def test_insufficient_credit_although_there_is_some() -> None:
    with pytest.raises(Refused) as error:
        Place(fault("market.insufficient_credit")).create()
    assert error.value.code == "insufficient_credit"


def test_create_pending_starts_after_a_while_or_never() -> None:
    place = Place(fault("market.create_pending", starts_after_s=300))
    created = place.create()
    assert not created.started and created.contract_id is not None
    contract = place.market.contracts[created.contract_id]
    row = place.row(contract)
    assert row is not None and (row.intended_status, row.cur_state) == ("stopped", "stopped")
    place.run(299)
    assert contract.container is None
    place.run(200)
    assert contract.state.actual_status == "running"


@pytest.mark.parametrize("how", ["no_key", "empty", "text", "null"])
def test_create_without_id_is_done_and_nameless(how: str) -> None:
    place = Place(fault("market.create_without_id", how=how))
    created = place.create()
    assert created.contract_id is None and created.started and len(place.market.live) == 1


@pytest.mark.parametrize(("how", "error"), [("error", ServerError), ("ignored", None), ("timeout", TimeoutError),
                                            ("slow", None)])
def test_destroy_fails(how: str, error: type[Exception] | None) -> None:
    place = Place(fault("market.destroy_fails", at_s=900, how=how))
    contract = place.running()
    place.to(901)
    if error is None:
        place.ask(place.port.destroy(contract_id(contract)))
    else:
        with pytest.raises(error):
            place.ask(place.port.destroy(contract_id(contract)))
    call = place.world.truth.calls[-1]
    assert contract.contract_id in place.market.live and not call.done
    place.run(91)
    assert (contract.contract_id in place.market.live) == (how != "slow") and call.done == (how == "slow")


def test_a_fault_of_one_machine_leaves_calls_about_others_alone() -> None:
    place = Place(fault("market.error", op="all", machines=[1], for_s=9000), machines=2)
    other = place.rent(2)
    with pytest.raises(ServerError):
        place.create(1)
    assert place.row(other) is not None and len(place.list().rows) == 1


# ---------------------------------------------------------------- faults that happen by themselves


def test_offer_reshuffle() -> None:
    place = Place(fault("market.offer_reshuffle", at_s=100))
    old = place.market.offers(250.0)[0].offer_id
    place.to(101)
    assert place.market.offers(250.0)[0].offer_id != old
    with pytest.raises(Refused):
        place.ask(place.port.create(OfferId(old), CreateSpec(LABEL, "i", 250.0, {})))


@pytest.mark.parametrize(("applies_to", "offer", "agreed"), [
    ("offers", 0.72, 0.36), ("contracts", 0.36, 0.72), ("both", 0.72, 0.72)])
def test_price_change_and_back(applies_to: str, offer: float, agreed: float) -> None:
    place = Place(fault("market.price_change", at_s=1000, for_s=100, factor=2.0, applies_to=applies_to), machines=2)
    contract = place.running(1)
    place.to(1050)
    assert place.market.offers(250.0)[0].price_usd_per_hour == pytest.approx(offer)
    assert contract.truth.paid.at(place.world.now_ns()) == pytest.approx(agreed)
    assert contract.truth.price.at(place.world.now_ns()) == pytest.approx(agreed)
    row = place.row(contract)
    assert row is not None and row.price_usd_per_hour == pytest.approx(agreed)
    place.to(1101)
    assert place.market.offers(250.0)[0].price_usd_per_hour == pytest.approx(0.36)
    assert contract.truth.price.at(place.world.now_ns()) == pytest.approx(0.36)


def test_outbid_stops_it_and_lets_it_go_on() -> None:
    place = Place(fault("market.outbid", at_s=1000, for_s=600))
    contract = place.running()
    place.to(1001)
    assert contract.state.actual_status == "running" and contract.state.intended_status == "stopped"
    assert contract.truth.paid.values[-1] == approx(STORAGE)
    place.to(1050)
    assert contract.state.actual_status == "exited" and contract.truth.market_stopped.on
    with pytest.raises(Refused) as error:
        place.ask(place.port.start(contract_id(contract)))
    assert error.value.code == "resources_unavailable"
    place.to(1601)
    assert contract.state.intended_status == "running"
    place.to(1620)
    assert contract.state.actual_status == "running" and not contract.truth.market_stopped.on


def test_outbid_without_a_rental_does_not_happen() -> None:
    place = Place(fault("market.outbid", at_s=10))
    place.to(11)
    assert place.world.truth.fired == []


@pytest.mark.parametrize("deletes_after_s", [0, 600])
def test_credit_exhausted(deletes_after_s: float) -> None:
    place = Place(fault("market.credit_exhausted", at_s=1000, for_s=3600, deletes_after_s=deletes_after_s))
    contract = place.running()
    place.to(1001)
    assert contract.stopped == "credit"
    with pytest.raises(Refused):
        place.ask(place.port.start(contract_id(contract)))
    place.to(1700)
    assert contract.gone == (deletes_after_s > 0)
    place.to(4601)
    assert place.market.ledger.credit_usd() == pytest.approx(50, abs=0.1)
    if not contract.gone:
        place.ask(place.port.start(contract_id(contract)))
        assert contract.state.intended_status == "running"


def test_foreign_contracts_bill_and_go() -> None:
    place = Place(fault("market.foreign_contract", count=2, label="pf.fleet1.looks", for_s=3600,
                        rows_missing_fields=True))
    page = place.list()
    assert len(page.rows) == 2 and page.rows[0].machine_id is None and page.rows[0].label is None
    assert all(not c.ours and c.intent is None for c in place.world.truth.contracts.values())
    place.to(3601)
    assert place.list().rows == () and place.market.ledger.credit_usd() == pytest.approx(100 - 2 * 0.204, abs=1e-3)
