"""From a search of the market to what the journal keeps: counts per reason of exclusion and the ten best offers.

Best = lowest expected $/proof, where the expectation is the machine's own history, else a table by card and CPU class;
a machine with strikes is taken for correspondingly less likely to come up. The table only ranks, it excludes nobody:
specifications alone do not predict a rate (field case M1121, point 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proverfleet.domain import pricing, reputation
from proverfleet.domain.events import Offered, OfferFact
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.ids import MachineId
from proverfleet.domain.market_facts import Offer
from proverfleet.domain.sizing import BASE_GIB, PER_PARTITION_CPU_BOUND_GIB, USABLE_SHARE

BEST = 10
MIN_RAM_GIB = (BASE_GIB + PER_PARTITION_CPU_BOUND_GIB) / USABLE_SHARE  # p = 1: 100 GiB
MIN_VRAM_MB = 12_000  # cuzk-model.md section 3: 12 GB cards work on the small path, 8 GB fail


def choose(fleet: Fleet, offers: Sequence[Offer], wanted_machines: Iterable[MachineId] = ()) -> Offered:
    """Ranks a search result. ``wanted_machines``: those that open deploy orders wait for; their offers are kept
    whatever their rank. Ties go by machine_id, then offer_id: the same offers give the same answer in any
    order."""
    wanted = frozenset(wanted_machines)
    paid = frozenset(r.machine_id for r in fleet.rentals.values() if r.stage != "gone")
    excluded: dict[str, int] = {}
    ranked: list[tuple[float, int, int, OfferFact]] = []
    ordered: list[tuple[int, float, int, OfferFact]] = []
    for offer in offers:
        fact = _fact(fleet, offer)
        if offer.machine_id in wanted and offer.price_usd_per_hour > 0:
            ordered.append((offer.machine_id, offer.price_usd_per_hour, offer.offer_id, fact))
        reason = why_not(fleet, offer, paid)
        if reason:
            excluded[reason] = excluded.get(reason, 0) + 1
            continue
        cost = fact.expected_usd_per_proof * (1 + reputation.strike_weight(fleet, offer.machine_id))
        ranked.append((cost, offer.machine_id, offer.offer_id, fact))
    ranked.sort(key=lambda r: r[:3])
    ordered.sort(key=lambda r: r[:3])
    best: list[OfferFact] = []
    seen: set[int] = set()
    for _, machine, _, fact in ranked:
        if machine not in seen and len(best) < BEST:  # one chunk a machine: the cheapest
            seen.add(machine)
            best.append(fact)
    return Offered(False, len(offers), dict(sorted(excluded.items())), tuple(best), tuple(r[3] for r in ordered))


def why_not(fleet: Fleet, offer: Offer, paid_machines: frozenset[MachineId | None]) -> str:
    """Why this offer is left out; "" when it is not. The words are keys of ``Offered.excluded``."""
    if reputation.is_listed(fleet, offer.machine_id):
        return "blacklisted"
    if offer.machine_id in paid_machines:
        return "already_rented"
    if offer.price_usd_per_hour <= 0:
        return "no_price"
    if offer.cpu_ram_mb / 1024 < MIN_RAM_GIB:
        return "ram_too_small"
    if offer.disk_gb < fleet.policy.disk_gb:
        return "disk_too_small"
    if offer.gpu_ram_mb < MIN_VRAM_MB:
        return "vram_too_small"
    if reputation.host_avoided(fleet, offer.host_id):
        return "host_avoided"
    return _too_slow(fleet, offer)


def _too_slow(fleet: Fleet, offer: Offer) -> str:
    """Was the machine itself measured below what this price asks for, beyond the spread of its measures?"""
    known = reputation.history(fleet, offer.machine_id, offer.gpu_name, offer.num_gpus, fleet.image)
    if known is None:
        return ""
    needed, _ = pricing.min_rate(offer.price_usd_per_hour, fleet.policy)
    return "measured_too_slow" if known.rate_proofs_per_hour * (1 + known.spread) < needed else ""


def _fact(fleet: Fleet, offer: Offer) -> OfferFact:
    rate, _ = reputation.expected_rate(fleet, offer)
    return OfferFact(
        offer.offer_id, offer.machine_id, offer.host_id, offer.gpu_name, offer.num_gpus, offer.gpu_ram_mb,
        offer.gpu_frac, offer.cpu_name, offer.cpu_ram_mb, offer.disk_gb, offer.inet_down_mbps,
        offer.price_usd_per_hour, offer.min_bid_usd_per_hour, round(rate, 3),
        round(pricing.usd_per_proof(offer.price_usd_per_hour, rate), 6), offer.cpu_cores_effective,
    )
