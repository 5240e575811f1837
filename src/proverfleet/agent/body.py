"""What the agent's parts share: its ports, its memory, what it saw last, and the bell that wakes the work."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from proverfleet.agent import lease, memory
from proverfleet.agent.line import Line
from proverfleet.agent.memory import Memory
from proverfleet.agent.reporter import Reporter
from proverfleet.agent.senses import Senses
from proverfleet.agent.settings import AgentSettings, Identity
from proverfleet.domain.report import Answer, Directive, Report
from proverfleet.errors import NotFound, PortError
from proverfleet.ports import AgentPorts, ParamsStatus, ProverStatus

BOOT_DIGITS = 12
LEASE_REPEAT_S = 300.0
# A full disk costs what a restart would resume from, not the work.
_FULL_DISK = suppress(OSError)
# Stages in which the work looks again at each tick; later ones are woken only when something changed.
EAGER = ("hello", "tunnel", "params", "sizing", "warmup")


class Body:
    """``generation`` rises around each start and stop of the daemon: what was asked before says nothing after."""

    def __init__(self, ports: AgentPorts, identity: Identity, settings: AgentSettings, kept: Memory) -> None:
        self.ports = ports
        self.settings = settings
        self.memory = kept
        self.status: ProverStatus | None = None
        self.params: ParamsStatus | None = None
        self.generation = 0
        self.orders: deque[Directive] = deque()
        self.told_over = False
        self.bell = asyncio.Event()
        self.senses = Senses(ports.sensors, ports.clock, settings.report_s)
        self.line = Line(ports, self._heard, self._repaired)
        self._reporter = Reporter(identity, settings, ports.entropy.hex(BOOT_DIGITS), kept.acked_n)
        self._units = memory.units(kept)
        self._shape: tuple[bool, bool, bool, bool] | None = None
        self._repair = ""
        self._lease: asyncio.Task[None] | None = None
        self._facts: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ looking

    async def look(self) -> ProverStatus | None:
        """Asks the daemon (and, until all files are there, the fetch) and takes over what they count.

        None: it has never answered. A port that fails leaves what was seen last.
        """
        generation = self.generation
        try:
            status = await self.ports.prover.status()
        except PortError:
            status = None
        if status is not None and generation == self.generation:
            self.status = status
            memory.count_daemon(self.memory, status)
        if self.params is None or not self.params.done:
            await self._look_at_params()
        units = memory.units(self.memory)
        if units != self._units:
            self._units = units
            self.memory.unit_mono_ns = self.ports.clock.monotonic_ns()
        return self.status

    async def _look_at_params(self) -> None:
        try:
            self.params = params = await self.ports.params.status()
        except PortError:
            return
        memory.count_params(self.memory, params.bytes_received, params.bytes_hashed, params.bytes_total)

    def read_facts(self) -> None:
        """Starts the arrival reading (30 s of load). Returns at once; rings the bell when it is there."""
        self._facts = asyncio.create_task(self._read_facts())

    async def _read_facts(self) -> None:
        readings = await self.senses.under_load()
        kept = self.memory
        kept.down_mbps = readings.down_mbps
        kept.pcie_gb_per_s = readings.pcie_gb_per_s_under_load
        kept.facts_read = True
        self.bell.set()

    async def limit_gib(self) -> float | None:
        """The smallest cgroup limit, GiB; None where there is none or it cannot be read within a tick."""
        now_ns = self.ports.clock.monotonic_ns
        for _ in range(2):
            limit = self.senses.current(now_ns()).limit_gib
            if limit is not None:
                return limit
            self.senses.ask(now_ns())
            await self.bell.wait()
            self.bell.clear()
        return self.senses.current(now_ns()).limit_gib

    def changed(self) -> bool:
        """Has the daemon's shape changed since this was last asked? (The work is not woken for counters.)"""
        status = self.status
        if status is None:
            return False
        shape = (status.alive, status.running, status.done, status.bench_exit is None)
        before, self._shape = self._shape, shape
        return before != shape

    def forget_shape(self) -> None:
        """The next look counts as a change, whatever it sees: the daemon was started, or given something to do."""
        self._shape = None

    # ------------------------------------------------------------ saying

    def save(self) -> None:
        kept = self.memory
        kept.mono_ns = self.ports.clock.monotonic_ns()
        kept.wall_ns = self.ports.clock.wall_ns()
        with _FULL_DISK:
            self.ports.state.save(kept.dump())

    def report(self) -> None:
        """Makes a report of now and posts it. The memory is on disk before the report can leave (memory.py)."""
        now = self.ports.clock.monotonic_ns()
        self.senses.ask(now)
        made = self._reporter.make(
            self.memory, now, self.status, self.params, self.senses.current(now), self.line.rpc_ok
        )
        self.save()
        self.line.post(made)

    def enter(self, stage: str) -> None:
        """The work is at ``stage`` now, perhaps again; reported at once."""
        self.memory.stage = stage
        self.report()

    def skip_completions(self) -> None:
        """Nothing accepted so far belongs to a rate: warm-up proofs run at another size."""
        self.memory.acked_n = self._reporter.seen_n = self.memory.total.accepted

    async def ticks(self) -> None:
        """The heartbeat: looks, reports and minds the lease every ``report_s``, whatever the work is doing."""
        while True:
            await self.ports.clock.sleep(self.settings.report_s)
            await self.look()
            self.report()
            if self.changed() or self.memory.stage in EAGER or self.params is None or not self.params.done:
                self.bell.set()
            if lease.due(self.memory, self.settings, self.memory.mono_ns) and (
                self._lease is None or self._lease.done()
            ):
                self._lease = asyncio.create_task(self._end_own())

    def close(self) -> None:
        """Ends what it started beside the agent's own tasks."""
        self.senses.stop()
        for task in (self._facts, self._lease):
            if task is not None:
                task.cancel()

    # ------------------------------------------------------------ hearing

    def _heard(self, report: Report, answer: Answer) -> None:
        kept = self.memory
        kept.answered_mono_ns = self.ports.clock.monotonic_ns()
        if report.last_completions:
            kept.acked_n = max(kept.acked_n, report.last_completions[-1][0])
        if report.acks:
            kept.unacked = tuple(i for i in kept.unacked if i not in report.acks)
        if answer.over:
            self.told_over = True
            self.bell.set()
        for directive in answer.directives:
            self._take_order(directive)

    def _take_order(self, directive: Directive) -> None:
        """Queues a directive that is new; one that was done is only acknowledged again."""
        kept = self.memory
        if directive.id in kept.done:
            if directive.id not in (kept.taken, self._repair) and directive.id not in kept.unacked:
                kept.unacked = (*kept.unacked, directive.id)
        elif directive.what == "repair_tunnel":
            kept.done = (*kept.done, directive.id)[-memory.IDS_KEPT:]
            self._repair = directive.id
            self.line.repair_due = True
        elif all(directive.id != waiting.id for waiting in self.orders):
            self.orders.append(directive)
            self.bell.set()

    def _repaired(self) -> None:
        self.memory.unacked = (*self.memory.unacked, self._repair)
        self._repair = ""

    # ------------------------------------------------------------ the lease

    async def _end_own(self) -> None:
        """One try to end our own contract, then a pause; the tick tries again while the lease is out. It is repeated
        after a success too: this code still running means that the contract still bills."""
        try:
            await self.ports.own_contract.destroy()
        except NotFound:
            self.memory.leased = True
        except PortError:
            await self.ports.clock.sleep(lease.AGAIN_S * (0.5 + self.ports.entropy.random()))
            return
        self.memory.leased = True
        self.save()
        await self.ports.clock.sleep(LEASE_REPEAT_S)
