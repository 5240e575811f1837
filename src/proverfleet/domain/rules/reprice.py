"""`min_rate` follows the price: computed anew, with its provenance, when the market moves the price of a contract.

Protects the target cost (field case M1475, point 3: a threshold of 29.0 whose origin nobody could name). A move within
`price_margin` changes nothing; an explicit number never changes.
"""

from __future__ import annotations

from proverfleet.domain import pricing
from proverfleet.domain.events import Repriced
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending

RULE = "reprice"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> Repriced | None:
    row = rental.row
    if row is None or row.price_usd_per_hour is None or not fleet.list_ok:
        return None
    if row.price_usd_per_hour == rental.price_usd_per_hour or rental.stopped:
        return None
    anew = pricing.repriced(rental, row.price_usd_per_hour, fleet.policy)
    if anew is None:
        return None
    return Repriced(RULE, rental.intent, row.price_usd_per_hour, *anew)
