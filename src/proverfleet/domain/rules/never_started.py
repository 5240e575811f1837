"""A container that runs for 15 min without any sign of an agent never started.

A registration in any form, even a refused one, is a sign (I-033: a worker whose label did not match was deleted as an
orphan while its job ran), and so is a probe that finds an agent: then only its tunnel is missing.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, end, minutes, probe_fresh

RULE = "never_started"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    if rental.last is not None or rental.hello_refused or rental.contract_id is None or rental.adopted:
        return None  # what was adopted is `orphan`'s affair
    age_s = evidence.running_age_s(fleet, rental)
    limit_s = fleet.policy.never_started_s
    if age_s >= limit_s / 2:
        pending.ask(rental, probe=True, logs=True)
    if not pending.settled or not evidence.ripe(age_s, limit_s):
        return None
    if not probe_fresh(fleet, rental) or rental.probe_outcome != "no_agent":
        return None
    reason = f"runs for {minutes(age_s)} (limit {minutes(limit_s)}), no hello, and a probe finds no agent"
    return end(rental, RULE, "never_started", "no_agent", reason, "machine", running_s=age_s, limit_s=limit_s,
               probe=rental.probe_outcome)
