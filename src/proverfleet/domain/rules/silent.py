"""A rental ends for silence only when *every* channel is dark: no report, nothing new in the market's columns or log,
nothing from the consumer, and a fresh probe that nobody answers.

Protects INV-1 where only the tunnel or the heartbeat is broken (I-026: 14 of 91 healthy workers killed for a stalled
heartbeat thread; I-066, I-067) and where the controller itself was cut off: silence counts observed time only.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import FRESH_BEATS, Pending, end, minutes, probe_fresh

RULE = "silent"


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    policy = fleet.policy
    silence_s = evidence.silence_age_s(fleet, rental)
    limit_s = policy.silence_loading_s if rental.stage in ("requested", "loading") else policy.silence_s
    if rental.contract_id is None or silence_s < FRESH_BEATS * policy.beat_s:
        return None
    pending.ask(rental, probe=True, logs=True, read=True)
    if not pending.settled or not evidence.ripe(silence_s, limit_s):
        return None
    if not probe_fresh(fleet, rental) or rental.probe_outcome == "answers":
        return None
    reason = f"no evidence on any channel for {minutes(silence_s)} (limit {minutes(limit_s)}), " \
             f"a probe says {rental.probe_outcome.replace('_', ' ')}"
    return end(rental, RULE, "silent", "agent_silent", reason, "nobody", silence_s=silence_s, limit_s=limit_s,
               report_age_s=evidence.report_age_s(fleet, rental), probe=rental.probe_outcome)
