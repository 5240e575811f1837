"""A running cap is broken: shed until it holds, in the order of `drain`, but an idle rental before a benchmark that
progresses.

Protects INV-9 (caps hold). The hourly cap is judged on what is billed now, so that a pull, which bills storage only,
does not trigger it; the daily cap from 96 % on, since a drain and a destroy take time. A credit below its floor stops
creates only: what was set up is not thrown away for it.
"""

from __future__ import annotations

from proverfleet.domain.events import Directed, End, Marked
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending
from proverfleet.domain.rules.drain import idle, leave, order_of

RULE = "budget"
DAY_SHARE = 0.96


def check(fleet: Fleet, pending: Pending) -> list[End | Marked | Directed]:
    policy = fleet.policy
    staying = [r for r in pending.live if not r.draining and r.intent not in pending.ended and not r.stopped]
    out: list[End | Marked | Directed] = []
    if policy.cap_usd_per_day is not None and fleet.spent_today_usd >= DAY_SHARE * policy.cap_usd_per_day:
        why = f"${fleet.spent_today_usd:.2f} spent today, cap_usd_per_day ${policy.cap_usd_per_day:.2f}"
        for rental in staying:
            out += leave(fleet, pending, rental, RULE, "cap_usd_per_day", why)
        return out
    cap = policy.cap_usd_per_hour
    if cap is None or billed_usd_per_hour(pending) <= cap:
        return out
    left = sum(r.price_usd_per_hour for r in staying)
    why = f"${left:.3f}/h, cap_usd_per_hour ${cap:.3f}"
    for rental in sorted(staying, key=lambda r: (bool(r.order), *_order(fleet, r))):
        if left <= cap:
            break
        left -= rental.price_usd_per_hour
        out += leave(fleet, pending, rental, RULE, "cap_usd_per_hour", why)
    return out


def billed_usd_per_hour(pending: Pending) -> float:
    """$/h of the contracts that the market runs now."""
    return sum(r.price_usd_per_hour for r in pending.open if r.row is not None and r.row.actual_status == "running")


def _order(fleet: Fleet, rental: Rental) -> tuple[int, float, str]:
    rank, cost, intent = order_of(fleet, rental)
    if rental.stage == "benchmark" and not idle(fleet, rental):
        rank = 4  # after the idle ones
    return rank, cost, intent
