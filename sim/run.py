"""One run: the scenario's hours, then the liveness phase with the faults off, then everything taken apart.

``run`` may be called hundreds of times in one process: a run leaves nothing behind but its result.
"""

from __future__ import annotations

import gc
import hashlib
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import simpy

from proverfleet.domain.fleet import Fleet
from proverfleet.domain.policy import Policy
from proverfleet.errors import StoreError
from sim import scenario as scenarios
from sim.host import settle_all
from sim.journal import RunJournal
from sim.loop import NS
from sim.oracle import Verdict, judge, live_state
from sim.scenario_toml import to_toml
from sim.spec import Scenario
from sim.tripwire import armed, real_perf_counter, real_process_time
from sim.truth import Truth
from sim.wiring import Parts, Wired, build

CHUNK_S = 600.0  # between two looks at the real world (progress, collecting garbage)
FLUSH_S = 60.0
COLLECT_EVERY = 24  # chunks
LIVE_LOOK_S = 120.0
LIVE_MAX_S = 8 * 3600.0
HOPELESS_S = 3600.0  # once no more offers exist on which a rental can succeed, for the ends that are still due

Progress = Callable[[float, float], None]
"""``progress(done_s, planned_s)`` in simulated s; the liveness phase is not planned."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run leaves. ``fleet`` is the controller's folded view at the end (None: it never booted).

    ``kept``: (world ns, journal line) of alerts, brakes, entries, ends and orders. ``errors``: (ns, who, traceback) of
    programs that ended, or beats that failed, by an error that nobody decided about: bugs. ``said``: what the
    controller said, by name. ``faults``: kind -> times that it hit. ``wall_s`` and ``cpu_s`` are real seconds."""

    scenario: Scenario
    seed: int
    adapter: str
    policy: Policy
    truth: Truth
    fleet: Fleet | None
    verdict: Verdict
    journal_sha256: str
    events: int
    journal_bytes: int
    simulated_s: float
    cpu_s: float
    wall_s: float
    kept: tuple[tuple[int, dict[str, Any]], ...]
    errors: tuple[tuple[int, str, str], ...]
    said: dict[str, int]
    faults: dict[str, int]
    beats: int
    beats_failed: int
    beat_max_s: float
    secrets_seen: tuple[str, ...] = field(default=())

    @property
    def speed(self) -> float:
        """Simulated s per CPU s."""
        return self.simulated_s / self.cpu_s if self.cpu_s > 0 else 0.0


def run(
    scenario: Scenario,
    seed: int,
    *,
    adapter: str = "direct",
    policy: Policy | None = None,
    parts: Parts | None = None,
    journal: Path | None = None,
    progress: Progress | None = None,
    liveness: bool = True,
) -> RunResult:
    """Runs ``scenario`` under ``seed``. ``policy`` and ``parts`` replace the scenario's own; ``journal``: its file.

    Raises sim.loop.RunFailed when an error reaches the loop, JournalError when the file cannot be written."""
    scenario = scenarios.resolve(scenario, seed)
    cpu, wall = real_process_time(), real_perf_counter()
    with _collected():
        book = RunJournal(journal, _header(scenario, seed, adapter, policy))
        wired = build(scenario, seed, adapter=adapter, parts=parts, policy=policy, journal=book)
        try:
            _flush_for_ever(wired)
            _hours(wired, progress)
            if liveness:
                _liveness(wired)
            return _result(wired, cpu, wall)
        finally:
            wired.close()


def _hours(wired: Wired, progress: Progress | None) -> None:
    world = wired.world
    end = round(world.scenario.hours * 3600 * NS)
    chunks = 0
    while world.loop.now_ns < end:
        _advance(wired, min(end, world.loop.now_ns + round(CHUNK_S * NS)))
        chunks += 1
        if chunks % COLLECT_EVERY == 0:
            gc.collect()
        if progress is not None:
            progress(world.loop.now_ns / NS, end / NS)
    world.truth.hours_end = world.loop.now_ns
    world.record("hours_end")


def _liveness(wired: Wired) -> None:
    """Faults off; until what must end is gone and the target is reached, at most 8 h."""
    world, truth = wired.world, wired.world.truth
    truth.faults_end = world.faults.stop_all()
    end = truth.faults_end + round(LIVE_MAX_S * NS)
    while world.loop.now_ns < end:
        _advance(wired, min(end, world.loop.now_ns + round(LIVE_LOOK_S * NS)))
        settle_all(world)
        live = live_state(truth, world.scenario, world.loop.now_ns)
        if live.ended and live.reached:
            return
        if live.ended and not live.recoverable and world.loop.now_ns - truth.faults_end >= HOPELESS_S * NS:
            return


def _advance(wired: Wired, when_ns: int) -> None:
    with armed(wired.world.loop):
        wired.world.loop.run_until(when_ns)


def _flush_for_ever(wired: Wired) -> None:
    """The file holds what happened up to the last simulated minute, whatever becomes of the run."""
    world = wired.world

    def flush() -> None:
        world.journal.flush()
        world.loop.at(world.loop.now_ns + round(FLUSH_S * NS), flush)

    flush()


def _result(wired: Wired, cpu: float, wall: float) -> RunResult:
    world, truth = wired.world, wired.world.truth
    settle_all(world)
    world.market.settle()
    now = truth.end = world.loop.now_ns
    wired.finish_counts()
    world.record("end")
    digest = world.journal.sha256()
    seen = tuple(f"the journal ({n} times)" for n in world.journal.seen.values())
    return RunResult(
        scenario=world.scenario, seed=world.seed, adapter=world.adapter, policy=wired.policy, truth=truth,
        fleet=_fleet(wired), verdict=judge(truth, world.scenario, now, secrets_seen=seen), journal_sha256=digest,
        events=world.journal.lines, journal_bytes=world.journal.bytes, simulated_s=now / NS,
        cpu_s=real_process_time() - cpu, wall_s=real_perf_counter() - wall, kept=tuple(world.kept_lines),
        errors=tuple(world.errors), said=dict(wired.said), faults=dict(world.faults.counts), beats=wired.beats,
        beats_failed=wired.beats_failed, beat_max_s=wired.beat_max_s, secrets_seen=seen,
    )


def _fleet(wired: Wired) -> Fleet | None:
    try:
        return wired.last.fleet if wired.last is not None else None
    except StoreError:
        return None


def _header(scenario: Scenario, seed: int, adapter: str, policy: Policy | None) -> dict[str, Any]:
    text = to_toml(scenario)
    return {
        "scenario": scenario.name, "scenario_toml": text,
        "scenario_sha256": hashlib.sha256(text.encode()).hexdigest(), "seed": seed,
        "adapter": adapter, "policy": repr(policy) if policy is not None else "scenario", "rules": scenario.rules,
        "versions": {"python": platform.python_version(), "simpy": simpy.__version__},
    }


@contextmanager
def _collected() -> Iterator[None]:
    """No collection at moments that depend on what ran before: only between chunks, and once all is taken apart."""
    was_on = gc.isenabled()
    gc.disable()
    _freeze_once()
    try:
        yield
    finally:
        gc.collect()
        if was_on:
            gc.enable()


_frozen = False


def _freeze_once() -> None:
    """What was loaded before the first run is never looked at again by the collector: 17 ms a collection saved."""
    global _frozen
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()
