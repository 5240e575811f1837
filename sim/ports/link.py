"""The agent's ports towards the controller, on the simulated line: link, tunnel, and its own contract's key.

A report is served by the controller's process in one go; one that was served stays stored even if its answer is lost.
In scope: every tunnel. kind, and agent.duplicate, reorder, late, lies, heartbeat_stall, below the sequence numbers.
Out of scope: partial messages, several links of one agent.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from proverfleet.domain.report import Answer, Report
from proverfleet.errors import LinkDown, MarketError, PortError, TimedOut, Unreachable
from sim.lies import lie
from sim.lines import OPEN, REFUSED
from sim.net import LINK, MARKET
from sim.stages import registered
from sim.truth import NS, STAGES, CallTruth

if TYPE_CHECKING:
    import asyncio

    from sim.container import Container
    from sim.process import Process
    from sim.spec import FaultSpec
    from sim.world import World

DEADLINE_NS = 10 * NS
OWN_DEADLINE_NS = 20 * NS
REPORT_KBIT = 16.0  # a report on the wire
_AGENT_STAGES = STAGES[STAGES.index("params") : STAGES.index("destroying")]


def _no_answer() -> Exception:
    return LinkDown("no answer within 10 s")


class DirectLink:
    """The ControllerLink port. Raises LinkDown: nothing arrived, or no answer came within 10 s."""

    __slots__ = ("_container", "_lines", "_machine", "_passed", "_process", "_registered", "_world")

    def __init__(self, world: World, process: Process, container: Container) -> None:
        self._world = world
        self._process = process
        self._container = container
        self._lines = world.lines
        self._machine = container.host.spec.id
        self._registered = "registered" in container.truth.marks
        self._passed = -1  # stages begun when a report last passed (agent.heartbeat_stall)

    async def send(self, report: Report) -> Answer:
        if self._lines.clean:
            return await self._call(report)
        return await self._send_badly(report)

    async def _serve(self, report: Report) -> Answer:
        answer = await self._world.receive(report)
        if not self._registered:
            self._registered = True
            registered(self._container)
        return answer

    def _call(self, report: Report, extra_ns: int = 0) -> asyncio.Future[Answer]:
        return self._world.net.call(
            self._process, "report", "", lambda: self._serve(report), latency=LINK, extra_ns=extra_ns,
            callee=self._controller(), path=None if self._lines.clean else self._passes, deadline_ns=DEADLINE_NS,
            late=_no_answer,
        )

    def _controller(self) -> Process:
        controller = self._world.controller
        if controller is None:
            raise LinkDown("connection refused: no controller was ever started")
        return controller

    def _passes(self) -> bool:
        return (self._lines.state(self._machine) == OPEN and self._container.reachable
                and self._world.net.controller_reachable())

    # ------------------------------------------------------------ with faults on

    async def _send_badly(self, report: Report) -> Answer:
        world, process, machine = self._world, self._process, self._machine
        faults = world.faults
        if faults.active("agent.heartbeat_stall", machine) is not None and self._only_a_heartbeat():
            raise LinkDown("the reporter stands still")
        liar = faults.active("agent.lies", machine)
        if liar is not None:
            report = lie(report, liar, world)
        state = self._lines.state(machine)
        if state == REFUSED:
            await process.sleep_ns(world.net.latency_ns(process, "report", "", LINK))
            raise LinkDown("connection refused")
        if state != OPEN:
            await process.sleep_ns(DEADLINE_NS)
            raise _no_answer()
        extra_ns = 0
        slow = faults.active("tunnel.slow", machine)
        if slow is not None:
            extra_ns = self._slow_ns(slow)
            if extra_ns < 0:
                await process.sleep_ns(DEADLINE_NS)
                raise _no_answer()
        held_ns = self._held_ns(report)
        self._send_copies(report, extra_ns, held_ns)
        # Only the way there is slow: a call splits what is added between there and back.
        answer = await self._call(report, extra_ns + 2 * held_ns)
        self._passed = self._begun()
        return answer

    def _begun(self) -> int:
        marks = self._container.truth.marks
        return sum(len(marks.get(name, ())) for name in _AGENT_STAGES)

    def _only_a_heartbeat(self) -> bool:
        """Has no stage begun since the last report that passed? Heartbeats that wait go along with one that has."""
        if self._passed < 0:
            self._passed = self._begun()
        return self._passed == self._begun()

    def _slow_ns(self, fault: FaultSpec) -> int:
        """Added to there and back together; negative: lost."""
        p = fault.params
        loss = float(p["loss"])
        if loss > 0 and self._world.streams.get(f"net:loss:{self._process.name}").random() < loss:
            return -1
        extra_ns = round(2 * float(p["latency_ms"]) * 1e6)
        kbps = float(p["kbps"])
        return extra_ns + (round(REPORT_KBIT / kbps * NS) if kbps > 0 else 0)

    def _held_ns(self, report: Report) -> int:
        """How long this message is held up on its way (agent.late, agent.reorder)."""
        faults, machine = self._world.faults, self._machine
        held_ns = 0
        late = faults.active("agent.late", machine)
        if late is not None and late.params["only"] in ("all", report.stage):
            faults.consume(late, machine)
            held_ns = round(float(late.params["by_s"]) * NS)
        mixed = faults.active("agent.reorder", machine)
        if mixed is not None:
            faults.consume(mixed, machine)
            dice = self._world.streams.get(f"net:reorder:{self._process.name}")
            held_ns += round(dice.random() * float(mixed.params["within_s"]) * NS)
        return held_ns

    def _send_copies(self, report: Report, extra_ns: int, held_ns: int) -> None:
        """The same message once more, or several times; nobody waits for the answers."""
        double = self._world.faults.active("agent.duplicate", self._machine)
        if double is None:
            return
        self._world.faults.consume(double, self._machine)
        for _ in range(int(double.params["copies"]) - 1):
            self._world.net.call(
                self._process, "report.copy", "", lambda: self._serve(report), latency=LINK,
                extra_ns=extra_ns + 2 * held_ns, callee=self._controller(), path=self._passes,
            )


async def _echo() -> bool:
    return True


class DirectTunnel:
    """The Tunnel port. A repair cannot mend what a fault keeps broken: it fails until the fault is over."""

    __slots__ = ("_container", "_lines", "_machine", "_process", "_world")

    def __init__(self, world: World, process: Process, container: Container) -> None:
        self._world = world
        self._process = process
        self._container = container
        self._lines = world.lines
        self._machine = container.host.spec.id

    async def ensure(self) -> bool:
        world, process = self._world, self._process
        state = OPEN if self._lines.clean else self._lines.state(self._machine)
        if state == REFUSED:
            await process.sleep_ns(world.net.latency_ns(process, "tunnel", "", LINK))
            return False
        if state != OPEN:
            await process.sleep_ns(DEADLINE_NS)
            return False
        controller = world.controller
        if controller is None:
            return False
        try:
            return await world.net.call(
                process, "tunnel", "", _echo, latency=LINK, callee=controller, path=world.net.controller_reachable,
                deadline_ns=DEADLINE_NS, late=_no_answer,
            )
        except PortError:
            return False

    async def rpc_ok(self) -> bool:
        # The chain node stands beside the controller and serves whoever reaches it: one latency, no other process.
        await self._process.sleep_ns(self._world.net.latency_ns(self._process, "rpc", "", LINK))
        return self._lines.rpc(self._machine)


class DirectOwnContract:
    """The OwnContract port: the market, asked with the container's own key. Raises MarketError."""

    __slots__ = ("_container", "_process", "_world")

    def __init__(self, world: World, process: Process, container: Container) -> None:
        self._world = world
        self._process = process
        self._container = container

    async def destroy(self) -> None:
        world, container = self._world, self._container
        if container.truth.lease_called is None:
            container.truth.lease_called = world.now_ns()
        call = CallTruth("destroy", world.now_ns(), self._process.name, container.contract_id)

        def serve() -> Coroutine[Any, Any, None]:
            return world.market.counter.destroy(call, container.contract_id, by="lease")

        await world.net.call(
            self._process, "own.destroy", "", serve, latency=MARKET, path=lambda: container.reachable,
            deadline_ns=OWN_DEADLINE_NS, late=_own_late, refused=_own_unreachable, reset=_own_unreachable,
        )


def _own_late() -> MarketError:
    return TimedOut("destroy: no answer within 20 s")


def _own_unreachable() -> MarketError:
    return Unreachable("connection refused")
