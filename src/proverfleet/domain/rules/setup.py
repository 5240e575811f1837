"""The fetch of the parameters ends a rental when it stands still while the source answers, when it would cost more than
its cap, or when one file failed its checksum three times.

Protects INV-1 (a slow fetch that advances is kept: I-009, I-018 B) and INV-7 (a source that is down blames nobody:
I-057; a file whose digests agree blames the source: I-058). The source answers when another rental is fetching or when
the controller's own probe of it succeeds; the time in which it did not does not count.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import End
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.pending import FRESH_BEATS, Pending, end, minutes, probe_fresh, reports_fresh

RULE = "setup"
EARLY_BEATS = 2


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    last = rental.last
    if last is None:
        return None
    if last.file_failures >= fleet.policy.file_failures_max:
        return _corrupt(rental)
    if last.stage not in ("hello", "tunnel", "params"):
        return None
    return _stalled(fleet, rental, pending) or _too_dear(fleet, rental, pending)


def _corrupt(rental: Rental) -> End:
    last = rental.last
    assert last is not None
    differ = "differ between tries: the host" if last.digests_differ else "agree between tries: the source"
    reason = f"a parameter file failed its checksum {last.file_failures} times, digests {differ} is to blame"
    return end(rental, RULE, "crashed", "corrupt_params", reason, "machine" if last.digests_differ else "source",
               file_failures=last.file_failures, digests_differ=last.digests_differ)


def _stalled(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    policy = fleet.policy
    still_s = evidence.progress_age_s(fleet, rental)
    if still_s >= EARLY_BEATS * policy.beat_s:
        # The probe from early on: a file that is fetched again after a failed checksum moves on the disk only.
        pending.ask(rental, probe=True)
        pending.source = True
    if fleet.source_bad_heard_ns is not None:
        still_s = min(still_s, (fleet.heard_ns - fleet.source_bad_heard_ns) / NS)
    if not pending.settled or not evidence.ripe(still_s, policy.stall_params_s):
        return None
    if not reports_fresh(fleet, rental) or not probe_fresh(fleet, rental):
        return None
    if not source_answers(fleet, rental, pending):
        return None
    reason = f"no byte received or hashed for {minutes(still_s)} (limit {minutes(policy.stall_params_s)}) " \
             "while the source answers"
    return end(rental, RULE, "stalled", "no_progress", reason, "nobody", still_s=still_s,
               limit_s=policy.stall_params_s, bytes=rental.setup_high, probe=rental.probe_outcome)


def source_answers(fleet: Fleet, rental: Rental, pending: Pending) -> bool:
    """Others fetch now, or the controller's own probe of the source succeeded within the last three beats."""
    recent_s = FRESH_BEATS * fleet.policy.beat_s
    if fleet.source_ok and fleet.beat - fleet.source_beat <= FRESH_BEATS:
        return True
    if fleet.source_ok is False and fleet.beat - fleet.source_beat <= FRESH_BEATS:
        return False
    return any(r.stage == "setup" and r is not rental and r.last is not None and r.last.stage == "params"
               and evidence.progress_age_s(fleet, r) <= recent_s for r in pending.live)


def _too_dear(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    policy = fleet.policy
    over_s = evidence.over_cap_age_s(fleet, rental)
    if over_s < policy.setup_forecast_for_s or evidence.stage_age_s(fleet, rental) < policy.setup_forecast_after_s:
        return None
    forecast = evidence.setup_forecast_usd(fleet, rental)
    if not pending.settled or forecast is None or forecast <= policy.setup_cap_usd:
        return None
    reason = f"set-up would cost ${forecast:.2f}, above its cap of ${policy.setup_cap_usd:.2f} for {minutes(over_s)}"
    return end(rental, RULE, "budget", "setup_cost", reason, "nobody", forecast_usd=forecast,
               cap_usd=policy.setup_cap_usd, over_s=over_s, bytes=rental.setup_high)
