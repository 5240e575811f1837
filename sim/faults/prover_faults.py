"""Faults of the prover that happen at a moment: prover.oom, crash, bench_error, cache_corrupt.

In scope: a daemon or a benchmark that dies now, a cache file that is bad from now on (the next daemon that reads it
dies). They take no effect where nothing runs, and then did not fire. Out of scope: the memory model's own kills
(sim/prover.py), and prover.'s lasting kinds, which are conditions of the machine (sim/conditions.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sim.faults.host_faults import hosts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.container import Container
    from sim.faults.engine import Apply
    from sim.spec import FaultSpec
    from sim.world import World


def prover_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def moment(strike: Callable[[Container, FaultSpec], bool]) -> Apply:
        def apply(fault: FaultSpec, machine_id: int | None) -> Literal[False] | None:
            hit = [strike(container, fault) for host in hosts_of(world, machine_id)
                   for container in list(host.containers.values())]
            return None if any(hit) else False

        return apply

    return {
        "prover.oom": moment(lambda container, fault: container.prover.strike(fault)),
        "prover.crash": moment(lambda container, fault: container.prover.strike(fault)),
        "prover.bench_error": moment(lambda container, fault: container.prover.bench_error(fault)),
        "prover.cache_corrupt": moment(_cache_corrupt),
    }


def _cache_corrupt(container: Container, fault: FaultSpec) -> bool:
    container.settle(container.world.now_ns())
    if fault.params["what"] == "pce":
        if not container.pce:
            return False
        container.bad_pce = fault
        return True
    if not container.params.ready:
        return False
    container.bad_srs = fault
    return True
