"""Worlds as data, for Hypothesis: machines with a hidden truth, a workload, and a fault schedule.

The seed is only noise (it has no size to shrink); everything that matters is drawn here, so that the shrinker reduces
machines and faults, not dice.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sim.faults.catalogue import KINDS
from sim.spec import DeploySpec, FaultSpec, MachineSpec, Scenario

PRICE = 0.32  # min_rate 40 at the default target

MACHINE_KINDS: dict[str, dict[str, Any]] = {
    "good": {"rate_proofs_per_hour": 60.0},
    "just good": {"rate_proofs_per_hour": 43.0},
    "too slow": {"rate_proofs_per_hour": 30.0},
    "low ram": {"rate_proofs_per_hour": 45.0, "ram_gib": 256.0},
    "slow line": {"rate_proofs_per_hour": 55.0, "inet_down_mbps": 200.0},
    "wrong size first": {"rate_proofs_per_hour": 55.0, "first_sizing": {"partition_workers": 18, "concurrency": 3}},
    "no card": {"gpu_actual": []},
}

MARKS = ("created", "running", "registered", "params", "warmup", "batch", "active")

# kind -> (parameters, longest "for" in s; None: a moment)
MACHINE_FAULTS: dict[str, tuple[dict[str, Any], float | None]] = {
    "prover.oom": ({"where": "host"}, None),
    "prover.crash": ({"exit_code": 139, "text": "segmentation fault"}, None),
    "prover.hang": ({"cleared_by": "prover_restart"}, 14400),
    "prover.freeze": ({}, 2700),
    "host.container_restart": ({}, 60),
    "host.neighbour": ({}, 1800),
    "host.throttle": ({"factor": 0.7}, 1800),
    "host.offline": ({"alive": True}, 3600),
    "host.clock_step": ({"by_s": 3600.0}, None),
    "host.suspend": ({}, 900),
    "tunnel.down": ({}, 3600),
    "tunnel.half_open": ({}, 1800),
    "tunnel.flap": ({}, 1800),
    "agent.crash": ({}, None),
    "agent.duplicate": ({}, 3600),
    "agent.reorder": ({}, 3600),
    "agent.late": ({}, 3600),
}

WORLD_FAULTS: dict[str, tuple[dict[str, Any], float | None]] = {
    "market.list_empty": ({}, 5400),
    "market.list_partial": ({}, 3600),
    "market.list_stale": ({}, 3600),
    "market.list_garbage": ({}, 3600),
    "market.error": ({"op": "all"}, 1800),
    "market.rate_limit": ({}, 1800),
    "market.auth_broken": ({}, 3600),
    "market.lost_reply": ({}, 3600),
    "market.destroy_fails": ({}, 7200),
    "controller.crash": ({}, 2400),
    "controller.offline": ({}, 2700),
    "controller.suspend": ({}, 1800),
    "controller.clock_step": ({"by_s": 5700.0}, None),
    "controller.db_locked": ({}, 300),
    "params.source_down": ({}, 7200),
    "work.starved": ({}, 3600),
}


@st.composite
def machines(draw: st.DrawFn) -> list[MachineSpec]:
    kinds = draw(st.lists(st.sampled_from(sorted(MACHINE_KINDS)), min_size=1, max_size=4))
    return [MachineSpec(id=500 + i, host=50 + i // 2, price_usd_per_hour=PRICE, **MACHINE_KINDS[kind])
            for i, kind in enumerate(kinds)]


@st.composite
def machine_fault(draw: st.DrawFn, count: int) -> FaultSpec:
    kind = draw(st.sampled_from(sorted(MACHINE_FAULTS)))
    params, longest = MACHINE_FAULTS[kind]
    for_s = float(draw(st.integers(60, int(longest)))) if longest and longest > 60 else longest
    mark, at_s = draw(st.sampled_from(MARKS)), float(draw(st.integers(0, 5400)))
    return FaultSpec(kind=kind, mark=mark, at_s=at_s, for_s=for_s,
                     machines=[500 + draw(st.integers(0, count - 1))],
                     params={**KINDS[kind].defaults(), **params}, times=KINDS[kind].times)


@st.composite
def world_fault(draw: st.DrawFn) -> FaultSpec:
    kind = draw(st.sampled_from(sorted(WORLD_FAULTS)))
    params, longest = WORLD_FAULTS[kind]
    for_s = float(draw(st.integers(60, int(longest)))) if longest else None
    return FaultSpec(kind=kind, at_s=float(draw(st.integers(0, 5 * 3600))), for_s=for_s,
                     params={**KINDS[kind].defaults(), **params}, times=KINDS[kind].times)


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """A small world: 1-4 machines, each deployed, and up to 5 faults."""
    boxes = draw(machines())
    faults = draw(st.lists(st.one_of(machine_fault(len(boxes)), world_fault()), max_size=5))
    for index, fault in enumerate(faults):
        fault.index = index
    return Scenario(
        name="drawn",
        hours=6.0,
        deploy=[DeploySpec(machine=m.id, at_s=60.0 * i) for i, m in enumerate(boxes)],
        machines=boxes,
        faults=faults,
    )
