"""Faults of the line between machine and controller, and of what an agent says over it.

In scope: tunnel.* and agent.heartbeat_stall, lies, old_version as conditions of a machine that hold while they last,
rented or not. What they do to a message: sim/lines.py and sim/ports/link.py. agent.duplicate, reorder and late act on
messages and are asked for there. Out of scope: the agent's process (sim/faults/agent_faults.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.truth import NS

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.spec import FaultSpec
    from sim.world import World

CONDITIONS = (
    "tunnel.down", "tunnel.half_open", "tunnel.port_busy", "tunnel.rpc_port_missing", "tunnel.slow",
    "tunnel.wrong_peer", "agent.heartbeat_stall", "agent.lies", "agent.old_version",
)


def _nothing() -> None:
    """The engine's own record that the kind is on is all there is to switch."""


def tunnel_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def condition(fault: FaultSpec, machine_id: int | None) -> Undo:
        return _nothing

    table: dict[str, Apply] = dict.fromkeys(CONDITIONS, condition)
    table["tunnel.flap"] = lambda fault, machine_id: _flap(world, fault, machine_id)
    return table


def _flap(world: World, fault: FaultSpec, machine_id: int | None) -> Undo:
    """Down first, then up, in turns, until it ends."""
    loop, flapping = world.loop, world.lines.flapping
    machines = [machine_id] if machine_id is not None else [m.id for m in world.scenario.machines]
    up_ns, down_ns = (round(float(fault.params[k]) * NS) for k in ("up_s", "down_s"))
    over = False

    def turn(down: bool) -> None:
        if over:
            return
        for machine in machines:
            if down:
                flapping[machine] = None
            else:
                flapping.pop(machine, None)
        world.changed()
        loop.at(loop.now_ns + (down_ns if down else up_ns), lambda: turn(not down))

    def end() -> None:
        nonlocal over
        over = True
        for machine in machines:
            flapping.pop(machine, None)

    turn(True)
    return end
