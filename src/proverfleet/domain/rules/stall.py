"""No unit of work for the stage's limit with work waiting ends a rental; before that its prover's processes are started
again in place, once an attempt.

Protects INV-1 (freezes that end are survived: I-059; SRS bytes are work: I-062) and INV-11 (a hung prover: I-045).
Only an agent that reports its counters standing still is stalled; where nothing is heard, `silent` judges. A second
channel is asked first. A prover that cannot reach its work (port 1234, field case) is repaired, not ended.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import Directed, End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import (
    FRESH_BEATS,
    Pending,
    directed,
    end,
    minutes,
    probe_fresh,
    reports_fresh,
    was_directed,
)
from proverfleet.domain.rules.crash import spent

RULE = "stall"
UNCONFIRMED_S = 300.0
"""A second channel that stays dumb delays an end by this much, not for ever (I-035)."""
ONLY_PROBED = 2.0
"""Times the limit, where nothing but the probe speaks: work may not reach a rental whose tunnel is down."""


def limit_s(fleet: Fleet, rental: Rental) -> float:
    """The limit of its stage, in s. An agent that works without being heard is judged as in `active`."""
    policy = fleet.policy
    if rental.stage == "benchmark":
        return policy.stall_benchmark_s
    if rental.stage == "setup":
        return max(policy.stall_params_s, policy.stall_benchmark_s)
    if rental.stage == "loading":
        return policy.silence_loading_s
    return policy.stall_active_s


def check(fleet: Fleet, rental: Rental, pending: Pending) -> Directed | End | None:
    still_s = evidence.stall_age_s(fleet, rental)
    if still_s < fleet.policy.restart_in_place_s - FRESH_BEATS * fleet.policy.beat_s or not pending.settled:
        return None
    last = rental.last
    if last is not None and last.stage in ("hello", "tunnel", "params") and reports_fresh(fleet, rental):
        return None  # `setup` judges
    pending.ask(rental, probe=True)
    heard = reports_fresh(fleet, rental)
    if heard and last is not None:
        if last.waiting == "retry" and not was_directed(rental, "retry", last.attempt):
            return None  # `crash` judges
        due = not last.waiting and still_s >= fleet.policy.restart_in_place_s
        if due and rental.restarted_in_place_attempt != last.attempt:
            text = f"no unit of work for {minutes(still_s)}: its prover is started again in place"
            again = directed(pending, rental, RULE, "restart_prover", {}, text)
            if again is not None:
                return again
    return _end(fleet, rental, still_s, heard)


def _end(fleet: Fleet, rental: Rental, still_s: float, heard: bool) -> End | None:
    limit = limit_s(fleet, rental)
    if not evidence.ripe(still_s, limit):
        return None
    answers = probe_fresh(fleet, rental) and rental.probe_outcome == "answers"
    if heard and not answers and not evidence.ripe(still_s, limit + UNCONFIRMED_S):
        return None
    if not heard and not (answers and evidence.ripe(still_s, limit * ONLY_PROBED)):
        return None
    last = rental.last
    if last is not None and last.waiting == "retry" and last.exit is not None:
        return spent(fleet, rental, last.exit)
    busy = rental.row is not None and (rental.row.gpu_util or 0.0) > 0
    reason = f"no unit of work for {minutes(still_s)} with work waiting (limit {minutes(limit)})"
    return end(rental, RULE, "stalled", "gpu_hang" if busy else "no_progress", reason, "machine", still_s=still_s,
               limit_s=limit, probe=rental.probe_outcome, work_high=rental.work_high,
               restarted_in_place=rental.restarted_in_place_attempt >= 0)
