"""How long ago something was seen, in observed time: the ages that rules compare with their limits.

The fold stamps evidence with the observed time of the *next* beat (nothing is decided before it), so an age is never
longer than the truth. All ages are seconds and never negative. ``*_heard_ns`` stamps rest on time in which the
controller could have heard, ``*_listed_ns`` on time in which it also had a whole, trusted listing (rules.md section 2).
"""

from __future__ import annotations

from proverfleet.domain.fleet import NS, Fleet, Rental

# A report, a beat and the network: work that resumed this recently cannot be known yet (rules.md INV-1).
KNOWING_S = 150.0
_FORECAST_OVER_S = 600.0


def ripe(age_s: float, limit_s: float) -> bool:
    """May an age decide? It must have passed the limit by the time that news may take (150 s)."""
    return age_s >= limit_s + KNOWING_S


def settled(fleet: Fleet) -> bool:
    """May ages decide? After a gap not before each live agent's backlog is 0, at most ``backlog_wait_s`` observed."""
    if fleet.gap_heard_ns is None:
        return True
    if fleet.heard_ns - fleet.gap_heard_ns >= int(fleet.policy.backlog_wait_s * NS):
        return True
    return all(r.caught_up for r in fleet.rentals.values() if r.live and r.last is not None)


def progress_age_s(fleet: Fleet, rental: Rental) -> float:
    """Observed s since the last unit of work of its stage (or since the stage began)."""
    return max(0, fleet.heard_ns - rental.progress_heard_ns) / NS


def stall_age_s(fleet: Fleet, rental: Rental) -> float:
    """As :func:`progress_age_s`, less the time without work, which only ``active`` and ``draining`` can have: the
    agent's own count of starved seconds (a prover that stands still over proofs in hand is not starved); where the
    agent is not heard, the beats in which the consumer had none, if those are more."""
    age = progress_age_s(fleet, rental)
    if rental.stage not in ("active", "draining"):
        return age
    last = rental.last
    starved = last.starved_s - rental.progress_starved_s if last is not None else 0.0
    if last is None or last.backlog or report_age_s(fleet, rental) > 3 * fleet.policy.beat_s:
        starved = max(starved, rental.unfed_ns / NS)
    return max(0.0, age - starved)


def silence_age_s(fleet: Fleet, rental: Rental) -> float:
    """Observed s since any channel moved: a report, the market's columns or log, a probe, the consumer."""
    return max(0, fleet.heard_ns - rental.evidence_heard_ns) / NS


def report_age_s(fleet: Fleet, rental: Rental) -> float:
    """Observed s since the agent's last report; since the request where none ever came."""
    start = rental.report_heard_ns if rental.last is not None else rental.stage_heard_ns.get("requested", 0)
    return max(0, fleet.heard_ns - start) / NS


def stage_age_s(fleet: Fleet, rental: Rental) -> float:
    """Observed s in the present stage (only beats that it had wholly in it)."""
    return rental.observed_ns.get(rental.stage, 0) / NS


def loading_age_s(fleet: Fleet, rental: Rental) -> float:
    """Listed s since status text, layers or the log last moved; since ``loading`` began where they never did
    (``rental.status_moved`` tells which)."""
    start = rental.status_moved_listed_ns if rental.status_moved else rental.stage_listed_ns.get("loading", 0)
    return max(0, fleet.listed_ns - start) / NS


def absent_age_s(fleet: Fleet, rental: Rental) -> float:
    """Listed s since the first of the trusted listings in a row that lacked its contract; 0 when it is there."""
    if rental.absent_listings == 0:
        return 0.0
    return max(0, fleet.listed_ns - rental.absent_since_listed_ns) / NS


def running_age_s(fleet: Fleet, rental: Rental) -> float:
    """Listed s since the market said ``running`` without a break; 0 when it does not say so."""
    if rental.running_listed_ns is None:
        return 0.0
    return max(0, fleet.listed_ns - rental.running_listed_ns) / NS


def offline_age_s(fleet: Fleet, rental: Rental) -> float:
    """Listed s since the market said ``offline`` without a break; 0 when it does not say so."""
    if rental.offline_listed_ns is None:
        return 0.0
    return max(0, fleet.listed_ns - rental.offline_listed_ns) / NS


def orphan_age_s(fleet: Fleet, since_listed_ns: int) -> float:
    """Listed s since an orphan was first seen."""
    return max(0, fleet.listed_ns - since_listed_ns) / NS


def over_cap_age_s(fleet: Fleet, rental: Rental) -> float:
    """Observed s for which the set-up forecast has been above ``setup_cap_usd`` without a break; 0 when it is not."""
    if rental.setup_over_cap_heard_ns is None:
        return 0.0
    return max(0, fleet.heard_ns - rental.setup_over_cap_heard_ns) / NS


def setup_forecast_usd(fleet: Fleet, rental: Rental) -> float | None:
    """What the whole set-up will have cost: so far, plus the bytes that are missing at the pace of the last 10 min.

    None: not in ``setup``, the total is unknown, or fewer than 5 observed minutes of samples. A pace of 0 is the stall
    rule's affair and gives None too.
    """
    last = rental.last
    if rental.stage != "setup" or last is None or last.bytes_total <= 0 or len(rental.setup_samples) < 2:
        return None
    newest_ns, newest = rental.setup_samples[-1]
    oldest_ns, oldest = next(
        (s for s in rental.setup_samples if newest_ns - s[0] <= int(_FORECAST_OVER_S * NS)), rental.setup_samples[0]
    )
    over_s = (newest_ns - oldest_ns) / NS
    if over_s < _FORECAST_OVER_S / 2 or newest <= oldest:
        return None
    left_s = max(0, last.bytes_total - newest) / ((newest - oldest) / over_s)
    return rental.cost_usd + left_s / 3600.0 * rental.price_usd_per_hour
