"""What the market stopped because the account was empty is started again after the top-up, every three beats for 15
min.

Protects paid set-up (I-013: ten good hosts were dropped, and storage went on billing); afterwards `market_end` ends
what did not come back (its GPU may have been let to somebody else).
"""

from __future__ import annotations

from proverfleet.domain.events import Restart
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending
from proverfleet.domain.rules.market_end import RESTART_FOR_S, credit_back_s, credit_out

RULE = "restart"
EVERY_BEATS = 3


def check(fleet: Fleet, rental: Rental, pending: Pending) -> Restart | None:
    if not rental.stopped or rental.contract_id is None or credit_out(fleet) or fleet.credit_usd is None:
        return None
    back_s = credit_back_s(fleet)
    asked = rental.restart_asked_beat
    if back_s >= RESTART_FOR_S or (asked >= 0 and fleet.beat - asked < EVERY_BEATS):
        return None
    return Restart(RULE, rental.intent, rental.contract_id, f"credit is back: ${fleet.credit_usd:.2f}")
