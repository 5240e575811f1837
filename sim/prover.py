"""The Prover port of one container: cuzk's daemon and benchmark on the model, with their ways to die.

In scope: kernel and CUDA out-of-memory, crashes, benchmark errors, standstill, sick cards, wrong proofs, bad caches.
Out of scope: partial failure inside a proof, the pacer, eviction, PCE starvation on small budgets, gRPC quirks
(``fakes/`` shows those on the wire).

Decisions: the SRS is loaded from the daemon's start (as PreloadSRS does), always from disk. A size is taken as the
sizing names it: "old" means partition_workers, "current" stops at 18. A machine with ``works = false`` kills its daemon
20 busy seconds into every first proof, exit 1, "No CUDA devices available". A machine's ``first_sizing`` replaces the
size of the first start after a warm-up of each rental, and of the first batch where none came before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from proverfleet.errors import ProverError
from proverfleet.ports import Completion, Exit, ProverStatus
from sim.daemon import BATCH, ENDLESS, NOTHING, WARM_UP, WORK, Daemon, Pace, Wrong
from sim.model import (
    BASE_GIB,
    SRS_BYTES,
    MemoryCurve,
    effective_p,
    fill_s,
    interval_s,
    memory_curve,
    model_rate,
    srs_load_s,
    warm_up_s,
)
from sim.truth import NS, ExitTruth

if TYPE_CHECKING:
    from proverfleet.domain.sizing import Sizing
    from sim.container import Container
    from sim.spec import FaultSpec

OUT_OF_MEMORY = Exit(137, 9, True, False, "Killed")
GPU_OUT_OF_MEMORY = Exit(134, 6, False, True, 'cudaGetLastError() failed: "out of memory"')
FIRST_CUDA_CALL_S = 20.0  # busy seconds to the first use of a card in a fresh daemon
NO_DEVICE = "No CUDA devices available"
ENDLESS_S = 1e12
NEVER_STARTED = ProverStatus(False, False, False, None, None, 0, 0, 0, 0, (), 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Doom:
    """An end that waits for the daemon: after ``busy_s`` of proving it exits so."""

    busy_s: float
    exit: Exit
    kind: str
    fault: int | None


def exit_of(code: int, text: str) -> Exit:
    """An exit with ``code``; above 128 it names its signal."""
    return Exit(code, code - 128 if 128 < code < 160 else None, False, False, text)


class SimProver:
    """``settle(now)`` brings it and the world's truth up to ``now``; ``refresh()`` takes in changed conditions."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.host = container.host
        self.world = container.world
        self.daemon: Daemon | None = None
        self.exit: Exit | None = None
        self.bench_exit: Exit | None = None
        self.started_ns: int | None = None  # of the daemon that runs now
        self.doom: Doom | None = None
        self.limit_s = ENDLESS_S
        self.warmed = False  # a warm-up of this rental has finished
        self.first_sizing_used = False
        self.first_warm_up = True
        self.size = (0, 0, 0)  # partitions as asked, effective ones, concurrency
        self.by_first_sizing = False
        self.generation = 0
        self._completions: tuple[int, tuple[Completion, ...]] = (0, ())
        self._last = NEVER_STARTED

    # ------------------------------------------------------------ the port

    async def start(self, sizing: Sizing) -> None:
        """Starts the daemon; the SRS begins to load. ProverError when the container is not up."""
        container = self.container
        if not container.up:
            raise ProverError("the container is not running")
        now = self.world.now_ns()
        self.settle(now)
        self._end_daemon(now)
        self.exit = self.bench_exit = None
        p, concurrency, kind = sizing.p, sizing.concurrency, sizing.daemon
        first = self.host.spec.first_sizing
        self.by_first_sizing = first is not None and self.warmed and not self.first_sizing_used
        if first is not None and self.by_first_sizing:
            p, concurrency, kind = self._first_sizing(first, p, concurrency)
        self._spawn(now, p, concurrency, kind)
        lost = container.params.missing()
        if lost:
            self.kill(exit_of(2, f"SRS param file not found: {lost}"), "crash", container.params.lost_to)
        elif container.bad_srs is not None:
            fault, container.bad_srs = container.bad_srs, None
            container.params.spoil(0, fault.index)
            self.kill(exit_of(2, "SRS file size/layout mismatch"), "crash", fault.index)

    async def stop(self) -> None:
        now = self.world.now_ns()
        self.settle(now)
        self._end_daemon(now)
        self.exit = self.bench_exit = None
        self._last = replace(self._last, exit=None, bench_exit=None)

    async def warm_up(self) -> None:
        daemon = self._living()
        now = self.world.now_ns()
        self.settle(now)
        spec, p = self.host.spec, self.size[1]
        own = self.host.profile.hardware
        cold = not self.container.pce
        seconds = warm_up_s(own, p, cold) * self._stretch(p)
        if cold and self.first_warm_up and spec.warm_up_s is not None:
            seconds = max(1.0, spec.warm_up_s - srs_load_s(spec.disk_mb_per_s))
        self.first_warm_up = False
        self._run(daemon, WARM_UP, 1, seconds if own.gpus else None)

    async def batch(self, count: int, concurrency: int) -> None:
        daemon = self._living()
        now = self.world.now_ns()
        self.settle(now)
        first = self.host.spec.first_sizing
        self.container.truth.attempts += 1
        if first is not None and not self.first_sizing_used:
            self._end_daemon(now)
            daemon = self._spawn(now, *self._first_sizing(first, self.size[0], concurrency))
        elif not self.by_first_sizing:
            daemon.concurrency = concurrency
        self._run(daemon, BATCH, count, None)

    async def work(self) -> None:
        daemon = self._living()
        self.settle(self.world.now_ns())
        if daemon.mode != WORK or daemon.draining:
            daemon.fed = self.container.work_flows()
            self._run(daemon, WORK, ENDLESS, None)

    async def drain(self) -> None:
        now = self.world.now_ns()
        self.settle(now)
        if self.daemon is not None:
            self.daemon.drain()
            self.turned(now)

    async def has_pce_cache(self) -> bool:
        self.settle(self.world.now_ns())
        return self.container.pce

    async def status(self) -> ProverStatus:
        return self.look()

    def look(self) -> ProverStatus:
        """What :meth:`status` says, for the world's own parts (the controller's probe)."""
        daemon = self.daemon
        if daemon is None:
            return self._last
        now = self.world.loop.now_ns
        if now > daemon.at:
            self.settle(now)
            if self.daemon is None:
                return self._last
        return self._status_of(daemon)

    def _status_of(self, daemon: Daemon) -> ProverStatus:
        n, completions = self._completions
        if n != daemon.accepted:
            completions = tuple(daemon.completions)
            self._completions = (daemon.accepted, completions)
        return ProverStatus(
            True, daemon.mode != NOTHING, daemon.done, None, self.bench_exit, daemon.srs_bytes, daemon.partitions,
            daemon.accepted, daemon.failed, completions, daemon.busy_ns / NS, daemon.starved_ns / NS, daemon.rss_gib,
            self.size[0], daemon.concurrency,
        )

    # ------------------------------------------------------------ a daemon's life

    def _living(self) -> Daemon:
        if self.daemon is None:
            raise ProverError("connection refused: no daemon is running")
        return self.daemon

    def _first_sizing(self, first: dict[str, int], p: int, concurrency: int) -> tuple[int, int, str]:
        self.first_sizing_used = True
        return first.get("partition_workers", p), first.get("concurrency", concurrency), "old"

    def _spawn(self, now: int, p: int, concurrency: int, kind: str) -> Daemon:
        at_once = effective_p(p, concurrency, kind)
        self.size = (p, at_once, concurrency)
        daemon = Daemon(now, at_once, concurrency, self._pace(at_once), self._curve(at_once), self.host.spec.noise,
                        self.host.dice, self.host.wrong_dice, self)
        self.daemon = daemon
        self.started_ns = now
        self._completions = (0, ())
        self.container.truth.proof_s = daemon.pace.interval_s * min(concurrency, -(-at_once // 10))
        self.doom = self._doom_of()
        self.refresh()
        return daemon

    def _pace(self, p: int) -> Pace:
        own = self.host.profile.hardware
        if own.gpus <= 0:
            return Pace(60.0, 60.0)
        interval = 3600.0 / self.host.profile.rate(p)
        return Pace(interval, interval * fill_s(own, p) / interval_s(own, p))

    def _stretch(self, p: int) -> float:
        """By how much a pinned rate stretches the model's own seconds at this size."""
        profile = self.host.profile
        return 1.0 if profile.pin is None else model_rate(profile.hardware, p) / (profile.rate(p) or 1.0)

    def _curve(self, p: int) -> MemoryCurve:
        return memory_curve(self.host.profile.hardware, p)

    def _doom_of(self) -> Doom | None:
        container = self.container
        if not self.host.spec.works:
            return Doom(FIRST_CUDA_CALL_S, exit_of(1, NO_DEVICE), "gpu", None)
        if container.image_fault is not None:
            return Doom(FIRST_CUDA_CALL_S, GPU_OUT_OF_MEMORY, "oom", container.image_fault)
        if container.pce and container.bad_pce is not None:
            fault, container.bad_pce = container.bad_pce, None
            container.pce = False
            return Doom(FIRST_CUDA_CALL_S, exit_of(1, "PCE cache: unexpected end of file"), "crash", fault.index)
        return None

    def _run(self, daemon: Daemon, mode: str, count: int, first_s: float | None) -> None:
        self.bench_exit = None
        daemon.run(mode, count, first_s)
        daemon.failing = ""
        self.refresh()

    def _end_daemon(self, now: int) -> None:
        """The process is gone, whatever it did. Faults that a restart clears are cleared."""
        if self.daemon is None:
            return
        self._last = replace(self._status_of(self.daemon), alive=False, running=False, done=False, rss_gib=0.0)
        self.daemon = self.doom = self.started_ns = None
        self.generation += 1
        self.container.note("prover", False, now)
        self.container.prover_busy(False, now)
        self.container.work_available(True, now)
        self.host.clear("prover_restart")

    def container_ended(self, now: int) -> None:
        """The container went away with everything in it; the next one starts without a daemon."""
        self._end_daemon(now)
        self.exit = self.bench_exit = None
        self._last = NEVER_STARTED

    # ------------------------------------------------------------ conditions

    def settle(self, now: int) -> None:
        """Everything up to ``now``, in the world's truth as well."""
        daemon = self.daemon
        if daemon is not None and now > daemon.at:
            daemon.mono_offset = self.host.box.monotonic_ns() - now
            daemon.advance(now)

    def refresh(self) -> None:
        """Takes in the conditions as they stand now. Settle first: the old ones held up to this moment."""
        daemon = self.daemon
        if daemon is None:
            return
        c, host = self.host.now, self.host
        now = daemon.at
        still = c.halted or c.frozen
        failing = c.failing
        if c.nvml and not c.nvml_running_ok:
            failing = failing or NO_DEVICE
        daemon.frozen = c.frozen
        daemon.srs_per_s = 0.0 if still else SRS_BYTES / (c.srs_load_s or srs_load_s(c.disk_mb_per_s))
        daemon.fail(failing)
        if still:
            daemon.speed = 0.0
        elif failing:
            daemon.speed = 1.0
        else:
            daemon.speed = host.speed(daemon.p)
        wrong = c.invalid
        daemon.wrong = None if wrong is None else Wrong(
            float(wrong.params["invalid_share"]), wrong.params.get("s_per_proof"),
            bool(wrong.params.get("seen_by_prover", True)))
        daemon.feed(daemon.mode != WORK or self.container.work_flows())
        self.limit_s = daemon.curve.crossing_s(c.limit_gib)
        self.turned(now)
        self._watch()

    def _watch(self) -> None:
        """One event at the moment at which the daemon will die, as things stand."""
        self.generation += 1
        daemon = self.daemon
        if daemon is None:
            return
        end = min(self.limit_s, self.doom.busy_s if self.doom is not None else ENDLESS_S)
        at = daemon.reaches(end) if end < ENDLESS_S else None
        if self.host.now.limit_gib < BASE_GIB and daemon.loading:
            at = daemon.loads_until(self.host.now.limit_gib)
        if at is not None:
            generation = self.generation
            event = self.world.env.timeout(max(0, at - self.world.now_ns()))
            assert event.callbacks is not None
            event.callbacks.append(lambda _: self._reached(generation))

    def _reached(self, generation: int) -> None:
        if generation != self.generation or self.daemon is None:
            return
        self.settle(self.world.now_ns())
        daemon, doom = self.daemon, self.doom
        busy_s = daemon.memory_s + 1e-6
        if doom is not None and busy_s >= doom.busy_s:
            self.kill(doom.exit, doom.kind, doom.fault)
        elif busy_s >= self.limit_s or (daemon.loading and daemon.rss_gib >= self.host.now.limit_gib - 1e-6):
            self.kill(OUT_OF_MEMORY, "oom", None)
        else:
            self._watch()

    def kill(self, how: Exit, kind: str, fault: int | None) -> bool:
        """The daemon dies by itself, now. False when there was none."""
        now = self.world.now_ns()
        self.settle(now)
        if self.daemon is None:
            return False
        self._end_daemon(now)
        self.exit = how
        self._last = replace(self._last, exit=how)
        self.container.truth.exits.append(ExitTruth(now, kind, fault))
        self.world.record("prover_exit", contract_id=self.container.contract_id, machine_id=self.host.spec.id,
                          how=kind, code=how.code, fault=fault)
        return True

    # ------------------------------------------------------------ faults of a moment

    def strike(self, fault: FaultSpec) -> bool:
        """prover.oom or prover.crash: the daemon dies now. False when none runs."""
        p: dict[str, Any] = fault.params
        if fault.kind == "prover.oom":
            how, kind = (GPU_OUT_OF_MEMORY if p["where"] == "gpu" else OUT_OF_MEMORY), "oom"
        else:
            how, kind = exit_of(int(p["exit_code"]), str(p["text"])), "crash"
        return self.kill(how, kind, fault.index)

    def bench_error(self, fault: FaultSpec) -> bool:
        """The benchmark ends without a result. False when none runs."""
        now = self.world.now_ns()
        self.settle(now)
        daemon = self.daemon
        if daemon is None or daemon.mode != BATCH:
            return False
        how = fault.params["how"]
        text = str(fault.params.get("text") or "") or f"cuzk-bench: {how.replace('_', ' ')}"
        self.bench_exit = exit_of(int(fault.params["exit_code"]) if how == "exit" else 0, text)
        daemon.abandon()
        self.container.truth.exits.append(ExitTruth(now, "bench_error", fault.index))
        self.turned(now)
        self._watch()
        return True

    # ------------------------------------------------------------ what the daemon says (Sink)

    def proof(self, at: int, mode: str, valid: bool, failed: bool) -> None:
        self.container.proved(at, mode, valid, failed)

    def ended(self, at: int, mode: str) -> None:
        if mode == WARM_UP and self.daemon is not None and self.daemon.accepted:
            self.container.write_pce(at)
            self.warmed = True
        self.turned(at)

    def turned(self, at: int) -> None:
        daemon = self.daemon
        if daemon is not None:
            self.container.note("prover", daemon.moving, at)
            self.container.prover_busy(daemon.proving, at)
            self.container.work_available(not daemon.starved, at)
