"""The rate of a rental and whether it condemns (rules.md section 2): accepted proofs over busy time, at one size, on the
agent's monotonic clock. Which intervals count is ``completions.py``'s affair; here they are only weighed.

The bound: intervals vary by a few per cent a proof, so the mean of n of them is known to about spread / sqrt(n). Over
its life a rental is looked at thousands of times, hence z = 5 (one-sided 3e-7 a look), widened for small n. Where the
bound still straddles ``min_rate``, evidence grows over up to three windows.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from proverfleet.domain.completions import WINDOWS, shared, window_s
from proverfleet.domain.fleet import BATCH, EARNING, Completed, Rental
from proverfleet.domain.policy import Policy

Z = 5.0
Z_SHARED = 3.5
SMALL_N = 4.0
SPREAD_FLOOR = 0.02
SPREAD_UNKNOWN = 0.5
EARLY_PROOFS = 6
FULL_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class RateView:
    """What the completions say. Rates in proofs per hour (``upper`` may be infinite); ``full``: the window is.
    ``verdict``: above | below | early_below | undecided. ``why`` in words."""

    rate: float | None
    upper: float | None
    lower: float
    proofs: int
    busy_s: float
    full: bool
    verdict: str
    why: str


NOTHING = RateView(None, None, 0.0, 0, 0.0, False, "undecided", "no two proofs yet")


def view(fleet: Fleet, rental: Rental) -> RateView:
    """The look that counts now: at the batch until it was judged, at the earning after that."""
    last = rental.last
    at_batch = rental.judged in ("", "failed") and last is not None and (last.stage == "batch" or last.bench is not None)
    return benchmark(rental, fleet.policy) if at_batch else active(rental, fleet.policy)


def benchmark(rental: Rental, policy: Policy) -> RateView:
    """The rate of this attempt's batch; full from ``batch_proofs`` proofs on a whole machine."""
    done = [c for c in rental.completed if c.phase == BATCH and c.attempt == rental.phase_attempt]
    if len(done) < 2:
        return NOTHING
    proofs = done[-1].proofs_sum - done[0].proofs_sum
    return _weigh(done[0], done[-1], rental, policy, not shared(rental) and proofs + 1 >= policy.batch_proofs)


def active(rental: Rental, policy: Policy) -> RateView:
    """The rate over the newest window of busy time, or over two or three where one does not decide."""
    done = rental.completed
    if len(done) < 2 or done[-1].phase != EARNING:
        return NOTHING
    newest, one_s = done[-1], window_s(rental, policy)
    first = next((i for i, c in enumerate(done) if c.phase == EARNING), 0)
    seen = NOTHING
    for k in range(1, WINDOWS + 1):
        at = bisect_left(done, newest.busy_sum_s - k * one_s, lo=first, key=lambda c: c.busy_sum_s)
        oldest = done[max(first, at - 1)]
        full = newest.busy_sum_s - oldest.busy_sum_s >= FULL_SHARE * k * one_s
        if k > 1 and not full:
            break
        seen = _weigh(oldest, newest, rental, policy, full)
        if seen.verdict != "undecided" or not full:
            break
    return seen


def view(rental: Rental, policy: Policy) -> RateView:
    """The rate of the rental's present stage."""
    return benchmark(rental, policy) if rental.stage == "benchmark" else active(rental, policy)


def _weigh(a: Completed, b: Completed, rental: Rental, policy: Policy, full: bool) -> RateView:
    n = b.proofs_sum - a.proofs_sum
    busy_s = b.busy_sum_s - a.busy_sum_s
    if n < 1 or busy_s <= 0:
        return NOTHING
    rate = 3600.0 * n / busy_s
    spread = _spread(n, busy_s, b.square_sum - a.square_sum)
    error = (Z_SHARED if shared(rental) else Z) * (1.0 + SMALL_N / n) * spread / math.sqrt(n)
    upper = rate / (1.0 - error) if error < 1.0 else math.inf
    lower = rate / (1.0 + error)
    floor, early = rental.min_rate, policy.rate_early_share * rental.min_rate
    bound = f"{upper:.1f}" if math.isfinite(upper) else "?"
    text = f"{rate:.1f}/h ({lower:.1f} to {bound}) over {n + 1} proofs in {busy_s / 60:.0f} busy min"
    if full and upper < floor:
        return RateView(rate, upper, lower, n + 1, busy_s, full, "below", f"{text}, below {floor:g}")
    if not full and n >= EARLY_PROOFS and upper < early:
        why = f"{text}, below {policy.rate_early_share:g} x {floor:g} before the window is full"
        return RateView(rate, upper, lower, n + 1, busy_s, full, "early_below", why)
    if lower >= floor:
        return RateView(rate, upper, lower, n + 1, busy_s, full, "above", f"{text}, not below {floor:g}")
    why = f"{text}, {'straddles' if full else 'window not full for'} {floor:g}"
    return RateView(rate, upper, lower, n + 1, busy_s, full, "undecided", why)


def _spread(n: int, busy_s: float, square_sum: float) -> float:
    """Relative standard deviation of one proof's time, from the sum of busy² / proofs over the intervals."""
    if n < 3:
        return SPREAD_UNKNOWN
    mean = busy_s / n
    variance = max(0.0, square_sum - n * mean * mean) / (n - 1)
    return max(SPREAD_FLOOR, math.sqrt(variance) / mean)
