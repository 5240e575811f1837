"""The line between each machine and the controller's computer: does a packet pass, and if not, how does that look?

In scope: the tunnel. kinds as conditions of a machine's line, what a stalled reporter lets through, which of a rental's
channels are dark. Out of scope: the messages themselves (sim/ports/link.py), the box (sim/host.py), the controller's
own side (sim/net.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.container import Container
    from sim.contract import SimContract
    from sim.world import World

KINDS = (
    "tunnel.down", "tunnel.half_open", "tunnel.flap", "tunnel.port_busy", "tunnel.wrong_peer", "tunnel.slow",
    "agent.heartbeat_stall", "agent.duplicate", "agent.reorder", "agent.late", "agent.lies", "controller.offline",
)
OPEN, REFUSED, SWALLOWED = "", "refused", "swallowed"
"""How a line answers: packets pass; the connect is refused at once; writes are taken and nothing comes back."""


class Lines:
    """``clean``: no fault is on that any line could feel. ``flapping``: machines whose flapping line is down now."""

    __slots__ = ("clean", "flapping", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.clean = True
        self.flapping: dict[int, None] = {}
        world.on_change.append(self._look)

    def _look(self) -> None:
        active = self.world.faults.active
        self.clean = all(active(kind) is None for kind in KINDS)

    def state(self, machine_id: int) -> str:
        """How this machine's tunnel answers right now."""
        active = self.world.faults.active
        if machine_id in self.flapping or active("tunnel.down", machine_id) or active("tunnel.port_busy", machine_id):
            return REFUSED
        peer = active("tunnel.wrong_peer", machine_id)
        if peer is not None and peer.params["how"] != "old_socket":
            return REFUSED  # the key does not fit, or the one who answers knows nothing of us
        if peer is not None or active("tunnel.half_open", machine_id):
            return SWALLOWED
        return OPEN

    def rpc(self, machine_id: int) -> bool:
        """Does the chain node's port answer through the forward?"""
        active = self.world.faults.active
        if active("tunnel.rpc_port_missing", machine_id) is not None:
            return False
        down = active("tunnel.down", machine_id)
        return down is None or not down.params["rpc_too"]

    def ssh(self, machine_id: int) -> bool:
        """Does the direct way to the machine, past the tunnel, exist?"""
        active = self.world.faults.active
        down = active("tunnel.down", machine_id)
        if down is not None and down.params["ssh_too"]:
            return False
        peer = active("tunnel.wrong_peer", machine_id)
        return peer is None or peer.params["how"] != "old_key"

    # ------------------------------------------------------------ channels

    def agent_heard(self, container: Container) -> bool:
        """Would a report of its agent reach a controller that listens?"""
        process = self.world.agents.get(container.contract_id)
        if process is None or not process.alive or process.suspended or not container.reachable:
            return False
        if self.clean:
            return True
        machine_id = container.host.spec.id
        return (self.state(machine_id) == OPEN and self.world.net.controller_reachable()
                and self.world.faults.active("agent.heartbeat_stall", machine_id) is None)

    def probe_answers(self, container: Container) -> bool:
        """Would the controller's probe find its agent or its daemon alive?"""
        if not container.reachable or not self.ssh(container.host.spec.id):
            return False
        process = self.world.agents.get(container.contract_id)
        return (process is not None and process.alive) or container.prover.daemon is not None


class Darkness:
    """Keeps ``dark`` and ``agent_reachable`` of every contract's truth; looks again when something changed.

    Dark: reports do not pass, the probe gets no answer, and neither the market's columns nor the consumer have anything
    to show because nothing moves or the market has lost contact. A market that lies or fails is no darkness."""

    __slots__ = ("lines", "world")

    def __init__(self, world: World, lines: Lines) -> None:
        self.world = world
        self.lines = lines
        world.on_change.append(self.look)

    def look(self) -> None:
        now = self.world.loop.now_ns
        for contract in self.world.market.live.values():
            container = contract.container
            if container is None:
                continue
            heard = self.lines.agent_heard(container)
            if heard != contract.truth.agent_reachable.on:
                if heard:
                    contract.truth.agent_reachable.open(now)
                else:
                    contract.truth.agent_reachable.close(now)
            dark = not heard and not self._shows(contract, container) and not self.lines.probe_answers(container)
            if dark != contract.truth.dark.on:
                if dark:
                    contract.truth.dark.open(now)
                else:
                    contract.truth.dark.close(now)

    def _shows(self, contract: SimContract, container: Container) -> bool:
        """Do market columns move, or proofs arrive?"""
        return not contract.stopped and container.host.online and contract.truth.progress.on
