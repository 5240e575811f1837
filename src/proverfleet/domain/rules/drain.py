"""More rentals than the target: what is not yet productive goes first, then what is idle, then the dearest per proof.

Protects proofs in flight (I-040: shrinking by one killed a busy worker): a rental that proves takes no new task, and
ends when its agent says that nothing is left, or after 15 min. Deploy orders are never surplus.
"""

from __future__ import annotations

from proverfleet.domain import evidence, pricing
from proverfleet.domain.events import Directed, End, Marked
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.pending import FRESH_BEATS, Pending, end, minutes, was_directed
from proverfleet.domain.rules.capacity import count

RULE = "drain"
VERDICTS = {"target_lowered": "not_needed", "cap_usd_per_hour": "budget", "cap_usd_per_day": "budget"}
_EARLY = ("requested", "loading", "setup")


def check(fleet: Fleet, pending: Pending) -> list[End | Marked | Directed]:
    """Picks what is surplus. Rests on the market's word that the others are there: needs a trusted listing."""
    if not fleet.list_ok or not pending.settled:
        return []
    counts = count(fleet, pending)
    here = [r for r in counts.counting if r.absent_listings == 0 and r.contract_id is not None]
    own = [r for r in here if not r.order]
    # Deploy orders count towards the target, and are never surplus themselves.
    wanted = max(fleet.target, len(here) - len(own))
    surplus = len(here) - wanted
    # A pull that is overdue becomes surplus once its spare earns.
    late = [r for rentals in counts.overdue.values() for r in rentals
            if any(o.slot == r.slot and o.stage == "active" for o in here)]
    victims = [r for r in own if r.contract_id is not None]
    out: list[End | Marked | Directed] = []
    if surplus > 0:
        victims.sort(key=lambda r: order_of(fleet, r))
        for rental in victims[:surplus]:
            out += leave(fleet, pending, rental, RULE, "target_lowered", f"{len(here)} rentals, target {fleet.target}")
    elif surplus == 0:
        for rental in late:
            out += leave(fleet, pending, rental, RULE, "target_lowered", "its slot's spare earns by now")
    return out


def order_of(fleet: Fleet, rental: Rental) -> tuple[int, float, str]:
    """Who leaves first. Within one rank the dearest per proof, in `setup` who has fetched least; the intent settles
    ties."""
    rank = {"requested": 0, "loading": 0, "setup": 1, "benchmark": 2}.get(rental.stage, 4)
    if rank == 4 and idle(fleet, rental):
        rank = 3
    if rank == 1:
        return rank, float(rental.setup_high), rental.intent
    rate = rental.rate_proofs_per_hour or rental.min_rate
    return rank, -pricing.usd_per_proof(rental.price_usd_per_hour, rate), rental.intent


def idle(fleet: Fleet, rental: Rental) -> bool:
    """Earns nothing now: no unit of work for three beats."""
    return evidence.progress_age_s(fleet, rental) > FRESH_BEATS * fleet.policy.beat_s


def leave(fleet: Fleet, pending: Pending, rental: Rental, rule: str, cause: str,
          why: str) -> list[End | Marked | Directed]:
    """Ends what has no proof in flight; cordons and drains the rest (the directive's id keeps the cause)."""
    if rental.stage in _EARLY:
        return [end(rental, rule, VERDICTS[cause], cause, f"not yet productive: {why}", "nobody")]
    if was_directed(rental, "drain", cause) or not fleet.ids:
        return []
    id_ = f"drain.{cause}.{fleet.ids[0]}{rental.intent}"
    return [Marked(rule, rental.intent, "draining", True, why),
            Directed(rule, rental.intent, id_, "drain", {}, why)]


def finish(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    """Ends a drained rental: its agent stopped with nothing in flight, or 15 min have passed."""
    since = rental.drain_heard_ns
    if since is None:  # its agent drains by an order that we have no record of (a restored database)
        since = rental.stage_heard_ns.get("draining", fleet.heard_ns)
    age_s = (fleet.heard_ns - since) / NS
    stopped = rental.last is not None and rental.last.stage == "stopped"
    if not stopped and not evidence.ripe(age_s, fleet.policy.drain_s):
        return None
    cause = next((c for c in VERDICTS if was_directed(rental, "drain", c)), "target_lowered")
    reason = f"drained for {minutes(age_s)}: " + ("nothing is left in flight" if stopped else "no proof waits longer")
    rule = RULE if cause == "target_lowered" else "budget"
    return end(rental, rule, VERDICTS[cause], cause, reason, "nobody", drained_s=age_s, stopped=stopped)
