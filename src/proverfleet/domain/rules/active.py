"""A rental that earns ends when its rate over busy time is below `min_rate`: its upper bound, over the full window, or
below 0.6 of it before that.

Protects INV-1: idle time, warm-up after a restart and freezes that belong to `stall` are left out by `rate`, a rental
that is starved of work is judged on its busy time only (I-039), and the largest size that fits is tried first.
"""

from __future__ import annotations

from proverfleet.domain import rate
from proverfleet.domain.events import Directed, End, Judged, Marked
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, reports_fresh
from proverfleet.domain.rules.benchmark import CONDEMNED, other_size, resize, slow

RULE = "active"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> list[Judged | Marked | Directed | End]:
    last = rental.last
    if last is None or last.waiting or not rental.completed or not reports_fresh(fleet, rental):
        return []
    newest = rental.completed[-1]
    if (newest.attempt, newest.p) != (last.attempt, last.p):
        return []  # what is on record was another size or attempt
    decided = rental.judged == "passed" and not rental.probation
    if decided and rate.unsuspected(rental, fleet.policy) is not None:
        return []
    seen = rate.active(rental, fleet.policy)
    if seen.verdict in CONDEMNED:
        other = other_size(rental, fleet.policy, seen)
        if other is not None:
            return resize(pending, rental, RULE, other, seen.why)
        return [slow(rental, RULE, seen)]
    if seen.verdict != "above" or not seen.full or decided:
        return []
    out: list[Judged | Marked | Directed | End] = [
        Judged(RULE, rental.intent, "passed", seen.rate, seen.proofs, seen.why)]
    if rental.probation:
        out.append(Marked(RULE, rental.intent, "probation", False, f"probation passed: {seen.why}"))
    return out
