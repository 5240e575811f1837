"""A pull that moves is never ended, however long it takes: only one that has stood still.

Protects INV-1 for slow hosts (I-009, I-028: fixed provisioning limits killed hosts that were coming up). Still means:
status text, layers and log unchanged for 10 min after they once moved, 45 min where nothing ever moved, or `exited` or
an error on three beats. The log is asked for before the limit. Once the market says `running`, `never_started` and
`silent` judge.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import End, RowFact
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, channel_silent, end, minutes

RULE = "loading"
THE_HOSTS = ("no space left", "oci runtime")
"""Errors of the host's own; a container that ends, or an image that cannot be had, is our program and our image."""


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    row = rental.row
    if rental.last is not None or row is None or rental.contract_id is None:
        return None
    age_s = evidence.loading_age_s(fleet, rental)
    if not pending.settled or not fleet.list_ok:
        return None
    if rental.bad_status_beats >= fleet.policy.loading_error_beats and (
            rental.market_stopped_listings == 0 or _says_why(row)):
        return _broken(fleet, rental, pending)
    if row.actual_status == "running" or rental.running_listed_ns is not None:
        return None
    limit_s = fleet.policy.stall_loading_s if rental.status_moved else fleet.policy.loading_never_moved_s
    if age_s >= limit_s / 2:
        pending.ask(rental, logs=True, read=True)
    if not evidence.ripe(age_s, limit_s) or rental.hello_refused:
        return None
    what = "after it once moved" if rental.status_moved else "and never moved"
    reason = f"image pull stood still for {minutes(age_s)} {what} (limit {minutes(limit_s)})"
    return end(rental, RULE, "never_started", "loading_stuck", reason, "machine", still_s=age_s, limit_s=limit_s,
               actual_status=row.actual_status)


def _says_why(row: RowFact) -> bool:
    """Does the status text name an error? A contract that is only stopped may still start (create_pending)."""
    text = (row.status_msg or "").lower()
    return "error" in text or "failed" in text or "no space left" in text


def _broken(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    """The container ended or cannot start, and no channel speaks up for it."""
    row = rental.row
    pending.ask(rental, logs=True, read=True)
    if row is None or not channel_silent(fleet, rental):
        return None
    text = (row.status_msg or "").lower()
    theirs = any(word in text for word in THE_HOSTS)
    cause = "disk_full" if "no space left" in text else "image_error"
    reason = f"the market says {row.actual_status} on {rental.bad_status_beats} beats ({cause}): it cannot start"
    return end(rental, RULE, "never_started", cause, reason, "machine" if theirs else "us",
               beats=rental.bad_status_beats, actual_status=row.actual_status)
