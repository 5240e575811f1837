"""The measured rate of a rental and how sure it is (rules.md section 2).

Rate = counted proofs over counted busy time, both from ``Rental.completed`` (completions.py says what counts). Times of
single proofs scatter by 1.3 to 4 % on a whole machine (cuzk-model.md section 5), so a look compares an *upper bound*
with ``min_rate``. Whole machines: Student's t on the scatter of the intervals, never tighter than a 0.5 % scatter and
never wider than the normal quantile on the larger of the seen scatter and 4.5 %. Shared ones: neighbours come in
episodes of tens of minutes, so the scatter is taken between twelve blocks of the window, never tighter than the
proofs themselves say.

Where one window does not decide, evidence grows over up to three, and a batch at the same size counts as well: a rate
of 0.97 shows only then. The newest window must agree, or a machine that has recovered would pay for its past.

Levels: a batch is looked at about once (2e-5); a rental that earns is looked at every beat for days, which is worth
some tens of independent looks a day (2e-6); shared ones may err in 1 of 100 (1e-3 a look).
``tests/bench/bench_rate.py`` measures the sum over all looks.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise

from proverfleet.domain.completions import WINDOWS, shared, window_s
from proverfleet.domain.fleet import BATCH, EARNING, NS, WARMING, Completed, Rental
from proverfleet.domain.policy import Policy

RATE_SHOWN_FROM = 5  # counted proofs from which a rate while earning replaces the batch's in what people see
_SLACK = 0.001  # clocks drift by some hundred ppm and the agent's counters round; 0.97 … 1 may go either way
_SCATTER_MIN = 0.005
_SCATTER_USUAL = 0.045
_EARLY_PROOFS = 3
_GROWN = (1.5, 2.0, 2.5, 0.97 * WINDOWS)  # windows over which evidence grows; the last one just before the third ends
_AGREES_SIGMAS = 2.0
_BLOCKS = 12
_CONSUMER_PROOFS = 20
_CONSUMER_SHARE = 0.9

# One-sided quantiles of Student's t: (degrees of freedom, at 2e-5, at 2e-6, at 1e-3). The last row is the normal's.
_T: tuple[tuple[float, float, float, float], ...] = (
    (2, 158.11, 500.0, 22.33), (3, 38.03, 81.98, 10.21), (4, 19.60, 34.95, 7.17), (5, 13.50, 21.54, 5.89),
    (6, 10.67, 15.85, 5.21), (8, 8.10, 11.05, 4.50), (10, 6.94, 9.03, 4.14), (11, 6.57, 8.42, 4.02),
    (15, 5.73, 7.04, 3.73), (20, 5.24, 6.27, 3.55), (30, 4.81, 5.62, 3.39), (40, 4.62, 5.34, 3.31),
    (60, 4.43, 5.08, 3.23), (120, 4.27, 4.83, 3.16), (1e9, 4.11, 4.61, 3.09),
)
_LEVEL_BATCH, _LEVEL_EARNING, _LEVEL_SHARED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class RateView:
    """One look at a rate; all rates in proofs/h. ``rate`` None: fewer than two counted proofs; ``upper`` None: no bound
    yet. ``busy_s``: counted busy seconds. ``full``: the window of the rate rule is full.

    ``verdict``: "below" (surely below min_rate over a full window) | "early_below" (surely below 0.6 x min_rate before)
    | "above" (surely not below) | "undecided". ``why`` gives the numbers in words.
    """

    rate: float | None
    upper: float | None
    lower: float
    proofs: int
    busy_s: float
    full: bool
    verdict: str
    why: str


def benchmark(rental: Rental, policy: Policy) -> RateView:
    """The rate of the present attempt's batch. On a shared machine a batch condemns only below 0.6 x min_rate."""
    first, last, done = _batch(rental)
    if first is None or last is None:
        return _none(done, "no two proofs of this batch yet")
    proofs, busy_s, squares = _between(first, last)
    full = done or last.n - first.n + 1 >= policy.batch_proofs
    spent_s = busy_s + _open_s(rental, last, policy)
    early = _early(rental, policy, proofs + 1, spent_s) and not can_reach(rental, policy)
    if proofs < 1:
        if not early:
            return _none(full, "no two proofs of this batch count yet")
        return RateView(None, None, 0.0, proofs, busy_s, full, "early_below", _too_slow(rental, spent_s, proofs))
    margin = _margin(proofs, busy_s, squares, _LEVEL_BATCH)
    seen = _look(rental, proofs, busy_s, margin, full and not shared(rental), policy)
    if seen.verdict == "below" and proofs < (policy.batch_proofs - 1) // 2:
        seen = _as(seen, "undecided", f"too few proofs of the batch count: {seen.why}")
    if not full and seen.verdict in ("undecided", "early_below"):
        if early:
            return _as(seen, "early_below", _too_slow(rental, spent_s, proofs))
        return _as(seen, "undecided", seen.why)
    return replace(seen, full=full)


def can_reach(rental: Rental, policy: Policy) -> bool:
    """Could the batch still reach min_rate if its remaining proofs all came now? True while nothing is known."""
    first, last, done = _batch(rental)
    if first is None or last is None:
        return True
    proofs, busy_s, _ = _between(first, last)
    spent_s = busy_s + _open_s(rental, last, policy)
    left = 0 if done else max(0, policy.batch_proofs - (last.n - first.n + 1))
    return spent_s <= 0 or (proofs + left) * 3600.0 / spent_s >= rental.min_rate


def unsuspected(rental: Rental, policy: Policy) -> tuple[float, int] | None:
    """Rate and counted proofs of the newest window as :func:`active` has them, where the rate is not below min_rate:
    its upper bound is not either, so nothing can condemn it. None otherwise. A tenth of the cost of ``active``."""
    done = rental.completed
    if len(done) < 2 or done[-1].phase != EARNING or _resized(rental) or policy.rate_early_share > 1:
        return None
    last = done[-1]
    first = _at(done, last.busy_sum_s - window_s(rental, policy), _first_earning(done))
    proofs, busy_s, _ = _between(first, last)
    if proofs < 1:
        return None
    rate = _rate(proofs, busy_s, consumer_share(rental))
    return (rate, proofs) if rate >= rental.min_rate else None


def active(rental: Rental, policy: Policy) -> RateView:
    """The rate while earning, at the present size: the last window of busy time, and up to three for more evidence."""
    done = rental.completed
    if len(done) < 2 or done[-1].phase != EARNING:
        return _none(False, "not two proofs since it began to earn")
    if _resized(rental):
        return _none(False, "runs at another size since its last proof")
    one_s, share, last = window_s(rental, policy), consumer_share(rental), done[-1]
    start = _first_earning(done)
    have_s = last.busy_sum_s - done[start].busy_sum_s
    proofs, busy_s, squares = _between(_at(done, last.busy_sum_s - one_s, start), last)
    if proofs < 1:
        return _none(False, "no interval between two proofs counts yet")
    if have_s < one_s:
        seen = _look(rental, proofs, busy_s, _margin(proofs, busy_s, squares, _LEVEL_EARNING), False, policy, share)
        return _as(seen, "undecided", f"{seen.why}, window not full") if seen.verdict == "above" else seen
    margin = _spread(rental, done, start, one_s)
    seen = _look(rental, proofs, busy_s, margin, True, policy, share)
    if seen.verdict == "undecided" and seen.rate is not None and seen.rate < rental.min_rate:
        return _grown(rental, policy, seen, margin, one_s, share)
    return seen


def _resized(rental: Rental) -> bool:
    """Does it run at another size than its last proof was made at?"""
    last = rental.last
    return last is not None and last.p is not None and last.p != rental.completed[-1].p


def _grown(rental: Rental, policy: Policy, seen: RateView, margin: float, one_s: float, share: float) -> RateView:
    """More evidence for an undecided window: longer ones, if the newest agrees with what they say."""
    done = rental.completed
    last, start, p = done[-1], len(done) - 1, done[-1].p
    while start and done[start - 1].phase != WARMING and done[start - 1].p == p:
        start -= 1
    have_s = last.busy_sum_s - done[start].busy_sum_s
    for windows in _GROWN:
        over_s = windows * one_s
        if have_s < over_s:
            break
        more, more_s, _ = _between(_at(done, last.busy_sum_s - over_s, start), last)
        wide = _look(rental, more, more_s, _spread(rental, done, start, over_s), True, policy, share)
        one_sigma = margin / _T[-1][_LEVEL_EARNING]
        if wide.verdict == "below" and (seen.rate or 0.0) <= (wide.rate or 0.0) * (1 + _AGREES_SIGMAS * one_sigma):
            return wide
    return seen


def consumer_share(rental: Rental) -> float:
    """The share of the agent's claimed proofs that reached the consumer, where that is clearly below 1; else 1.

    A machine that counts what it never made is held to the consumer's word. Two proofs may be on their way.
    """
    claimed = rental.consumer_claimed
    if claimed < _CONSUMER_PROOFS or rental.consumer_seen <= 0:
        return 1.0
    share = (rental.consumer_seen + 2) / claimed
    return share if share < _CONSUMER_SHARE else 1.0


# ---------------------------------------------------------------- windows


def _batch(rental: Rental) -> tuple[Completed | None, Completed | None, bool]:
    """First and last completion of the present attempt's batch, and whether the batch is over."""
    done, report = rental.completed, rental.last
    over = report is not None and report.bench is not None
    end = len(done)
    while end and done[end - 1].phase != BATCH:
        end -= 1
    if not end or done[end - 1].attempt != rental.phase_attempt:
        return None, None, over
    newest = done[end - 1]
    kind = (BATCH, newest.attempt, newest.p)
    start = end - 1
    while start and (done[start - 1].phase, done[start - 1].attempt, done[start - 1].p) == kind:
        start -= 1
    return done[start], newest, over


def _open_s(rental: Rental, last: Completed, policy: Policy) -> float:
    """Seconds since the batch's last proof, by the agent's newest report; a freeze that still lasts is left out, as
    much of it as may be."""
    report = rental.last
    if report is None or report.clock_id != last.clock_id or report.stage != "batch" or report.attempt != last.attempt:
        return 0.0
    open_s = max(0.0, (report.mono_ns - last.mono_ns) / NS)
    return max(0.0, open_s - policy.rate_freeze_allowed_s) if open_s > policy.rate_freeze_s else open_s


def _first_earning(done: list[Completed]) -> int:
    """Where earning begins in the record (entries of the batch may stand before it)."""
    if done[0].phase == EARNING:
        return 0
    return next((i for i, entry in enumerate(done) if entry.phase == EARNING), len(done) - 1)


def _at(done: list[Completed], busy_sum_s: float, start: int) -> Completed:
    """The newest entry whose running busy time is at most ``busy_sum_s`` (so that the window is at least full), or the
    one at ``start``."""
    i = bisect_left(done, busy_sum_s, start, key=_busy)
    if i == len(done) or done[i].busy_sum_s > busy_sum_s:
        i -= 1
    return done[max(start, i)]


def _busy(entry: Completed) -> float:
    return entry.busy_sum_s


def _between(first: Completed, last: Completed) -> tuple[int, float, float]:
    return (last.proofs_sum - first.proofs_sum, last.busy_sum_s - first.busy_sum_s, last.square_sum - first.square_sum)


# ---------------------------------------------------------------- how sure


def _quantile(freedom: float, level: int) -> float:
    """Student's t, interpolated in 1/freedom between the table's rows."""
    if freedom <= _T[0][0]:
        return _T[0][level]
    for low, high in pairwise(_T):
        if freedom <= high[0]:
            at = (1 / freedom - 1 / high[0]) / (1 / low[0] - 1 / high[0])
            return high[level] + at * (low[level] - high[level])
    return _T[-1][level]


def _margin(proofs: int, busy_s: float, squares: float, level: int) -> float:
    """How far the mean time of a proof may be off, as a share of it, at this level."""
    if proofs < 2 or busy_s <= 0:
        return math.inf
    variance = max(0.0, squares - busy_s * busy_s / proofs) / (proofs - 1)
    scatter = max(_SCATTER_MIN, math.sqrt(variance) * proofs / busy_s)
    seen = _quantile(proofs - 1, level) * scatter
    usual = _T[-1][level] * max(scatter, _SCATTER_USUAL)
    return min(seen, usual) / math.sqrt(proofs)


def _spread(rental: Rental, done: list[Completed], start: int, over_s: float) -> float:
    """The margin of an earning window: from single proofs, on a shared machine from blocks of the window as well."""
    last = done[-1]
    proofs, busy_s, squares = _between(_at(done, last.busy_sum_s - over_s, start), last)
    if not shared(rental):
        return _margin(proofs, busy_s, squares, _LEVEL_EARNING)
    single = _margin(proofs, busy_s, squares, _LEVEL_SHARED)
    step_s = over_s / _BLOCKS
    edges = [_at(done, last.busy_sum_s - i * step_s, start) for i in range(_BLOCKS, 0, -1)] + [last]
    times = []
    for a, b in pairwise(edges):
        made = b.proofs_sum - a.proofs_sum
        if made:
            times.append((b.busy_sum_s - a.busy_sum_s) / made)
    if len(times) < 4:
        return math.inf
    mean = sum(times) / len(times)
    variance = sum((t - mean) ** 2 for t in times) / (len(times) - 1)
    return max(single, _quantile(len(times) - 1, _LEVEL_SHARED) * math.sqrt(variance / len(times)) / mean)


def _look(
    rental: Rental, proofs: int, busy_s: float, margin: float, condemns: bool, policy: Policy, share: float = 1.0
) -> RateView:
    """Rate and bounds of one window against min_rate; ``condemns``: the window is full and may say "below"."""
    rate = _rate(proofs, busy_s, share)
    upper, lower = (rate / (1 - margin) if margin < 1 else None), rate / (1 + margin)
    bound = "no bound yet" if upper is None else f"surely below {upper:.2f}"
    why = f"{proofs} proofs in {busy_s:.0f} s: {rate:.2f} proofs/h, {bound}, min_rate {rental.min_rate:g}"
    if share < 1:
        why += f" (the consumer saw {share:.0%} of what was claimed)"
    if condemns and upper is not None and upper * (1 + _SLACK) < rental.min_rate:
        verdict = "below"
    elif proofs >= _EARLY_PROOFS and upper is not None and upper < policy.rate_early_share * rental.min_rate:
        verdict = "early_below"
    else:
        verdict = "above" if lower >= rental.min_rate else "undecided"
    return RateView(rate, upper, lower, proofs, busy_s, condemns, verdict, why)


def _rate(proofs: int, busy_s: float, share: float) -> float:
    return share * proofs * 3600.0 / busy_s


def _early(rental: Rental, policy: Policy, proofs: int, spent_s: float) -> bool:
    """Even with one more proof at this moment: surely below 0.6 x min_rate? The usual scatter bounds it."""
    if spent_s <= 0:
        return False
    margin = _T[-1][_LEVEL_BATCH] * _SCATTER_USUAL / math.sqrt(proofs)
    return proofs * 3600.0 / spent_s / (1 - margin) < policy.rate_early_share * rental.min_rate


def _none(full: bool, why: str) -> RateView:
    return RateView(None, None, 0.0, 0, 0.0, full, "undecided", why)


def _as(seen: RateView, verdict: str, why: str) -> RateView:
    return replace(seen, verdict=verdict, why=why)


def _too_slow(rental: Rental, spent_s: float, proofs: int) -> str:
    return f"{proofs} proofs in {spent_s:.0f} s: min_rate {rental.min_rate:g} proofs/h is out of reach"
