"""Sizes and the benchmark's result: plain arithmetic on what was read and counted."""

from __future__ import annotations

import math

from proverfleet.agent.settings import AgentSettings
from proverfleet.domain.report import ExitFact
from proverfleet.domain.sizing import concurrency_for, partitions_for
from proverfleet.ports import Completion, Exit

NS = 1_000_000_000
WARM_UP_P = 2  # without a PCE cache synthesis spikes: the field's script started small for the same reason
UNKNOWN_MEMORY_P = 1
LOG_TAIL_CHARS = 4000


def first_size(settings: AgentSettings, limit_gib: float | None) -> tuple[int, int]:
    """(p, concurrency) of the first attempt. ``limit_gib``: the smallest cgroup limit; None or infinite: there is none
    to be read, then the offer's memory counts; with neither known, one partition at a time."""
    if settings.first_sizing is not None:
        return settings.first_sizing
    if limit_gib is None or not math.isfinite(limit_gib):
        limit_gib = settings.ram_gib
    p = UNKNOWN_MEMORY_P if limit_gib is None else partitions_for(limit_gib)
    return p, concurrency_for(p)


def warm_up_size(p: int) -> int:
    return min(WARM_UP_P, p)


def result(
    accepted: int, failed: int, completions: tuple[Completion, ...], began_mono_ns: int, now_mono_ns: int
) -> tuple[tuple[int, int, float], float | None]:
    """((accepted, failed, seconds), proofs per hour) of a batch that ended. As cuzk-bench counts: completed over total
    time, which ends with the last proof (a failed last one is not dated: the time is then that of the look at it)."""
    ended = completions[-1].mono_ns if completions and not failed else now_mono_ns
    seconds = max(0.0, (ended - began_mono_ns) / NS)
    rate = accepted * 3600.0 / seconds if accepted and seconds > 0 else None
    return (accepted, failed, seconds), rate


def exit_fact(what: str, end: Exit) -> ExitFact:
    return ExitFact(what, end.code, end.signal, end.oom_kill, end.gpu_oom, end.log_tail[-LOG_TAIL_CHARS:])


def no_proof(failed: int) -> ExitFact:
    """A batch that ended by itself without one accepted proof is an error of the benchmark, never a rate of 0."""
    return ExitFact("bench", 0, None, False, False, f"the batch ended: none accepted, {failed} failed")


def not_started(error: Exception) -> ExitFact:
    return ExitFact("prover", None, None, False, False, f"the daemon did not start: {error}")
