"""What holds a decision back: a listing that is not trusted, the kill budget, a common cause, money, the freeze, a lost
database (rules.md section 3, "Brakes").

A brake only ever delays or forbids; it never makes a decision of its own. Each says when it goes on and off, once.
"""

from __future__ import annotations

from collections.abc import Iterable

from proverfleet.domain import pricing, systemic
from proverfleet.domain.events import Alerted, Braked, Decision, End, Rent
from proverfleet.domain.fleet import NS, BrakeState, Fleet, Rental
from proverfleet.domain.ids import IntentId
from proverfleet.domain.pending import FRESH_BEATS, Pending
from proverfleet.domain.rules import orphan

MARKETS_WORD = ("loading", "never_started", "lost", "lease", "orphan", "market_end", "blacklist")
"""Rules that rest on a listing: held while it is not trusted."""
FREE_OF_BUDGET = ("operator", "duplicate", "resolve", "lease")
"""Orders, duplicates, creates that made nothing, and contracts that are already gone use no kill budget."""
ORPHANS_FOR_S = 900.0
DAY_ROOM_SHARE = 0.1


def hold(fleet: Fleet, pending: Pending, rental: Rental, end: End) -> End | str:
    """The end that may go now (perhaps as `systemic`), or the name of the brake that holds it."""
    if end.rule in ("operator", "resolve"):
        return end
    if fleet.frozen:
        return "freeze"
    if _on(fleet, "orphans") or orphan.too_many(fleet):
        return "orphans"
    if not fleet.list_ok:
        if end.rule in MARKETS_WORD:
            return "list_untrusted"
        if rental.by_id_ok_beat < 0 or fleet.beat - rental.by_id_ok_beat > FRESH_BEATS:
            pending.ask(rental, read=True)
            return "list_untrusted"
    verdict = systemic.held(fleet, pending, rental, end)
    if isinstance(verdict, str):
        return verdict
    if end.rule not in FREE_OF_BUDGET:
        if pending.kills >= max(1, int(fleet.policy.kill_budget_share * len(pending.live))):
            return "kill_budget"
        pending.kills += 1
    return verdict if verdict is not None else end


def no_creates(fleet: Fleet, pending: Pending) -> str:
    """Why nothing may be rented in this beat; empty where creates may go."""
    if fleet.frozen:
        return "freeze"
    if _on(fleet, "orphans") or orphan.too_many(fleet):
        return "orphans"
    if not fleet.list_ok:
        return "list_untrusted"
    return money(fleet)


def money(fleet: Fleet) -> str:
    """Which of the caps forbids to spend more; empty where none does."""
    if fleet.credit_usd is not None and fleet.credit_usd <= pricing.credit_floor_usd(fleet):
        return "credit"
    room = pricing.room_usd_per_hour(fleet)
    if room is not None and room <= 0:
        return "cap_usd_per_hour"
    cap, today = fleet.policy.cap_usd_per_day, pricing.room_today_usd(fleet)
    if cap is not None and today is not None and today <= DAY_ROOM_SHARE * cap:
        return "cap_usd_per_day"
    return ""


def room_for(fleet: Fleet, price_usd_per_hour: float, made: Iterable[Rent]) -> bool:
    """Do all caps hold with this one, and with what this beat has already rented?"""
    more = price_usd_per_hour + sum(r.offer.price_usd_per_hour for r in made)
    room, today = pricing.room_usd_per_hour(fleet), pricing.room_today_usd(fleet)
    if room is not None and more > room + 1e-9:
        return False
    if today is not None and more > today:
        return False
    floor = fleet.policy.credit_floor_usd
    needed = (pricing.spend_usd_per_hour(fleet) + more) if floor is None else floor + more
    return fleet.credit_usd is None or fleet.credit_usd > needed


# ---------------------------------------------------------------- on and off, once each


def signals(fleet: Fleet, pending: Pending) -> list[Decision]:
    """Brakes and alerts that changed in this beat."""
    out: list[Decision] = []
    _switch(out, fleet, "list_untrusted", "" if fleet.list_ok else f"listing is {fleet.list_trust or 'missing'}")
    _switch(out, fleet, "freeze", "an operator froze creates and new kills" if fleet.frozen else "")
    _switch(out, fleet, "money", money(fleet))
    _switch(out, fleet, "orphans", _orphans(fleet))
    waiting = pending.held.get("kill_budget", 0)
    _switch(out, fleet, "kill_budget", f"{waiting} ends wait: at most {pending.kills} a beat" if waiting else "")
    dark = not fleet.list_ok and _on(fleet, "list_untrusted")  # the second beat in a row
    _alert(out, fleet, "list_untrusted", f"the listing is {fleet.list_trust or 'missing'}" if dark else "")
    frozen_s = (fleet.heard_ns - fleet.frozen_heard_ns) / NS if fleet.frozen else 0.0
    old = frozen_s >= fleet.policy.freeze_alert_s
    _alert(out, fleet, "freeze", f"frozen for {frozen_s / 3600:.1f} h" if old else "")
    _alert(out, fleet, "orphans", _orphans(fleet))
    _alert(out, fleet, "money", money(fleet))
    common = sorted(systemic.covered(fleet, pending))
    _alert(out, fleet, "systemic", f"common cause: {'; '.join(common)}" if common else "")
    return out + _settled_alerts(fleet)


def _settled_alerts(fleet: Fleet) -> list[Decision]:
    """Alerts about one rental end with what they are about."""
    out: list[Decision] = []
    for key in fleet.alerts:
        name, _, about = key.partition(":")
        if name not in ("suspect", "destroy_pending"):
            continue
        rental = fleet.rentals.get(IntentId(about))
        if rental is None or rental.stage == "gone" or (name == "suspect" and not rental.suspect):
            out.append(Alerted(name, about, "over", None if rental is None else rental.machine_id, False))
    return out


def _orphans(fleet: Fleet) -> str:
    """Unknown contracts with our mark are too many, or were within the last 15 min."""
    now = orphan.too_many(fleet)
    state = _state(fleet, "orphans")
    if not now and state is not None and fleet.heard_ns - state.since_heard_ns < int(ORPHANS_FOR_S * NS):
        return state.reason
    return now


def _switch(out: list[Decision], fleet: Fleet, name: str, reason: str) -> None:
    if bool(reason) != _on(fleet, name):
        out.append(Braked(name, "", bool(reason), reason or "over"))


def _alert(out: list[Decision], fleet: Fleet, name: str, text: str) -> None:
    if bool(text) != (f"{name}:" in fleet.alerts):
        out.append(Alerted(name, "", text or "over", None, bool(text)))


def _state(fleet: Fleet, name: str) -> BrakeState | None:
    return fleet.brakes.get(f"{name}:")


def _on(fleet: Fleet, name: str) -> bool:
    return _state(fleet, name) is not None
