"""The Probe port of one controller process: SSH to a machine, the parameter source, its own public address.

SSH answers while the box can be reached and the container runs; what it finds is what stands on that box, so under
tunnel.wrong_peer it may be somebody else's. Out of scope: keys of several operators, slow shells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proverfleet.domain.ids import ContractId
from proverfleet.errors import ProbeFailed
from proverfleet.ports import ProbeAnswer
from sim.net import PROBE
from sim.truth import NS

if TYPE_CHECKING:
    from sim.container import Container
    from sim.process import Process
    from sim.world import World

DEADLINE_NS = 10 * NS
OTHER_MARK = "pf.0000000000000000.0000000000"


def _failed() -> Exception:
    return ProbeFailed("no answer within 10 s")


class DirectProbe:
    __slots__ = ("_process", "_world")

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    async def machine(self, contract_id: ContractId) -> ProbeAnswer:
        async def serve() -> ProbeAnswer:
            contract = self._world.market.live.get(contract_id)
            if contract is None or contract.container is None:
                raise ProbeFailed("no route to host")
            return _look(self._world, contract.container)

        return await self._world.net.call(
            self._process, "probe", contract_id, serve, latency=PROBE, path=self._world.net.controller_reachable,
            deadline_ns=DEADLINE_NS, late=_failed,
        )

    async def source(self) -> bool:
        async def serve() -> bool:
            return bool(self._world.source.serves())

        return await self._world.net.call(
            self._process, "source", "", serve, latency=PROBE, path=self._world.net.controller_reachable,
            deadline_ns=DEADLINE_NS, late=_failed,
        )

    async def public_address(self) -> bool:
        async def serve() -> bool:
            return self._world.net.controller_reachable()

        return await self._world.net.call(self._process, "address", "", serve, latency=PROBE)


def _look(world: World, container: Container) -> ProbeAnswer:
    """What SSH finds. Raises ProbeFailed."""
    machine_id = container.host.spec.id
    if not container.reachable or not world.lines.ssh(machine_id):
        raise ProbeFailed("connection refused")
    agent = world.agents.get(container.contract_id)
    alive = agent is not None and agent.alive
    container.settle(world.now_ns())
    prover = container.prover
    status = prover.look()
    started = prover.started_ns
    up = status.alive and started is not None
    peer = world.faults.active("tunnel.wrong_peer", machine_id)
    other = peer is not None and peer.params["how"] == "other_agent"
    return ProbeAnswer(
        mark=OTHER_MARK if other else container.env.get("PF_MARK") or container.label or "",
        agent_alive=alive,
        daemon_start_s=started / NS if up and started is not None else None,
        partitions=status.partitions if up else None,
        proofs=status.proofs_accepted if up else None,
        bytes_on_disk=container.params.on_disk,
    )
