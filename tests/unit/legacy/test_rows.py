"""The old manager's monitor, a test a row: threshold and reason; and what it must not do better than it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proverfleet.domain.events import Decision, End, Extra, Gone, Judged, OfferFact, Rent, Resolved, RowFact
from proverfleet.domain.fleet import NS, DestroyState, Fleet, ListEntry, Measured, Order, Orphan, Rental
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId, mark
from proverfleet.domain.market_facts import Offer
from proverfleet.domain.report import Report
from sim.legacy import LegacyBrain, Limits

MIN = 60
START = 1_772_323_200 * NS
FLEET = "fleet1"
CONTRACT, MACHINE = ContractId(32733029), MachineId(42011)

BLANK = Report(
    rental=IntentId("aaaa"), token="", boot="b", seq=1, backlog=0, mono_ns=0, clock_id="c", stage="params", attempt=0,
    p=None, concurrency=None, daemon="old", version="legacy", bytes_received=0, bytes_hashed=0, bytes_total=1,
    srs_bytes=0, partitions=0, proofs_accepted=0, proofs_failed=0, busy_s=0.0, starved_s=0.0, restarts_agent=0,
    restarts_prover=0, restarts_container=0,
)


def row(contract: ContractId = CONTRACT, machine: MachineId = MACHINE, label: str | None = None) -> RowFact:
    return RowFact(contract, machine, HostId(7001), label, "running", "running", "running", "", 0.296, 0.0, 10.0)


def rental(stage: str = "active", since_min: float = 0.0, report: Report | None = BLANK, **changes: Any) -> Rental:
    """One that has been in ``stage`` for ``since_min`` min at minute 600."""
    fields: dict[str, Any] = {
        "intent": IntentId("aaaa"), "slot": -1, "order": "o1", "machine_id": MACHINE, "host_id": HostId(7001),
        "gpu_name": "RTX PRO 4000", "num_gpus": 1, "gpu_ram_mb": 24_000, "gpu_frac": 1.0, "cpu_ram_mb": 504_000,
        "price_usd_per_hour": 0.296, "bid_usd_per_hour": None, "min_rate": 50.0, "min_rate_from": "hard-coded",
        "min_rate_explicit": False, "image": "image", "contract_id": CONTRACT, "stage": stage, "last": report,
        "stage_wall_ns": {"requested": START, stage: START + round((600 - since_min) * MIN * NS)},
    }
    return Rental(**{**fields, **changes})


def fleet(*rentals: Rental, trust: str = "trusted", **changes: Any) -> Fleet:
    out = Fleet(fleet_id=FLEET, wall_ns=START + 600 * MIN * NS, list_trust=trust, list_ok=trust == "trusted",
                ids=tuple(f"id{i}" for i in range(8)))
    for r in rentals:
        out.rentals[r.intent] = r
        if r.contract_id is not None and r.stage != "gone":
            out.by_contract[r.contract_id] = r.intent
            out.rows[r.contract_id] = row(r.contract_id, r.machine_id or MACHINE)
    for name, value in changes.items():
        setattr(out, name, value)
    return out


def decide(f: Fleet, limits: Limits | None = None) -> tuple[Decision, ...]:
    return LegacyBrain(limits).decide(f).decisions


def reasons(f: Fleet, limits: Limits | None = None) -> list[str]:
    return [d.reason for d in decide(f, limits) if isinstance(d, End)]


# ---------------------------------------------------------------- row 0


def listed_machine(reason: str = "operator") -> dict[MachineId, ListEntry]:
    return {MACHINE: ListEntry(MACHINE, reason, 0, 1, False, True)}


@pytest.mark.parametrize("stage", ["loading", "setup", "benchmark", "active"])
def test_row_0_ends_whatever_is_on_a_bad_machine_at_once(stage: str) -> None:
    f = fleet(rental(stage), blacklist=listed_machine("slow once"))
    assert reasons(f) == ["machine 42011 is on the bad list: slow once"]


def test_row_0_entries_never_expire_and_need_no_evict() -> None:
    entry = listed_machine()[MACHINE]
    assert entry.until_wall_ns == 1 and not entry.evict
    assert reasons(fleet(rental(), blacklist={MACHINE: entry}))


# ---------------------------------------------------------------- row 1


def orphan(since_min: float) -> Orphan:
    contract = ContractId(99)
    listed_ns = 600 * MIN * NS
    return Orphan(contract, IntentId("zzzz"), listed_ns - round(since_min * MIN * NS), row(contract, label="pf.x.zzzz"))


@pytest.mark.parametrize(("age_min", "ends"), [(15.0, False), (15.1, True)])
def test_row_1_ends_a_labelled_contract_without_a_row_after_15_min(age_min: float, ends: bool) -> None:
    f = fleet(orphans={ContractId(99): orphan(age_min)}, listed_ns=600 * MIN * NS)
    extras = [d for d in decide(f) if isinstance(d, Extra)]
    assert bool(extras) is ends
    if ends:
        assert extras[0].reason == "labelled, and not registered after 15 min"


def test_row_1_never_ends_what_it_created_itself_however_long_it_loads() -> None:
    assert decide(fleet(rental("loading", since_min=590, report=None))) == ()


# ---------------------------------------------------------------- rows 2 and 3


@pytest.mark.parametrize(("age_min", "ends"), [(90.0, False), (90.1, True)])
def test_row_2_ends_a_set_up_after_90_min_though_bytes_come_in(age_min: float, ends: bool) -> None:
    f = fleet(rental("setup", age_min, replace(BLANK, bytes_received=1 << 37)))
    assert reasons(f) == (["parameters not there 90 min after registration"] if ends else [])


@pytest.mark.parametrize(("limit_min", "age_min", "ends"), [(45, 45.0, False), (45, 45.1, True), (20, 20.1, True)])
def test_row_3_ends_a_benchmark_by_age_though_proofs_come_in(limit_min: int, age_min: float, ends: bool) -> None:
    f = fleet(rental("benchmark", age_min, replace(BLANK, stage="batch", proofs_accepted=11)))
    expected = [f"no rate {limit_min} min after the parameters"] if ends else []
    assert reasons(f, Limits(benchmark_s=limit_min * 60.0)) == expected


def test_the_default_limit_of_a_benchmark_is_45_min() -> None:
    assert Limits().benchmark_s == 2700.0


def test_ages_are_the_wall_clocks_and_believe_a_step() -> None:
    f = fleet(rental("setup", 10))
    assert reasons(f) == []
    f.wall_ns += 3 * 3600 * NS
    assert reasons(f) != []


def test_nothing_watches_what_runs() -> None:
    assert decide(fleet(rental("active", since_min=500, judged="passed"))) == ()


# ---------------------------------------------------------------- row 4


@pytest.mark.parametrize(
    ("rate", "min_rate", "reason"),
    [
        (0.0, 50.0, "bench_rate 0.0 below min_rate 50.0"),
        (41.32, 50.0, "bench_rate 41.3 below min_rate 50.0"),
        (0.0, 29.0, "bench_rate 0.0 below min_rate 29.0"),
    ],
)
def test_row_4_speaks_as_in_the_field(rate: float, min_rate: float, reason: str) -> None:
    done = replace(BLANK, stage="batch", bench=(0, 0, 0.0), bench_rate_proofs_per_hour=rate)
    ends = [d for d in decide(fleet(rental("benchmark", 10, done, min_rate=min_rate))) if isinstance(d, End)]
    assert [e.reason for e in ends] == [reason]
    assert ends[0].verdict == "slow"


def test_row_4_in_active_too_and_without_a_listing() -> None:
    done = replace(BLANK, stage="active", bench_rate_proofs_per_hour=49.9)
    for trust in ("trusted", "failed", "malformed"):
        assert reasons(fleet(rental("active", 1, done), trust=trust)) == ["bench_rate 49.9 below min_rate 50.0"]


def test_a_rate_that_suffices_passes_once() -> None:
    done = replace(BLANK, stage="active", bench=(12, 0, 800.0), bench_rate_proofs_per_hour=50.0)
    passed = [d for d in decide(fleet(rental("active", 1, done))) if isinstance(d, Judged)]
    assert [(d.outcome, d.rate_proofs_per_hour, d.proofs) for d in passed] == [("passed", 50.0, 12)]
    assert decide(fleet(rental("active", 1, done, judged="passed"))) == ()


# ---------------------------------------------------------------- row 5


def test_row_5_one_empty_listing_ends_every_registered_row_and_destroys_none() -> None:
    other = rental(intent=IntentId("bbbb"), contract_id=ContractId(2), machine_id=MachineId(2))
    decisions = decide(fleet(rental(), other, trust="empty"))
    assert [(type(d), d.intent) for d in decisions if isinstance(d, End | Gone)] == [
        (End, "aaaa"), (Gone, "aaaa"), (End, "bbbb"), (Gone, "bbbb"),
    ]
    assert all(d.reason == "disappeared from the listing" for d in decisions if isinstance(d, End))


def test_row_5_leaves_what_never_registered() -> None:
    assert decide(fleet(rental("loading", report=None), trust="empty")) == ()


@pytest.mark.parametrize("trust", ["failed", "malformed", "partial", ""])
def test_a_listing_that_failed_ends_the_pass(trust: str) -> None:
    assert decide(fleet(rental("setup", 500), blacklist=listed_machine(), trust=trust)) == ()


# ---------------------------------------------------------------- kills, and what is forgotten


def test_one_destroy_and_never_again() -> None:
    brain = LegacyBrain()
    assert not brain.persistent_destroy
    assert not brain.destroy_again(fleet(), DestroyState(attempts=1, last_error="HTTP 500"))


def test_a_killed_row_is_forgotten_after_its_one_call_whatever_that_said() -> None:
    waits = rental("destroying", destroy=DestroyState(attempts=0))
    assert decide(fleet(waits)) == ()
    tried = rental("destroying", destroy=DestroyState(attempts=1, acknowledged=False, last_error="HTTP 500"))
    assert [type(d) for d in decide(fleet(tried))] == [Gone]


def test_an_operators_kill_is_done_as_it_comes() -> None:
    f = fleet(rental(), kills_ordered={IntentId("aaaa"): "too hot"}, trust="failed")
    assert reasons(f) == ["ordered by the operator: too hot"]


# ---------------------------------------------------------------- creates


def offer(machine: int, price: float = 0.3, offer_id: int = 1) -> OfferFact:
    return OfferFact(OfferId(offer_id), MachineId(machine), HostId(1), "RTX 4090", 1, 24_564, 1.0, "EPYC", 504_000,
                     2000.0, 1000.0, price, 0.1, 50.0, price / 50.0)


def order(min_rate: float | None = None) -> Order:
    return Order("o1", MACHINE, min_rate, None, None)


@pytest.mark.parametrize(("given", "number"), [(29.0, 29.0), (None, 50.0), (0.0, 50.0), (-3.0, 50.0)])
def test_min_rate_is_the_deploys_own_number_else_50(given: float | None, number: float) -> None:
    f = fleet(orders={"o1": order(given)}, ordered_offers=(offer(MACHINE),))
    rents = [d for d in decide(f) if isinstance(d, Rent)]
    assert [(r.min_rate, r.order, r.disk_gb) for r in rents] == [(number, "o1", 250.0)]


def test_an_order_is_one_click() -> None:
    brain = LegacyBrain()
    f = fleet(orders={"o1": order()})
    plan = brain.decide(f)
    assert plan.asks.search_machines == (MACHINE,) and plan.decisions == ()
    f.orders["o1"].intent = IntentId("aaaa")
    f.ordered_offers = (offer(MACHINE),)
    assert brain.decide(f).decisions == ()


def test_a_bad_machine_is_not_deployed() -> None:
    f = fleet(orders={"o1": order()}, ordered_offers=(offer(MACHINE),), blacklist=listed_machine())
    assert decide(f) == ()


def test_the_target_is_filled_from_the_cheapest_offers_without_a_limit_a_beat() -> None:
    f = fleet(target=4, offers=tuple(offer(100 + i, offer_id=i) for i in range(6)))
    rents = [d for d in decide(f) if isinstance(d, Rent)]
    assert [r.offer.machine_id for r in rents] == [100, 101, 102, 103]
    assert [r.min_rate for r in rents] == [50.0] * 4
    assert len({r.intent for r in rents}) == 4


def test_what_is_on_the_page_counts_towards_the_target() -> None:
    f = fleet(rental(), target=1, offers=(offer(100),))
    assert decide(f) == ()


def test_a_create_without_an_answer_is_found_on_the_page_or_nowhere() -> None:
    lost = rental("requested", report=None, contract_id=None, in_doubt=True)
    f = fleet(lost)
    assert decide(f) == ()
    f.rows[CONTRACT] = row(label=mark(f.fleet_id, lost.intent))  # type: ignore[arg-type]
    assert [d.contract_id for d in decide(f) if isinstance(d, Resolved)] == [CONTRACT]


# ---------------------------------------------------------------- offers


def market_offer(machine: int, price: float, **changes: Any) -> Offer:
    fields: dict[str, Any] = {
        "offer_id": OfferId(machine), "machine_id": MachineId(machine), "host_id": HostId(1), "gpu_name": "RTX 4090",
        "num_gpus": 1, "gpu_ram_mb": 24_564, "gpu_frac": 1.0, "cpu_name": "EPYC", "cpu_cores_effective": 64.0,
        "cpu_ram_mb": 504_000, "disk_gb": 2000.0, "inet_down_mbps": 1000.0, "pcie_gb_per_s": 24.0, "reliability": 0.99,
        "price_usd_per_hour": price, "min_bid_usd_per_hour": 0.1,
    }
    return Offer(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [{"disk_gb": 249.0}, {"cpu_ram_mb": 239_000}, {"cpu_cores_effective": 25.0}, {"inet_down_mbps": 100.0},
     {"gpu_ram_mb": 12_000}, {"price_usd_per_hour": 0.91}],
)
def test_the_default_filter(changes: dict[str, Any]) -> None:
    found = LegacyBrain().choose(fleet(), [market_offer(1, 0.3), market_offer(2, 0.3, **changes)], [MachineId(2)])
    assert [o.machine_id for o in found.best] == [1]
    assert [o.machine_id for o in found.ordered] == [2], "an order looks past the filter"
    assert sum(found.excluded.values()) == 1


def test_the_highest_rate_ever_measured_counts_for_ever() -> None:
    def measured(rate: float, wall_ns: int) -> Measured:
        return Measured(MachineId(2), "RTX 4090", 1, "image", rate, 0.0, 12, 1.0, wall_ns)

    f = fleet(measured={MachineId(2): [measured(90.0, 0), measured(10.0, START)]})
    found = LegacyBrain().choose(f, [market_offer(1, 0.3), market_offer(2, 0.5)], [])
    assert [o.machine_id for o in found.best] == [2, 1]
    assert found.best[0].expected_rate_proofs_per_hour == 90.0
