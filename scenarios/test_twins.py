"""INV-3, INV-5 and INV-8 by twin runs: what lies, outages, clocks and repeated messages must not change."""

from __future__ import annotations

import pytest

from sim.faults.catalogue import KINDS
from sim.spec import DeploySpec, FaultSpec, MachineSpec, Scenario
from sim.twin import CLOCKS, LIES, REPEATS, twins

# Two good machines, one too slow, one whose prover crashes at every try: ends for reasons of their own go on.
MACHINES = [
    MachineSpec(id=501, host=51, price_usd_per_hour=0.32, rate_proofs_per_hour=60.0),
    MachineSpec(id=502, host=52, price_usd_per_hour=0.32, rate_proofs_per_hour=55.0),
    MachineSpec(id=503, host=53, price_usd_per_hour=0.32, rate_proofs_per_hour=28.0),
    MachineSpec(id=504, host=54, price_usd_per_hour=0.32, works=False),
]


def fault(kind: str, at_s: float, for_s: float | None, **params: object) -> FaultSpec:
    found = KINDS[kind]
    return FaultSpec(kind=kind, at_s=at_s, for_s=for_s, times=found.times, params={**found.defaults(), **params})


def world(*faults: FaultSpec) -> Scenario:
    for index, one in enumerate(faults):
        one.index = index
    return Scenario(name="twins", hours=6.0, machines=list(MACHINES), faults=list(faults),
                    deploy=[DeploySpec(m.id, 60.0 * i) for i, m in enumerate(MACHINES)])


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind, for_s, params", [
    ("market.list_empty", 3600.0, {}),
    ("market.list_empty", 3600.0, {"how": "no_field"}),
    ("market.list_partial", 3600.0, {"how": "rows_missing"}),
    ("market.list_partial", 3600.0, {"how": "page_error"}),
    ("market.list_stale", 3600.0, {"age_s": 3000.0}),
    ("market.list_garbage", 3600.0, {}),
    ("market.list_gone_410", 3600.0, {"status": 200}),
    ("market.status", 3600.0, {"value": "exited"}),
    ("market.row_poison", 3600.0, {"field": "actual_status", "how": "null", "alternate": True}),
    ("market.get_null", 3600.0, {}),
    ("market.auth_broken", 7200.0, {}),
    ("market.hang", 3600.0, {}),
    ("controller.offline", 2700.0, {}),
    ("tunnel.down", 2400.0, {}),
    ("tunnel.half_open", 900.0, {}),
])
def test_a_lie_or_an_outage_ends_nothing_that_its_twin_keeps(
    kind: str, for_s: float, params: dict[str, object], seed: int
) -> None:
    faults = [fault(kind, 9000.0, for_s, **params)]
    if kind == "market.get_null":  # reads by id are asked for only when a listing is in doubt
        faults.append(fault("market.list_empty", 9000.0, for_s))
    pair = twins(world(*faults), seed, LIES)
    assert pair.run.faults.get(kind), "the fault never fired"
    assert pair.ended == []


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind, params", [
    ("host.clock_step", {"by_s": 3600.0}),
    ("host.clock_step", {"by_s": -7200.0}),
    ("host.clock_skew", {"by_s": 420.0, "drift_ppm": 200.0}),
    ("controller.clock_step", {"by_s": 5700.0}),
    ("controller.clock_step", {"by_s": -5700.0}),
])
def test_a_clock_changes_no_end(kind: str, params: dict[str, object], seed: int) -> None:
    found = KINDS[kind]
    pair = twins(world(fault(kind, 7000.0, found.for_s, **params)), seed, CLOCKS)
    assert pair.run.faults.get(kind), "the fault never fired"
    assert pair.same_ends


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind, params", [
    ("agent.duplicate", {"copies": 3}),
    ("agent.reorder", {"within_s": 120.0}),
    ("agent.late", {"by_s": 300.0}),
])
def test_late_and_repeated_messages_change_no_end(kind: str, params: dict[str, object], seed: int) -> None:
    pair = twins(world(fault(kind, 3000.0, 14400.0, **params)), seed, REPEATS)
    assert pair.run.faults.get(kind), "the fault never fired"
    assert pair.same_ends
