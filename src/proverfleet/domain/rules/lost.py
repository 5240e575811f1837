"""A contract is believed gone from the market only after three whole listings, by id, over five minutes, with a silent
agent; while its agent reports it is never ended for this, only marked suspect after an hour.

Protects INV-3 (absence of evidence): cases I-001, I-003, I-031, market.get_null. Where the agent's lease had run out,
the verdict is `lease` (see there).
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import Alerted, End, Marked
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import FRESH_BEATS, Pending, end, minutes, probe_fresh
from proverfleet.domain.rules import lease

RULE = "lost"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | Marked | Alerted | None:
    if rental.contract_id is None:
        return None
    if rental.absent_listings == 0:
        if rental.suspect:
            return Marked(RULE, rental.intent, "suspect", False, "its contract is listed again")
        return None
    age_s = evidence.absent_age_s(fleet, rental)
    pending.ask(rental, read=True)
    if age_s >= fleet.policy.lost_after_s / 2:
        pending.ask(rental, probe=True)
    if spoke_since_absent(fleet, rental):
        return _suspect(fleet, rental, age_s)
    if not pending.settled or not fleet.list_ok or not rental.absent_by_id:
        return None
    if rental.absent_listings < fleet.policy.lost_listings or age_s < fleet.policy.lost_after_s:
        return None
    if not probe_fresh(fleet, rental) or rental.probe_outcome == "answers":
        return None
    if lease.ran_out(fleet, rental):
        return lease.ended(fleet, rental, age_s)
    silent_s = evidence.report_age_s(fleet, rental)
    reason = (f"the market no longer has it: absent from {rental.absent_listings} whole listings and by id for "
              f"{minutes(age_s)}, no word from its agent for {minutes(silent_s)}")
    return end(rental, RULE, "lost", "absent", reason, "nobody", absent_s=age_s,
               absent_listings=rental.absent_listings, report_age_s=silent_s)


def spoke_since_absent(fleet: Fleet, rental: Rental) -> bool:
    """Has the agent (or its prover, by probe or consumer) been heard within the last three beats?"""
    return evidence.silence_age_s(fleet, rental) <= FRESH_BEATS * fleet.policy.beat_s


def _suspect(fleet: Fleet, rental: Rental, age_s: float) -> Marked | Alerted | None:
    if age_s < fleet.policy.suspect_after_s:
        return None
    text = f"its agent reports, but the market has not shown contract {rental.contract_id} for {minutes(age_s)}"
    if not rental.suspect:
        return Marked(RULE, rental.intent, "suspect", True, text)
    if f"suspect:{rental.intent}" not in fleet.alerts:
        return Alerted("suspect", rental.intent, text, rental.machine_id)
    return None
