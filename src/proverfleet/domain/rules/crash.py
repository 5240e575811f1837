"""An end of the prover by its own failure is retried, smaller after an out-of-memory, once as it was after another
crash, and only then ends the rental: as crashed or out of memory, with its exit code, never as a rate of 0.

Protects the case M1475: a machine known for 54.8 proofs/h died after 620 s, and "0 proofs/hour < min_rate" destroyed
it. A retry costs about $0.05. An out-of-memory at a size of ours blames us; one on the card the image (I-061).
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import Directed, End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, directed, end, memory_gib, minutes, sized, was_directed
from proverfleet.domain.report import ExitFact, Report
from proverfleet.domain.sizing import partitions_for, smaller

RULE = "crash"
LOOP_RESTARTS = 5
LOOP_S = 900.0


def check(fleet: Fleet, rental: Rental, pending: Pending) -> Directed | End | None:
    last = rental.last
    if last is None:
        return None
    if last.exit is None or last.waiting != "retry":
        return _loop(fleet, rental, pending)
    if was_directed(rental, "retry", last.attempt):
        return None
    oom = last.exit.oom_kill or last.exit.gpu_oom
    if oom and rental.oom_retries < fleet.policy.oom_retries:
        p = _smaller(rental, last)
        text = f"out of memory ({describe(last.exit)}) at p {last.p}: once more with p {p} " \
               f"({rental.oom_retries + 1} of {fleet.policy.oom_retries})"
        return directed(pending, rental, RULE, "retry", {**sized(p), "after": "oom"}, text)
    if not oom and rental.crash_retries < fleet.policy.crash_retries:
        text = f"{last.exit.what} ended ({describe(last.exit)}): once more as it was " \
               f"({rental.crash_retries + 1} of {fleet.policy.crash_retries})"
        return directed(pending, rental, RULE, "retry", {**sized(last.p or 1), "after": "crash"}, text)
    return spent(fleet, rental, last.exit)


def spent(fleet: Fleet, rental: Rental, exit_: ExitFact) -> End:
    """The end of a rental whose retries are used up, named after its exit."""
    retries = {"oom_retries": rental.oom_retries, "crash_retries": rental.crash_retries, "exit_code": exit_.code,
               "exit_signal": exit_.signal, "exit_what": exit_.what}
    if exit_.gpu_oom:
        reason = f"the card ran out of memory, after {tries(rental.oom_retries, 'smaller ')}"
        return end(rental, RULE, "out_of_memory", "gpu_oom", reason, "us", **retries)
    if exit_.oom_kill:
        reason = f"the kernel killed the prover for memory, after {tries(rental.oom_retries, 'smaller ')}"
        return end(rental, RULE, "out_of_memory", "kernel_oom", reason, "us", **retries)
    reason = f"{exit_.what} ended ({describe(exit_)}), after {tries(rental.crash_retries)}"
    return end(rental, RULE, "crashed", cause_of(rental, exit_), reason, "machine", **retries)


def tries(count: int, kind: str = "") -> str:
    """"one retry", "2 smaller retries", "no retry"."""
    return f"{'no' if count == 0 else 'one' if count == 1 else count} {kind}{'retry' if count < 2 else 'retries'}"


def cause_of(rental: Rental, exit_: ExitFact) -> str:
    last = rental.last
    if last is not None and last.gpus is not None and any(g.xid for g in last.gpus):
        return "gpu_error"
    if exit_.what == "bench":
        return "bench_error"
    return "signal" if exit_.signal else "exit_code"


def describe(exit_: ExitFact) -> str:
    return f"signal {exit_.signal}" if exit_.signal else f"exit code {exit_.code}"


def _smaller(rental: Rental, last: Report) -> int:
    """One size down, and never above what the limit allows (a first size that others chose may have been far above)."""
    p = smaller(last.p or 1)
    limit = memory_gib(rental)
    return p if limit is None else max(1, min(p, partitions_for(limit)))


def _loop(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    """Restarts are no progress (I-027): five of them in 15 min without a unit of work are a crash of their own."""
    last = rental.last
    assert last is not None
    restarts = last.restarts_agent + last.restarts_prover + last.restarts_container - rental.progress_restarts
    still_s = evidence.stall_age_s(fleet, rental)
    if restarts < LOOP_RESTARTS or not pending.settled or not evidence.ripe(still_s, LOOP_S):
        return None
    reason = f"{restarts} restarts without a unit of work in {minutes(still_s)}"
    return end(rental, RULE, "crashed", "prover_error", reason, "machine", restarts=restarts, still_s=still_s)
