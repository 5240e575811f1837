"""An operator's kill order is carried out at once: no brake, no freeze and no budget stands before it.

Protects: the operator's last word (and INV-5: a second order changes nothing, the first reason stays).
"""

from __future__ import annotations

from proverfleet.domain.events import End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, end

RULE = "operator"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    reason = fleet.kills_ordered.get(rental.intent)
    if reason is None:
        return None
    text = f"ordered by the operator{': ' + reason if reason else ''}"
    return end(rental, RULE, "operator", "order", text, "nobody")
