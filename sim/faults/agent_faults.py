"""Faults of the agent's process: agent.crash, agent.restart, agent.hang. The prover beside it lives on.

Out of scope here: what happens to its messages (sim/ports), an agent of another version (sim/wiring.py starts it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.spec import FaultSpec
    from sim.supervisor import Supervised


class AgentPlaces(Protocol):
    """What the wiring offers about agents."""

    def agents_on(self, machine_id: int | None) -> list[Supervised]:
        """The agents in the containers that run on this machine; None: on every one."""
        ...


def agent_faults(places: AgentPlaces) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def crash(spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        hit = [agent for agent in places.agents_on(machine_id) if agent.crash()]
        again_s = float(spec.params.get("restarts_after_s", 20))
        for agent in hit:
            if again_s > 0:
                agent.start_in(again_s)
        return None if hit else False

    def restart(spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        hit = [agent for agent in places.agents_on(machine_id) if agent.stop()]
        for agent in hit:
            agent.start()
        return None if hit else False

    def hang(spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        found = [agent.process for agent in places.agents_on(machine_id)]
        processes = [process for process in found if process is not None and not process.suspended]
        for process in processes:
            process.suspend(clock=False)
        if not processes:
            return False

        def go_on() -> None:
            for process in processes:
                process.resume()

        return go_on

    return {"agent.crash": crash, "agent.restart": restart, "agent.hang": hang}
