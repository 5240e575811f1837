"""The old image's entrypoint, as far as its log shows it (field-cases.md): fetch, warm up small, benchmark, report.

What is kept on purpose: any error of the benchmark is "0 proofs/hour", its exit is not kept, and it then waits to be
destroyed; nothing is remembered over a restart; nothing watches a daemon that runs; the manager's "no" is not heard.
Sizes: 100 GB for everything else, 6 GB for each partition worker of each proof in flight. How it shared that out
between workers and proofs is not recorded; this way gives the field's 16 and 3 on 504 GB.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from proverfleet.agent.settings import AgentSettings, Identity
from proverfleet.domain.report import Report
from proverfleet.domain.sizing import Sizing
from proverfleet.errors import PortError
from proverfleet.ports import AgentPorts, Completion, ParamsStatus, ProverStatus

NS = 1_000_000_000
OVERHEAD_GB = 100.0
GB_PER_WORKER = 6.0
WORKERS_MAX = 16
WORKERS_WANTED = 8
WORKERS_UNKNOWN = 10
WARM_UP_WORKERS = 2
CONCURRENCY_BESIDE_GPUS = 2
POLL_S = 10.0
BOOT_DIGITS = 12
NO_STATUS = ProverStatus(False, False, False, None, None, 0, 0, 0, 0, (), 0.0, 0.0, 0.0)
NO_PARAMS = ParamsStatus(False, False, 0, 0, 0, 0, False)


class BenchmarkFailed(Exception):
    """Something in the benchmark went wrong; what it was is not kept."""


def size(ram_gb: float | None, gpus: int, pinned: tuple[int, int] | None = None) -> Sizing:
    """Partition workers and proofs in flight from RAM and cards; ``pinned`` (workers, concurrency) wins."""
    if pinned is not None:
        return Sizing(pinned[0], pinned[1], "old")
    if ram_gb is None:
        return Sizing(WORKERS_UNKNOWN, 1, "old")
    fits = max(0, int((ram_gb - OVERHEAD_GB) / GB_PER_WORKER))
    concurrency = max(1, min(fits // WORKERS_WANTED, max(1, gpus) + CONCURRENCY_BESIDE_GPUS))
    return Sizing(max(WARM_UP_WORKERS, min(WORKERS_MAX, fits // concurrency)), concurrency, "old")


def rate_of(completions: tuple[Completion, ...], seconds: float) -> float:
    """Proofs per hour of a batch that took ``seconds``; from the first to the last completion where there are two.

    The old script divided all proofs by the whole time. The world pins a machine's rate as its pace with a full
    pipeline, and so does this, in the machine's favour: 41.32 stays 41.3.
    """
    if len(completions) < 2 or completions[-1].mono_ns <= completions[0].mono_ns:
        return len(completions) * 3600.0 / seconds if seconds > 0 else 0.0
    return (len(completions) - 1) * 3600.0 * NS / (completions[-1].mono_ns - completions[0].mono_ns)


class LegacyEntrypoint:
    """One start of the container's script; same ports and reports as the agent, another mind."""

    def __init__(self, ports: AgentPorts, identity: Identity, settings: AgentSettings) -> None:
        self._ports = ports
        self._identity = identity
        self._settings = settings
        self._boot = ports.entropy.hex(BOOT_DIGITS)
        self._seq = 0
        self._stage = "hello"
        self._size: Sizing | None = None
        self._params = NO_PARAMS
        self._bench: tuple[int, int, float] | None = None
        self._rate: float | None = None
        self._seen_n = 0
        self._told_mono_ns = 0

    async def run(self) -> None:
        """Runs for as long as its contract lives."""
        await self._quietly(self._ports.tunnel.ensure)
        await self._tell()
        await self._fetch()
        self._stage = "warmup"
        await self._tell()
        try:
            await self._benchmark()
        except (BenchmarkFailed, PortError):
            self._bench, self._rate = (0, 0, 0.0), 0.0
        if self._rate:
            self._stage = "active"
            await self._quietly(self._ports.prover.work)
        while True:  # "Instance will be destroyed by manager."
            await self._tell()
            await self._ports.clock.sleep(self._settings.report_s)

    # ------------------------------------------------------------ stages

    async def _fetch(self) -> None:
        self._stage = "params"
        await self._quietly(self._ports.params.fetch)
        while True:
            try:
                self._params = await self._ports.params.status()
            except PortError:
                self._params = NO_PARAMS
            if self._params.done:
                return
            if not self._params.running:
                await self._quietly(self._ports.params.fetch)
            await self._pause()

    async def _benchmark(self) -> None:
        """Warm-up with two workers where there is no PCE cache, then the whole size, then the batch."""
        prover = self._ports.prover
        await prover.stop()
        readings = None
        with suppress(PortError):
            readings = await self._ports.sensors.read()
        ram = self._settings.ram_gib or (readings.limit_gib if readings is not None else None)
        gpus = len(readings.gpus) if readings is not None and readings.gpus is not None else 1
        self._size = size(ram, gpus, self._settings.first_sizing)
        if not await prover.has_pce_cache():
            await prover.start(Sizing(min(WARM_UP_WORKERS, self._size.p), 1, "old"))
            await prover.warm_up()
            await self._until(lambda s: not s.running)
            await prover.stop()
        await prover.start(self._size)
        await self._preload()
        self._seen_n = (await self._alive()).proofs_accepted
        self._stage = "batch"
        began = self._ports.clock.monotonic_ns()
        await prover.batch(self._settings.batch_proofs, self._size.concurrency)
        await self._tell()
        end = await self._until(lambda s: s.done)
        seconds = (self._ports.clock.monotonic_ns() - began) / NS
        proved = tuple(c for c in end.completions if c.n > self._seen_n)
        self._rate = rate_of(proved, seconds)
        self._bench = (len(proved), end.proofs_failed, seconds)

    async def _preload(self) -> None:
        """Until the SRS is read: its bytes stand still from one look to the next."""
        before = -1
        while True:
            now = (await self._alive()).srs_bytes
            if now == before:
                return
            before = now
            await self._pause()

    async def _until(self, reached: Callable[[ProverStatus], bool]) -> ProverStatus:
        while True:
            status = await self._alive()
            if reached(status):
                return status
            await self._pause()

    async def _alive(self) -> ProverStatus:
        status = await self._ports.prover.status()
        if not status.alive or status.bench_exit is not None:
            raise BenchmarkFailed
        return status

    # ------------------------------------------------------------ telling

    async def _pause(self) -> None:
        await self._ports.clock.sleep(POLL_S)
        if self._ports.clock.monotonic_ns() - self._told_mono_ns >= self._settings.report_s * NS:
            await self._tell()

    async def _quietly(self, what: Callable[[], Awaitable[object]]) -> None:
        """As the script's `|| true`."""
        try:
            await what()
        except PortError:
            return

    async def _tell(self) -> None:
        """Its messages and log pushes in the one form that this inbox takes. A lost one is not sent again; the next
        says the same. The answer is not looked at."""
        self._told_mono_ns = self._ports.clock.monotonic_ns()
        try:
            status = await self._ports.prover.status()
        except PortError:
            status = NO_STATUS
        self._seq += 1
        try:
            await self._ports.link.send(self._report(status))
        except PortError:
            await self._quietly(self._ports.tunnel.ensure)

    def _report(self, status: ProverStatus) -> Report:
        size, params = self._size, self._params
        proved = tuple((c.n, c.mono_ns) for c in status.completions[-20:]) if self._stage in ("batch", "active") else ()
        return Report(
            rental=self._identity.intent, token=self._identity.token, boot=self._boot, seq=self._seq, backlog=0,
            mono_ns=self._told_mono_ns, clock_id=self._boot, stage=self._stage, attempt=0,
            p=status.p or (size.p if size is not None else None),
            concurrency=status.concurrency or (size.concurrency if size is not None else None),
            daemon="old", version="legacy", bytes_received=params.bytes_received, bytes_hashed=params.bytes_hashed,
            bytes_total=params.bytes_total, srs_bytes=status.srs_bytes, partitions=status.partitions,
            proofs_accepted=status.proofs_accepted, proofs_failed=status.proofs_failed, busy_s=status.busy_s,
            starved_s=status.starved_s, restarts_agent=0, restarts_prover=0, restarts_container=0,
            last_completions=proved, rss_gib=status.rss_gib if status.alive else None, bench=self._bench,
            bench_rate_proofs_per_hour=self._rate,
        )
