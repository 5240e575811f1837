"""The record of finished proofs that a rate rests on: which intervals between two proofs count, and which do not.

Left out (rules.md section 2): anything across a change of clock, attempt, size, phase or process; the first 7 min of
earning after a start or restart; intervals in which the prover starved, the one after (the pipeline fills again), and
7 min after an idle time over 20 min; a freeze of over 10 min, at most 30 min in 6 h. What is left is kept as running
sums, so that a look at any window costs two list positions.
"""

from __future__ import annotations

from proverfleet.domain.fleet import BATCH, EARNING, NS, WARMING, Completed, Rental
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import Report

WINDOWS = 3  # evidence grows over at most this many windows
_STARVED_NOISE_S = 5.0  # less than this between two proofs is the consumer's handing over, not idleness
_SLOW_PROOFS = 3.0  # a gap shorter than this many proofs at min_rate is slowness, not a freeze
_BATCH_KEPT = 64
_PRUNE_AT = 32

_PHASES = {"batch": BATCH, "active": EARNING, "draining": EARNING}


def record(rental: Rental, report: Report, policy: Policy) -> bool:
    """Adds the report's new completions to ``rental.completed``; True when any was new.

    Must be called for newest reports only; completions are merged by their running number, so repeats cost nothing and
    lost reports only coarsen the record.
    """
    phase = _PHASES.get(report.stage, WARMING)
    entered = phase != rental.phase or report.attempt != rental.phase_attempt
    process = f"{report.clock_id}/{report.restarts_prover}/{report.restarts_container}"
    if phase == EARNING and (entered or process != rental.rate_process):
        _skip(rental, report.clock_id, report.mono_ns, policy)
    rental.phase, rental.phase_attempt, rental.rate_process = phase, report.attempt, process
    if not report.last_completions or report.stage == "draining":
        return False  # while draining the pipeline runs dry: those intervals say nothing
    restarts = report.restarts_prover + report.restarts_container
    done = rental.completed
    newest = done[-1].n if done else -1
    fresh = [c for c in report.last_completions if c[0] > newest]
    if not fresh:
        return False
    for i, (n, mono_ns) in enumerate(fresh):
        own = phase
        if entered and phase != WARMING and (i == 0 or phase == EARNING):
            own = phase - 1  # finished before the stage changed; the report that says so carries it
        _append(rental, Completed(n, mono_ns, report.clock_id, report.attempt, report.p or 0, report.starved_s,
                                  own, restarts), policy)
    _prune(rental, policy)
    return True


def forget(rental: Rental) -> None:
    """Starts the record anew: the agent lost its own count (a wiped disk)."""
    rental.completed.clear()
    rental.phase = rental.phase_attempt = -1


def window_s(rental: Rental, policy: Policy) -> float:
    """Busy seconds of one window: 1 h on a whole machine, 6 h on a shared one (field: neighbours come in episodes)."""
    return policy.rate_window_shared_s if shared(rental) else policy.rate_window_s


def shared(rental: Rental) -> bool:
    """Do others use the box? Then one batch says little."""
    return rental.gpu_frac < 0.999


def _skip(rental: Rental, clock_id: str, from_ns: int, policy: Policy) -> None:
    rental.rate_skip_clock = clock_id
    rental.rate_skip_until_ns = from_ns + int(policy.rate_warm_up_s * NS)


def _append(rental: Rental, new: Completed, policy: Policy) -> None:
    done = rental.completed
    if not done:
        done.append(new)
        return
    last = done[-1]
    if new.phase == EARNING and last.phase == EARNING and new.p != last.p:
        done.clear()  # another size is another machine
        rental.rate_freezes.clear()
        done.append(new)
        return
    new.proofs_sum, new.busy_sum_s, new.square_sum = last.proofs_sum, last.busy_sum_s, last.square_sum
    starved_s = new.starved_s - last.starved_s
    busy_s = (new.mono_ns - last.mono_ns) / NS
    whole = (
        new.phase == last.phase != WARMING and new.attempt == last.attempt and new.clock_id == last.clock_id
        and new.p == last.p and new.restarts == last.restarts and busy_s > 0
    )
    if new.phase == EARNING:
        busy_s -= max(0.0, starved_s)
    if new.phase == EARNING and starved_s > _STARVED_NOISE_S:
        if starved_s > policy.rate_idle_gap_s:
            _skip(rental, new.clock_id, new.mono_ns, policy)
        whole, rental.rate_after_break = False, True
    elif rental.rate_after_break:
        whole, rental.rate_after_break = False, False
    if new.phase == EARNING and new.clock_id == rental.rate_skip_clock and last.mono_ns < rental.rate_skip_until_ns:
        whole = False
    if whole:
        busy_s -= _frozen_s(rental, last, busy_s, policy)
        proofs = new.n - last.n
        if busy_s > 0:
            new.proofs_sum += proofs
            new.busy_sum_s += busy_s
            new.square_sum += busy_s * busy_s / proofs
    done.append(new)


def _frozen_s(rental: Rental, last: Completed, busy_s: float, policy: Policy) -> float:
    """How much of this interval is left out as a freeze: all of it while the allowance lasts."""
    slow_s = _SLOW_PROOFS * 3600.0 / rental.min_rate if rental.min_rate > 0 else 0.0
    if busy_s <= max(policy.rate_freeze_s, slow_s):
        return 0.0
    horizon_ns = last.mono_ns - int(policy.rate_freeze_per_s * NS)
    kept = [f for f in rental.rate_freezes if horizon_ns <= f[0] <= last.mono_ns]
    out_s = min(busy_s, max(0.0, policy.rate_freeze_allowed_s - sum(s for _, s in kept)))
    rental.rate_freezes = [*kept, (last.mono_ns, out_s)] if out_s > 0 else kept
    return out_s


def _prune(rental: Rental, policy: Policy) -> None:
    """Keeps what the longest look needs: three windows of earning, or one batch."""
    done = rental.completed
    if len(done) <= _PRUNE_AT + 1:
        return
    if done[-1].phase != EARNING:
        del done[:-_BATCH_KEPT]
        return
    from_s = done[-1].busy_sum_s - WINDOWS * window_s(rental, policy)
    if done[_PRUNE_AT].busy_sum_s > from_s:
        return  # too few to be worth it
    cut = _PRUNE_AT
    while cut < len(done) - 2 and done[cut + 1].busy_sum_s <= from_s:
        cut += 1
    del done[:cut]
