"""A small rented machine for the agent's tests: every port a fake with knobs and a record of calls, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proverfleet.agent import Agent, AgentSettings, Identity
from proverfleet.domain.ids import IntentId
from proverfleet.domain.report import Answer, Directive, Report
from proverfleet.domain.sizing import Sizing
from proverfleet.errors import LinkDown, ProverError, Unreachable
from proverfleet.ports import (
    AgentPorts,
    Completion,
    Exit,
    Gpu,
    ParamsStatus,
    ProverStatus,
    Readings,
)
from sim.legacy import LegacyEntrypoint
from sim.loop import NS, VirtualLoop
from sim.streams import StreamEntropy

GIB = 1 << 30
KILLED = Exit(137, 9, True, False, "Killed")
READINGS = Readings((Gpu("GPU-1", "RTX 4090", 24_564, 0.9, 60.0, 24.0, None, 0.0),), 504.0, 10.0, 900.0, None, None)


class FakeClock:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.booted_ns = -3600 * NS
        self.wall_offset = 1_772_323_200 * NS

    def monotonic_ns(self) -> int:
        return self.loop.now_ns - self.booted_ns

    def wall_ns(self) -> int:
        return self.loop.now_ns + self.wall_offset

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = self.loop.create_future()
        self.loop.wake_at(self.loop.now_ns + round(seconds * NS), future)
        await future


class FakeProver:
    """One proof every ``proof_s`` from the moment that work is given; everything is computed when somebody looks."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.calls: list[Any] = []
        self.cache = False
        self.proof_s = 60.0
        self.fails = False
        self.refuses = False
        self.alive = False
        self.hung = False
        self.exit: Exit | None = None
        self.bench_exit: Exit | None = None
        self.size = Sizing(0, 0)
        self._mode, self._left, self._from = "", 0, 0
        self._accepted, self._failed, self._done = 0, 0, False
        self._completions: list[Completion] = []

    async def start(self, sizing: Sizing) -> None:
        self.calls.append(("start", sizing.p, sizing.concurrency))
        if self.refuses:
            raise ProverError("exec failed")
        self.alive, self.exit, self.bench_exit, self.size, self.hung = True, None, None, sizing, False
        self._mode, self._accepted, self._failed, self._done, self._completions = "", 0, 0, False, []

    async def stop(self) -> None:
        self.calls.append("stop")
        self._settle()
        self.alive = False

    async def warm_up(self) -> None:
        self.calls.append("warm_up")
        self._run("warm_up", 1)

    async def batch(self, count: int, concurrency: int) -> None:
        self.calls.append(("batch", count, concurrency))
        self._run("batch", count)

    async def work(self) -> None:
        self.calls.append("work")
        self._run("work", 1 << 40)

    async def drain(self) -> None:
        self.calls.append("drain")
        self._settle()
        self._left = min(self._left, 1)

    async def has_pce_cache(self) -> bool:
        return self.cache

    async def status(self) -> ProverStatus:
        self._settle()
        n = self._accepted
        return ProverStatus(
            self.alive, self.alive and self._mode != "", self._done, self.exit, self.bench_exit,
            44 * GIB if self.alive or n else 0, 10 * n, n, self._failed, tuple(self._completions), 60.0 * n, 0.0, 90.0,
            self.size.p, self.size.concurrency,
        )

    def die(self, how: Exit = KILLED) -> None:
        self._settle()
        self.alive, self.exit, self._mode = False, how, ""

    def vanish(self) -> None:
        """As after a restart of the container: no daemon, and nobody knows of one."""
        self.alive, self.exit, self._mode = False, None, ""
        self._accepted, self._failed, self._completions = 0, 0, []

    def _run(self, mode: str, count: int) -> None:
        if not self.alive:
            raise ProverError("connection refused")
        self._settle()
        self._mode, self._left, self._done = mode, count, False
        self._from = self.clock.monotonic_ns()

    def _settle(self) -> None:
        step = round(self.proof_s * NS)
        while self.alive and self._mode and self._left and not self.hung and (
            self.clock.monotonic_ns() - self._from >= step
        ):
            self._from += step
            self._left -= 1
            if self.fails:
                self._failed += 1
            else:
                self._accepted += 1
                self._completions.append(Completion(self._accepted, self._from))
                self._completions = self._completions[-32:]
        if self.alive and self._mode and not self._left:
            self.cache = self.cache or self._mode == "warm_up"
            self._mode, self._done = "", True


class FakeParams:
    """``total`` bytes at ``bytes_per_s``, then done."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.total = 135 * GIB
        self.bytes_per_s = 135 * GIB / 600
        self.started: int | None = None
        self.fetches = 0
        self.lost = 0
        self.error: str | None = None

    async def fetch(self) -> None:
        self.fetches += 1
        if self.started is None:
            self.started = self.clock.monotonic_ns()

    async def status(self) -> ParamsStatus:
        passed_s = 0.0 if self.started is None else (self.clock.monotonic_ns() - self.started) / NS
        got = min(self.total, int(passed_s * self.bytes_per_s))
        done = got == self.total
        running = self.started is not None and not done and self.error is None
        return ParamsStatus(running, done, max(0, got - self.lost), got, self.total, 0, False, self.error)


class FakeSensors:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.readings = READINGS
        self.hangs = False
        self.reads = 0

    async def read(self) -> Readings:
        self.reads += 1
        if self.hangs:
            await self.clock.loop.create_future()
        return self.readings

    async def under_load(self) -> Readings:
        if self.hangs:
            await self.clock.loop.create_future()
        await self.clock.sleep(30.0)
        return replace(self.readings, down_mbps=930.0, pcie_gb_per_s_under_load=23.0)


class FakeTunnel:
    def __init__(self) -> None:
        self.ensured = 0
        self.rpc = True

    async def ensure(self) -> bool:
        self.ensured += 1
        return True

    async def rpc_ok(self) -> bool:
        return self.rpc


class FakeController:
    """The link's other end. ``down``: nothing arrives. ``orders``: sent with each answer until acknowledged."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.down = False
        self.over = False
        self.orders: list[Directive] = []
        self.reports: list[Report] = []
        self.tries = 0
        self.lose_answers = 0

    async def send(self, report: Report) -> Answer:
        self.tries += 1
        await self.clock.sleep(0.1)
        if self.down:
            raise LinkDown("no route")
        self.reports.append(report)
        self.orders = [d for d in self.orders if d.id not in report.acks]
        if self.lose_answers:
            self.lose_answers -= 1
            raise LinkDown("the answer was lost")
        return Answer(tuple(self.orders), self.over)

    @property
    def last(self) -> Report:
        return self.reports[-1]

    def order(self, id_: str, what: str, **args: Any) -> None:
        self.orders.append(Directive(id_, what, args))

    def completions(self) -> list[tuple[int, int]]:
        """Every completion that arrived, once, by its number."""
        return sorted({c for r in self.reports for c in r.last_completions})


class FakeState:
    def __init__(self) -> None:
        self.data: dict[str, Any] | None = None
        self.saves = 0
        self.full = False

    def load(self) -> dict[str, Any] | None:
        return self.data

    def save(self, data: dict[str, Any]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.saves += 1
        self.data = data


class FakeKey:
    def __init__(self) -> None:
        self.destroys = 0
        self.fail_first = 0

    async def destroy(self) -> None:
        self.destroys += 1
        if self.destroys <= self.fail_first:
            raise Unreachable("no answer")


@dataclass
class Box:
    """One container with its agent. ``restart`` is the supervisor; ``run`` lets minutes pass."""

    loop: VirtualLoop
    clock: FakeClock
    prover: FakeProver
    params: FakeParams
    sensors: FakeSensors
    tunnel: FakeTunnel
    controller: FakeController
    state: FakeState
    key: FakeKey
    settings: AgentSettings
    program: Callable[[AgentPorts, Identity, AgentSettings], Agent | LegacyEntrypoint]
    boots: int = 0
    task: asyncio.Task[None] | None = None

    def restart(self, container: str = "") -> None:
        """Ends the agent, if one runs, and starts it."""
        if self.task is not None:
            self.task.cancel()
        self.boots += 1
        ports = AgentPorts(
            self.prover, self.params, self.sensors, self.tunnel, self.controller, self.state, self.key, self.clock,
            StreamEntropy(random.Random(self.boots)),
        )
        identity = Identity(IntentId("intent1"), "token", "pf.fleet.intent1", container)
        agent = self.program(ports, identity, self.settings)
        self.task = self.loop.create_task(agent.run())

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
            self.run(1.0)
        self.loop.close()

    def run(self, seconds: float) -> None:
        self.loop.run_until(self.loop.now_ns + round(seconds * NS))

    def run_to(self, stage: str, limit_s: float = 7200.0) -> None:
        """Runs until a report of ``stage`` has arrived."""
        self.run_until(lambda: any(r.stage == stage for r in self.controller.reports), limit_s)

    def run_until(self, condition: Callable[[], bool], limit_s: float = 7200.0) -> None:
        self.loop.run_while(lambda: not condition(), self.loop.now_ns + round(limit_s * NS))
        assert condition(), f"not within {limit_s:g} s; last report: {self.controller.reports[-1:]}"


OPEN: list[Box] = []


def box(program: type[Agent] | type[LegacyEntrypoint] = Agent, **settings: Any) -> Box:
    loop = VirtualLoop()
    clock = FakeClock(loop)
    made = Box(
        loop, clock, FakeProver(clock), FakeParams(clock), FakeSensors(clock), FakeTunnel(), FakeController(clock),
        FakeState(), FakeKey(), AgentSettings(**settings), program,
    )
    made.restart()
    OPEN.append(made)
    return made


def stages(reports: list[Report]) -> list[str]:
    """The stages in order, repetitions left out."""
    out: list[str] = []
    for report in reports:
        if not out or out[-1] != report.stage:
            out.append(report.stage)
    return out
