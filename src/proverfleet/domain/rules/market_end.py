"""A rental ends when two whole listings say that the market stopped it, or that its host has been offline for 30 min.

Never while its agent reports: "offline" only means that Vast lost contact (I-021), one odd status means nothing
(I-018). An empty account is an event of the account, not of a machine (I-013): what it stopped is marked, started
again after the top-up, and nobody is blamed.
"""

from __future__ import annotations

from proverfleet.domain import evidence
from proverfleet.domain.events import End, Marked
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.pending import Pending, channel_silent, end, minutes, reports_fresh

RULE = "market_end"
LISTINGS = 2
RESTART_FOR_S = 900.0
EMPTY_USD = 0.01


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | Marked | None:
    if rental.row is None or rental.contract_id is None:
        return None
    if rental.market_stopped_listings == 0:
        if rental.stopped:
            return Marked(RULE, rental.intent, "stopped", False, "the market runs it again")
        return _offline(fleet, rental, pending)
    if rental.market_stopped_listings < LISTINGS or not fleet.list_ok or reports_fresh(fleet, rental):
        return None
    if rental.running_listed_ns is None and rental.stage == "loading" and rental.last is None and not _began(rental):
        return None  # never ran: `success:false` with a contract may start later; `loading` has its own limit
    if credit_out(fleet):
        if rental.stopped:
            return None
        text = "the account is out of credit: the market stopped it, nobody is to blame"
        return Marked(RULE, rental.intent, "stopped", True, text)
    if rental.stopped and credit_back_s(fleet) < RESTART_FOR_S:
        return None  # `restart` tries to start it again
    bid = rental.bid_usd_per_hour is not None
    verdict = "outbid" if bid else "expired"
    reason = f"{'outbid or displaced' if bid else 'stopped by the market'}: {rental.market_stopped_listings} whole " \
             f"listings say intended_status {rental.row.intended_status}, actual_status {rental.row.actual_status}"
    return end(rental, RULE, verdict, "market_stopped", reason, "market", listings=rental.market_stopped_listings)


def _offline(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    age_s = evidence.offline_age_s(fleet, rental)
    if age_s >= fleet.policy.host_offline_s / 2:
        pending.ask(rental, probe=True)
    if not pending.settled or not fleet.list_ok or not evidence.ripe(age_s, fleet.policy.host_offline_s):
        return None
    if not channel_silent(fleet, rental):
        return None
    reason = f"its host has been offline for {minutes(age_s)} and its agent is silent"
    return end(rental, RULE, "lost", "host_offline", reason, "nobody", offline_s=age_s,
               report_age_s=evidence.report_age_s(fleet, rental))


def _began(rental: Rental) -> bool:
    """Did the market ever say that it runs (or its image moved)?"""
    return rental.status_moved or rental.hello_refused


def credit_out(fleet: Fleet) -> bool:
    return fleet.credit_usd is not None and fleet.credit_usd <= EMPTY_USD


def credit_back_s(fleet: Fleet) -> float:
    """Observed s since the account was last seen empty; very long where it never was."""
    if fleet.credit_low_heard_ns is None:
        return float("inf")
    return (fleet.heard_ns - fleet.credit_low_heard_ns) / NS
