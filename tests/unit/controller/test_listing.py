"""When is a listing believed? Each case is a lie or an accident of a real market."""

from __future__ import annotations

import pytest
from fakes_ports import FakeClock as Clock
from fakes_ports import FakeMarket, Life, fails, row, run

from proverfleet.controller.calls import Calls, Listing, read_listing
from proverfleet.controller.observer import Observer, shrink_limit
from proverfleet.controller.redact import Redactor
from proverfleet.controller.tasks import spawn
from proverfleet.domain.events import Listed
from proverfleet.domain.fleet import ExtraContract, Fleet, Rental
from proverfleet.domain.ids import ContractId, IntentId, MachineId, OfferId, mark
from proverfleet.errors import Malformed, RouteGone, ServerError
from proverfleet.ports import Page, Row

FLEET = "f00d"


def rental(n: int, stage: str = "active") -> Rental:
    made = Rental(
        IntentId(f"aaaa{n}"), n, "", MachineId(n), None, "", 1, 0, 1.0, 0, 0.3, None, 38.0, "", False, "image"
    )
    made.contract_id = ContractId(n)
    made.stage = stage
    return made


def fleet_of(count: int) -> tuple[Fleet, list[Row]]:
    fleet = Fleet(fleet_id=FLEET)
    for n in range(1, count + 1):
        fleet.rentals[IntentId(f"aaaa{n}")] = rental(n)
        fleet.by_contract[ContractId(n)] = IntentId(f"aaaa{n}")
    return fleet, [row(n, machine=n, label=mark(FLEET, IntentId(f"aaaa{n}"))) for n in range(1, count + 1)]  # type: ignore[arg-type]


def whole(rows: list[Row], skipped: int = 0) -> Listing:
    return Listing(tuple(rows), True, len(rows) + skipped, skipped)


def see(observer: Observer, fleet: Fleet, listing: Listing, present: dict[int, bool] | None = None) -> Listed:
    """One listing; a trusted one is folded into ``rows``. ``present``: what reads by id say (others fail)."""
    weighed = observer.weigh(fleet, listing)
    answers = {c: (present or {})[c] for c in weighed.doubtful if c in (present or {})}
    event = observer.conclude(fleet, weighed, answers)
    for fact in event.changed:
        fleet.rows[fact.contract_id] = fact
    for contract_id in event.gone:
        del fleet.rows[contract_id]
    return event


@pytest.fixture
def observer() -> Observer:
    return Observer(Redactor(("topsecret",)))


def test_only_changes_and_only_our_rows_are_told(observer: Observer) -> None:
    fleet, rows = fleet_of(3)
    foreign = [row(500, label=None), row(501, label="pf.beef.aaaa1"), row(502, label="pf.f00d.aaaa1 x")]
    first = see(observer, fleet, whole(rows + foreign))
    assert (first.trust, first.total, [f.contract_id for f in first.changed]) == ("trusted", 6, [1, 2, 3])
    again = see(observer, fleet, whole(foreign + rows[::-1]))
    assert again.changed == () and again.gone == () and again.hash == first.hash
    rows[1] = row(2, machine=2, label=None, status="exited")
    moved = see(observer, fleet, whole(rows))
    assert [(f.contract_id, f.actual_status) for f in moved.changed] == [(2, "exited")] and moved.hash != first.hash


def test_an_orphan_with_our_mark_is_told(observer: Observer) -> None:
    fleet, rows = fleet_of(1)
    seen = see(observer, fleet, whole([*rows, row(77, label=f"pf.{FLEET}.bbbb1")]))
    assert [f.contract_id for f in seen.changed] == [1, 77]


def test_odd_values_become_text_or_none(observer: Observer) -> None:
    fleet, rows = fleet_of(1)
    rows[0] = row(
        1, machine=1, label=17, status={"a": 1}, intended_status=None, cur_state=5, price_usd_per_hour=float("nan"),  # type: ignore[arg-type]
        gpu_util="much", status_msg="token=abc and topsecret " + "x" * 300,
    )
    fact = see(observer, fleet, whole(rows)).changed[0]
    assert (fact.label, fact.actual_status, fact.intended_status, fact.cur_state) == ("17", "<dict>", None, "5")
    assert fact.price_usd_per_hour is None and fact.gpu_util is None
    assert fact.status_msg is not None and len(fact.status_msg) <= 200
    assert "abc" not in fact.status_msg and "topsecret" not in fact.status_msg


def test_empty_while_owning(observer: Observer) -> None:
    fleet, rows = fleet_of(4)
    see(observer, fleet, whole(rows))
    assert see(observer, fleet, whole([])).trust == "empty"
    assert see(observer, fleet, whole([]), {1: True, 2: False}).trust == "empty"
    assert see(observer, fleet, whole([]), {1: False, 2: False, 3: False}).trust == "empty"
    confirmed = see(observer, fleet, whole([]), dict.fromkeys(range(1, 5), False))
    assert (confirmed.trust, confirmed.gone) == ("trusted", (1, 2, 3, 4))


def test_empty_while_owning_nothing_is_no_lie(observer: Observer) -> None:
    fleet, _ = fleet_of(0)
    assert see(observer, fleet, whole([])).trust == "trusted"
    fleet, _ = fleet_of(1)
    fleet.rentals[IntentId("aaaa1")].stage = "destroying"
    fleet.rentals[IntentId("aaaa1")].destroy.acknowledged = True
    assert see(observer, fleet, whole([])).trust == "trusted"


def test_shrunken_needs_proof_and_one_missing_does_not(observer: Observer) -> None:
    fleet, rows = fleet_of(10)
    see(observer, fleet, whole(rows))
    assert see(observer, fleet, whole(rows[2:])).trust == "shrunken"
    assert see(observer, fleet, whole(rows[2:]), {1: False, 2: True}).trust == "shrunken"
    one = see(observer, fleet, whole(rows[1:]))
    assert (one.trust, one.gone) == ("trusted", (1,))
    both = see(observer, fleet, whole(rows[3:]), {2: False, 3: False})
    assert (both.trust, both.gone) == ("trusted", (2, 3))
    assert [shrink_limit(n) for n in (1, 10, 19, 20, 35)] == [1, 1, 1, 2, 3]


def test_a_listing_that_lacks_what_exists_by_id_is_stale(observer: Observer) -> None:
    fleet, rows = fleet_of(10)
    see(observer, fleet, whole(rows))
    event = see(observer, fleet, whole(rows[1:]), {1: True})
    assert event.trust == "stale" and event.gone == () and "1" in event.why


def test_a_contract_that_comes_back_is_a_copy_of_the_past_unless_it_exists(observer: Observer) -> None:
    fleet, rows = fleet_of(3)
    see(observer, fleet, whole(rows))
    see(observer, fleet, whole(rows[1:]), {1: False})
    assert see(observer, fleet, whole(rows), {1: False}).trust == "stale"
    assert see(observer, fleet, whole(rows)).trust == "stale"
    assert see(observer, fleet, whole(rows), {1: True}).trust == "trusted"
    gone = fleet.rentals[IntentId("aaaa2")]
    see(observer, fleet, whole([rows[0], rows[2]]), {2: False})
    gone.stage = "gone"
    fresh = Observer(Redactor(()))  # after a restart: only the fold remembers
    assert see(fresh, fleet, whole(rows), {2: False}).trust == "stale"


def test_an_unreadable_row_may_be_ours(observer: Observer) -> None:
    fleet, rows = fleet_of(3)
    see(observer, fleet, whole(rows))
    kept = see(observer, fleet, whole(rows[1:], skipped=1), {1: True})
    assert (kept.trust, kept.gone, kept.skipped) == ("trusted", (), 1)
    unread = see(observer, fleet, whole(rows[1:], skipped=1))
    assert (unread.trust, unread.gone) == ("trusted", ())
    really = see(observer, fleet, whole(rows[1:], skipped=1), {1: False})
    assert (really.trust, really.gone) == ("trusted", (1,))


def test_an_extra_contract_counts_as_ours(observer: Observer) -> None:
    fleet, rows = fleet_of(0)
    fleet.extras[ContractId(9)] = ExtraContract(ContractId(9), IntentId("aaaa9"), "duplicate", "")
    assert [f.contract_id for f in see(observer, fleet, whole([row(9, label=None)])).changed] == [9]
    assert see(observer, fleet, whole([])).trust == "empty"
    del rows


@pytest.mark.parametrize(("error", "trust"), [(Malformed("x"), "malformed"), (ServerError(500), "failed"),
                                               (RouteGone("410"), "failed")])
def test_a_failed_page_voids_the_listing(error: Exception, trust: str, observer: Observer) -> None:
    async def main() -> Listing:
        market = FakeMarket()
        for n in range(1, 31):
            market.make(n, None)
        market.trouble["list"] = [*fails_none(), *fails(error, 2)]
        return await read_listing(Calls(market, Clock(Life()), spawn))

    listing = run(main())
    assert not listing.whole and listing.rows == ()
    fleet, _ = fleet_of(2)
    assert see(observer, fleet, listing).trust == trust


def fails_none():  # type: ignore[no-untyped-def]
    async def fine() -> None:
        return None

    return [fine]


def test_pages_are_put_together_and_one_failure_is_tried_again() -> None:
    async def main() -> tuple[Listing, int]:
        market = FakeMarket()
        for n in range(1, 61):
            market.make(n, None)
        market.trouble["list"] = fails(ServerError(502))
        return await read_listing(Calls(market, Clock(Life()), spawn)), market.count("list")

    listing, calls = run(main())
    assert listing.whole and len(listing.rows) == 60 and calls == 4


class Pages(FakeMarket):
    def __init__(self, *pages: Page) -> None:
        super().__init__()
        self.pages = list(pages)

    async def list_page(self, after: int | None) -> Page:
        return self.pages[after or 0]


@pytest.mark.parametrize(("pages", "why"), [
    ((Page((row(1), row(2)), 1, 3), Page((row(2), row(3)), None, 3)), ""),
    ((Page((row(1), row(2)), 1, 4), Page((row(2, status="x"), row(3)), None, 4)), "differs"),
    ((Page((row(1), row(2)), 1, 4), Page((row(2), row(3)), None, 4)), "announced"),
    ((Page((row(1),), 1, 2), Page((row(2),), None, 3)), "changed"),
    ((Page((row(1),), 1, 2), Page((row(2),), 1, 2)), "came twice"),
    ((Page((row(1),), None, 3, skipped=1),), "announced"),
    ((Page((row(1),), None, 2, skipped=1),), ""),
    ((Page((row(1),), None, None),), ""),
])
def test_what_makes_a_listing_whole(pages: tuple[Page, ...], why: str) -> None:
    listing = run(read_listing(Pages(*pages)))
    assert listing.whole is (why == "") and why in listing.why


def test_the_limiter_lets_destroys_go_first_and_calms_down() -> None:
    async def main() -> None:
        import asyncio

        from proverfleet.errors import RateLimited

        market = FakeMarket(latency_s=0.0)
        clock = Clock(Life())
        calls = Calls(market, clock, spawn)
        doomed = [market.make(n, None) for n in range(3)]
        market.trouble["get"] = fails(RateLimited(3.0))
        loop = asyncio.get_running_loop()
        reads = [spawn(calls.get(ContractId(n)), "get") for n in range(3)]
        await asyncio.sleep(0.5)
        destroys = [spawn(calls.destroy(c), "destroy") for c in doomed]
        more = spawn(calls.get(ContractId(7)), "get")
        for task in [*destroys, *reads, more]:
            await task
        ops = [op for op, _ in market.sent]
        assert ops[:3] == ["get"] * 3 and ops[3:6] == ["destroy"] * 3 and ops[6:] == ["get"] * 2
        assert loop.time() >= 3.0 * 4
        await asyncio.sleep(3600)
        for _ in range(8):
            await calls.account()
            await asyncio.sleep(400)
        assert calls.limiter.interval_s == 0.0

    run(main())


def test_a_hanging_call_ends_at_its_deadline_and_is_not_tried_again() -> None:
    async def main() -> None:
        import asyncio

        from fakes_ports import hangs

        from proverfleet.errors import TimedOut

        market = FakeMarket()
        market.trouble = {"get": hangs(), "create": hangs()}
        calls = Calls(market, Clock(Life()), spawn)
        with pytest.raises(TimedOut):
            await calls.get(ContractId(1))
        assert asyncio.get_running_loop().time() == 10.0 and market.count("get") == 1
        with pytest.raises(TimedOut):
            await calls.create(OfferId(1), None)  # type: ignore[arg-type]
        assert asyncio.get_running_loop().time() == 40.0

    run(main())
