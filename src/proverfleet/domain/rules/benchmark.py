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
from proverfleet.domain.sizing import SMALLER, partitions_for

RULE = "benchmark"
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
        bigger = larger_size(rental)
        if bigger is not None:
            return resize(pending, rental, RULE, bigger, seen.why)
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


def larger_size(rental: Rental) -> int | None:
    """One size up from what it runs at, while the memory limit allows it and nothing as large was ever killed."""
    last = rental.last
    limit = memory_gib(rental)
    if last is None or last.p is None or limit is None:
        return None
    most = partitions_for(limit)
    if rental.oom_at_p:
        most = min(most, rental.oom_at_p - 1)
    up = min(most, max(last.p + 1, math.floor(last.p / SMALLER)))
    return up if up > last.p else None


def resize(pending: Pending, rental: Rental, rule: str, p: int, why: str) -> list[Judged | Marked | Directed | End]:
    """One size up before a rate may condemn. Nothing while an earlier one of this attempt waits."""
    last, limit = rental.last, memory_gib(rental)
    assert last is not None and limit is not None
    text = f"slow at p {last.p}, but p {p} fits {limit:.0f} GiB: one size up first ({why})"
    order = directed(pending, rental, rule, "resize", sized(p), text)
    return [] if order is None else [order]
