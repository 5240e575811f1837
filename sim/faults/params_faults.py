"""Faults of the parameter source and of fetched files: params.*.

In scope: a source that is down, stalls or is slow (for all, or for one machine), its mirror, a file that fails its
checksum. Out of scope: an error page appended to a file, two fetchers at once (the agent runs one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sim.faults.host_faults import hosts_of

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.spec import FaultSpec
    from sim.world import World


def params_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def source(fault: FaultSpec, machine_id: int | None) -> Undo:
        scope = (fault, machine_id)
        world.source.switch(on=scope)
        return lambda: world.source.switch(off=scope)

    def corrupt(fault: FaultSpec, machine_id: int | None) -> Literal[False] | None:
        hit = [container.params.corrupt(fault) for host in hosts_of(world, machine_id)
               for container in list(host.containers.values()) if container.up]
        return None if any(hit) else False

    return {"params.source_down": source, "params.slow": source, "params.stall": source, "params.corrupt": corrupt}
