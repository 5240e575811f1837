"""The batch decides once: passed, failed or undecided. Undecided goes on to `active` on probation, where it earns.

Protects INV-1: nothing here looks at age (case M1121: a time limit killed a machine in the middle of its batch), a
batch without a result is `crash`'s affair, and a rate at less than the largest size that fits condemns nobody: the
size goes up first. One bad proof in the batch (I-064 A) is no reason to fail it.
"""

from __future__ import annotations

import math

from proverfleet.domain import rate
from proverfleet.domain.events import Directed, End, Judged, Marked
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, directed, end, memory_gib, reports_fresh, sized
from proverfleet.domain.policy import Policy
from proverfleet.domain.sizing import SMALLER, partitions_for_seen

RULE = "benchmark"
CREPT = 1.1
"""Memory creeps up by at most a tenth after the batch (cuzk-model.md section 5)."""
CORES_PER_PARTITION = 4
"""Below four cores a partition, syntheses get in each other's way (cuzk-model.md section 5)."""
DOWN_TO = 5
DOWN_SHARE = 0.8
"""Smaller sizes than 5 gain nothing, and no smaller one makes up for more than a fifth."""
CONDEMNED = ("below", "early_below")


def check(fleet: Fleet, rental: Rental, pending: Pending) -> list[Judged | Marked | Directed | End]:
    last = rental.last
    if last is None or rental.judged in ("passed", "undecided") or not reports_fresh(fleet, rental):
        return []
    over = last.bench is not None and last.bench[0] > 0
    if last.waiting or not (over or last.stage == "batch"):
        return []
    seen = rate.benchmark(rental, fleet.policy)
    if seen.verdict in CONDEMNED:
        other = other_size(rental, fleet.policy, seen)
        if other is not None:
            return resize(pending, rental, RULE, other, seen.why)
        said = slow(rental, RULE, seen)
        if rental.judged == "failed":  # a brake held its end
            return [said]
        return [Judged(RULE, rental.intent, "failed", seen.rate, seen.proofs, seen.why), said]
    if not over or rental.judged == "failed":
        return []
    outcome = "passed" if seen.verdict == "above" else "undecided"
    judged = Judged(RULE, rental.intent, outcome, seen.rate, seen.proofs, seen.why)
    if outcome == "passed":
        return [judged]
    return [judged, Marked(RULE, rental.intent, "probation", True, f"benchmark undecided: {seen.why}")]


def slow(rental: Rental, rule: str, seen: rate.RateView) -> End:
    """The one way in which a rate ends a rental: with the number, the threshold, its provenance and the bound."""
    number = "unknown" if seen.rate is None else f"{seen.rate:.1f}"
    bound = seen.upper if seen.upper is not None and math.isfinite(seen.upper) else None
    upper = f", upper bound {bound:.1f}" if bound is not None else ""
    reason = f"rate {number} below min_rate {rental.min_rate:g} ({rental.min_rate_from}), {seen.proofs} proofs{upper}"
    return end(rental, rule, "slow", "rate" if seen.verdict == "below" else "rate_early", reason, "machine",
               rate=seen.rate, upper=bound, lower=seen.lower,
               proofs=seen.proofs, busy_s=seen.busy_s, why=seen.why)


def larger_size(rental: Rental, policy: Policy, upper: float | None = None) -> int | None:
    """One size up from what it runs at, while the memory limit allows it. While retries are left only the memory that
    was seen counts (what killed a size once may have passed); then only sizes below the one that was killed.

    What fits is judged by the memory that a partition was seen to take: 20 GiB where the CPU is the brake, up to 27.6
    where the card is. Condemning below that size would condemn our own caution, not the machine. No size gives more
    than its share of partitions: where even the largest at ``upper`` a partition is too slow, none is tried.
    """
    last = rental.last
    limit = memory_gib(rental)
    if last is None or last.p is None or limit is None:
        return None
    seen_gib = last.rss_gib if last.rss_gib is None or rental.stage == "benchmark" else last.rss_gib / CREPT
    most = partitions_for_seen(limit, last.p, seen_gib)
    if rental.oom_at_p and rental.oom_retries >= policy.oom_retries:
        most = min(most, rental.oom_at_p - 1)
    if upper is not None and upper * most / last.p < rental.min_rate:
        return None
    up = min(most, max(last.p + 1, math.floor(last.p / SMALLER)))
    return up if up > last.p else None


def other_size(rental: Rental, policy: Policy, seen: rate.RateView) -> int | None:
    """The size to try before its rate may condemn it: one up where that fits; else, once, one down, since above some
    number of partitions more of them only get in each other's way (cuzk-model.md section 5: 30 are slower than 16)."""
    last = rental.last
    if last is None or last.p is None:
        return None
    up = larger_size(rental, policy, seen.upper)
    if up is not None and up > max(rental.too_slow_at, default=0):
        return up  # a size between ones that were too slow is not tried: each try costs a window
    down = math.floor(last.p * SMALLER)
    if rental.cpu_cores > 0:
        down = max(down, min(last.p - 1, math.floor(rental.cpu_cores / CORES_PER_PARTITION)))
    came_down = any(p > last.p for p in rental.too_slow_at)
    if down < DOWN_TO or came_down or down in rental.too_slow_at:
        return None
    return down if seen.rate is not None and seen.rate >= DOWN_SHARE * rental.min_rate else None


def resize(pending: Pending, rental: Rental, rule: str, p: int, why: str) -> list[Judged | Marked | Directed | End]:
    """Another size before a rate may condemn. Nothing while an earlier one of this attempt waits."""
    last, limit = rental.last, memory_gib(rental)
    assert last is not None and limit is not None
    up = last.p is not None and p > last.p
    way = f"p {p} fits {limit:.0f} GiB: one size up first" if up else f"p {p} may do better"
    text = f"slow at p {last.p}, but {way} ({why})"
    order = directed(pending, rental, rule, "resize", sized(p), text)
    return [] if order is None else [order]
