"""Faults of the consumer: work.starved, work.rejected. Everything is settled first, so that what was proved before
counts as before.

In scope: no tasks for everybody or for one machine, valid proofs refused in part. Out of scope: wrong tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.host import settle_all
from sim.ports.work import Refusing

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.spec import FaultSpec
    from sim.world import World


def work_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def starved(fault: FaultSpec, machine_id: int | None) -> Undo:
        settle_all(world)
        world.work.starve(fault, machine_id, True)

        def over() -> None:
            settle_all(world)
            world.work.starve(fault, machine_id, False)

        return over

    def rejected(fault: FaultSpec, machine_id: int | None) -> Undo:
        settle_all(world)
        one = Refusing(fault, machine_id, world.now_ns(), fault.times)
        world.work.refusing.append(one)

        def over() -> None:
            settle_all(world)
            if one in world.work.refusing:
                world.work.refusing.remove(one)

        return over

    return {"work.starved": starved, "work.rejected": rejected}
