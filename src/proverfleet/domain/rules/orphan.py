"""A contract with our exact mark and no rental is adopted at once, under the intent in its label; it is destroyed only
when it has shown no progress for 15 min.

Protects INV-2 (no leak) and INV-1 (I-033: an unlisted worker was deleted as an orphan while its job ran). When more
than max(1, 10 %) of the marked contracts are unknown, the database was lost or restored (I-015): creates and new
kills freeze and an alert says so, while the adoption, which harms nothing, goes on.
"""

from __future__ import annotations

from proverfleet.domain import evidence, pricing
from proverfleet.domain.events import Adopted, End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, end, minutes

RULE = "orphan"


def adopt(fleet: Fleet, pending: Pending) -> list[Adopted]:
    """Adopts every orphan that a trusted listing shows. The second contract of one intent is left to `duplicate`."""
    out: list[Adopted] = []
    if not fleet.list_ok:
        return out
    taken: dict[str, None] = {}
    for orphan in fleet.orphans.values():
        if orphan.intent in fleet.rentals or orphan.intent in taken:
            continue
        taken[orphan.intent] = None
        row = orphan.row
        number, text = pricing.min_rate(row.price_usd_per_hour or 0.0, fleet.policy)
        out.append(Adopted(RULE, orphan.intent, orphan.contract_id, row.machine_id, row.host_id, row.price_usd_per_hour,
                           number, text))
    return out


def too_many(fleet: Fleet) -> str:
    """Why so many unknown contracts are a sign of a lost database; empty when they are not."""
    unknown = len(fleet.orphans)
    if unknown == 0:
        return ""
    marked = unknown + len(fleet.extras) + sum(1 for c in fleet.by_contract if c in fleet.rows)
    if unknown <= max(1.0, fleet.policy.orphan_freeze_share * marked):
        return ""
    return f"{unknown} of {marked} contracts with our mark are unknown: the database was lost or restored"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    """Ends an adopted rental from which nothing at all has come since its adoption."""
    if not rental.adopted or rental.last is not None or rental.hello_refused:
        return None
    still_s = min(evidence.progress_age_s(fleet, rental), evidence.silence_age_s(fleet, rental))
    pending.ask(rental, probe=True, logs=True, read=True)
    if not pending.settled or not fleet.list_ok or not evidence.ripe(still_s, fleet.policy.orphan_after_s):
        return None
    if rental.row is not None and rental.row.actual_status != "running" and rental.status_moved:
        return None  # its image still comes: `loading` judges
    reason = f"adopted from its label, no progress and no word for {minutes(still_s)}"
    return end(rental, RULE, "not_needed", "no_rental", reason, "nobody", still_s=still_s,
               limit_s=fleet.policy.orphan_after_s)
