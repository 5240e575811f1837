"""Fewer rentals than the target: rent the offer with the lowest expected $/proof.

Protects INV-13 (no over-renting) and INV-9 (failure backs off): at most `creates_per_beat`, each offer once a search, a
slot that failed waits, a create in doubt blocks its slot, and what is being destroyed is replaced only when its destroy
was acknowledged, or has been failing for ten minutes. A pull that is overdue gets one spare and is not ended for it.
Deploy orders are rented whatever their rank, once each (never on a listed machine, never past a cap).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from proverfleet.domain import brakes, pricing, reputation, systemic
from proverfleet.domain.events import OfferFact, Rent
from proverfleet.domain.fleet import NS, Fleet, Order, Rental
from proverfleet.domain.ids import IntentId
from proverfleet.domain.pending import Pending

RULE = "capacity"
REFUSING_S = 600.0
BARREN_BEATS = 5
SAME_MACHINE_S = 3600.0
"""A machine on which a rental failed is not tried again for an hour, listed or not."""


@dataclass(slots=True)
class Count:
    """``counting``: rentals that fill the target (slots in ``slots``); ``leaving``: ends whose contract may still be
    paid; ``overdue``: pulls for which a spare may be rented, by slot."""

    counting: list[Rental] = field(default_factory=list)
    overdue: dict[int, list[Rental]] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    leaving: int = 0

    @property
    def filled(self) -> int:
        """What stands against the target: two overdue pulls in one slot are a pull and its spare, and fill it."""
        twice = sum(1 for s, rentals in self.overdue.items() if len(rentals) > 1 and s not in self.slots)
        return len(self.counting) + self.leaving + twice


def count(fleet: Fleet, pending: Pending) -> Count:
    out = Count()
    for rental in pending.open:
        if rental.stage == "destroying" or rental.intent in pending.ended:
            paid = _still_paid(fleet, rental)
            out.leaving += paid
            if paid and rental.in_doubt:
                out.slots[rental.slot] = out.slots.get(rental.slot, 0) + 1
        elif rental.suspect or rental.draining or rental.stage == "draining":
            continue
        elif is_overdue(fleet, rental):
            out.overdue.setdefault(rental.slot, []).append(rental)
        else:
            out.counting.append(rental)
            out.slots[rental.slot] = out.slots.get(rental.slot, 0) + 1
    out.leaving += sum(1 for e in fleet.extras.values() if not e.destroy.acknowledged) + len(pending.extra)
    out.leaving += sum(1 for c in fleet.orphans if c not in pending.extra)
    return out


def _still_paid(fleet: Fleet, rental: Rental) -> bool:
    """May its replacement not come yet? Until the destroy was acknowledged, or has been failing for ten minutes."""
    if rental.contract_id is None:
        return rental.in_doubt or (rental.create_sent and not rental.refused)
    if rental.destroy.acknowledged:
        return False
    began = rental.stage_heard_ns.get("destroying")
    failing_s = 0.0 if began is None else (fleet.heard_ns - began) / NS
    return rental.destroy.attempts == 0 or failing_s < REFUSING_S


def is_overdue(fleet: Fleet, rental: Rental) -> bool:
    """Has its image been coming for 25 min? Only storage is billed, so it may go on beside a spare; no longer once the
    market says that it runs (perhaps it only cannot reach us)."""
    if rental.stage != "loading" or rental.order or rental.running_listed_ns is not None:
        return False
    return rental.observed_ns.get("loading", 0) >= int(fleet.policy.loading_spare_after_s * NS)


def check(fleet: Fleet, pending: Pending) -> list[Rent]:
    """What this beat rents; asks for a search where offers are missing."""
    out: list[Rent] = []
    orders = [o for o in fleet.orders.values() if o.intent is None]
    for order in orders:
        pending.machines[order.machine_id] = None
    counts = count(fleet, pending)
    need = fleet.target - counts.filled
    free = list(_free_slots(fleet, counts))
    if brakes.no_creates(fleet, pending):
        return out
    pending.search = bool(orders) or (need > 0 and bool(free) and _worth_a_search(fleet, pending))
    for order in orders:
        rent = _for_order(fleet, pending, order, free, out)
        if rent is not None:
            need -= 1
            free = [s for s in free if s != rent.slot]
            out.append(rent)
    if fleet.beat - fleet.offers_beat > 1:
        return out
    for slot in free[: max(0, need)]:
        rent = _for_slot(fleet, pending, slot, out)
        if rent is None:
            break
        out.append(rent)
    return out


def _free_slots(fleet: Fleet, counts: Count) -> Iterator[int]:
    """Slots of the target that nothing fills, that hold no more than one overdue pull, and whose back-off is over."""
    for slot in range(fleet.target):
        if counts.slots.get(slot) or len(counts.overdue.get(slot, ())) > 1:
            continue
        if fleet.slot_wait_until_heard_ns.get(slot, 0) <= fleet.heard_ns:
            yield slot


def _for_order(fleet: Fleet, pending: Pending, order: Order, free: list[int], made: list[Rent]) -> Rent | None:
    if len(made) >= fleet.policy.creates_per_beat:
        return None
    for offer in fleet.ordered_offers:
        if offer.machine_id != order.machine_id or offer.offer_id in fleet.offers_tried:
            continue
        if any(r.offer.offer_id == offer.offer_id for r in made) or not _allowed(fleet, pending, offer, made):
            continue
        number, text = pricing.min_rate(offer.price_usd_per_hour, fleet.policy, order.min_rate)
        return _rent(fleet, pending, offer, free[0] if free else -1, order, number, text)
    return None


def _for_slot(fleet: Fleet, pending: Pending, slot: int, made: list[Rent]) -> Rent | None:
    if len(made) >= fleet.policy.creates_per_beat:
        return None
    for offer in fleet.offers:
        if offer.offer_id in fleet.offers_tried or not _eligible(fleet, pending, offer, made):
            continue
        number, text = pricing.min_rate(offer.price_usd_per_hour, fleet.policy)
        return _rent(fleet, pending, offer, slot, None, number, text)
    return None


def _eligible(fleet: Fleet, pending: Pending, offer: OfferFact, made: list[Rent]) -> bool:
    """May it be rented for the target, as far as is known now?"""
    if any(r.offer.machine_id == offer.machine_id for r in made) or _failed_lately(fleet, offer):
        return False
    if reputation.host_avoided(fleet, offer.host_id) or not _allowed(fleet, pending, offer, made):
        return False
    return systemic.allows(fleet, pending, offer, made)


def _worth_a_search(fleet: Fleet, pending: Pending) -> bool:
    """The last search showed something to rent, or is five beats old: a barren market is not asked every beat."""
    if fleet.offers_beat < 0 or fleet.beat - fleet.offers_beat >= BARREN_BEATS:
        return True
    return any(_eligible(fleet, pending, offer, []) for offer in fleet.offers)


def _allowed(fleet: Fleet, pending: Pending, offer: OfferFact, made: list[Rent]) -> bool:
    """Not a listed machine, and no cap would break."""
    listed = reputation.is_listed(fleet, offer.machine_id)
    return not listed and brakes.room_for(fleet, offer.price_usd_per_hour, made)


def _failed_lately(fleet: Fleet, offer: OfferFact) -> bool:
    return any(f.machine_id == offer.machine_id and fleet.heard_ns - f.heard_ns < int(SAME_MACHINE_S * NS)
               for f in fleet.failures)


def _rent(fleet: Fleet, pending: Pending, offer: OfferFact, slot: int, order: Order | None, number: float,
          text: str) -> Rent | None:
    intent = pending.fresh_id()
    if intent is None:
        return None
    disk_gb = order.disk_gb if order is not None and order.disk_gb is not None else fleet.policy.disk_gb
    bid = order.bid_usd_per_hour if order is not None else None
    name = order.order if order is not None else ""
    return Rent(RULE, IntentId(intent), slot, name, offer, disk_gb, bid, number, text)
