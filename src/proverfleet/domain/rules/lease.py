"""An agent that cannot reach the controller for `lease_idle_s`, and finishes no work meanwhile, ends its own contract.

Protects the money of a fleet whose controller is dead (I-045). The controller learns of it when it is back and the
contract is proven gone: the verdict is `lease`, and nobody is to blame, least of all the machine.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import End
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.pending import end, minutes

RULE = "lease"
REMEMBERED_S = 7200.0


def ran_out(fleet: Fleet, rental: Rental) -> bool:
    """Was this agent, which had registered, out of reach for its lease; or was the controller away since its last
    word?"""
    if rental.last is None:
        return False
    return evidence.report_age_s(fleet, rental) >= fleet.policy.lease_idle_s or _away_since(fleet, rental)


def ended(fleet: Fleet, rental: Rental, absent_s: float) -> End:
    """The end of a contract that is known to be gone."""
    silent_s = evidence.report_age_s(fleet, rental)
    reason = (f"its agent could not reach us and ended its own contract: absent from {rental.absent_listings} whole "
              f"listings and by id for {minutes(absent_s)}")
    return end(rental, RULE, "lease", "lease_ran_out", reason, "nobody", absent_s=absent_s, report_age_s=silent_s,
               lease_idle_s=fleet.policy.lease_idle_s)


def _away_since(fleet: Fleet, rental: Rental) -> bool:
    gap = fleet.gap_heard_ns
    return gap is not None and rental.report_heard_ns <= gap and fleet.heard_ns - gap <= int(REMEMBERED_S * NS)
