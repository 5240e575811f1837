"""The old manager where the controller takes its brain, with the operator's hands that it needed.

Its deploys were clicks: what an order or the target asks for is created once, from the cheapest offers that its default
filter lets through, without a slot, a back-off or a brake. Its table of measured rates keeps the highest for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from proverfleet.domain.events import (
    Asks,
    Decision,
    End,
    Gone,
    Judged,
    Offered,
    OfferFact,
    Plan,
    Rent,
    Resolved,
    RowFact,
)
from proverfleet.domain.fleet import NS, DestroyState, Fleet, Rental
from proverfleet.domain.ids import ContractId, FleetId, IntentId, MachineId, mark
from proverfleet.domain.market_facts import Offer
from sim.legacy import rules
from sim.legacy.rules import RULE, Limits

DISK_GB = 250.0
PRICE_MAX_USD_PER_HOUR = 0.9
GPU_RAM_OVER_MB = 12_500
CPU_RAM_MIN_MB = 240_000
CPU_CORES_OVER = 25.0
INET_DOWN_OVER_MBPS = 100.0
BEST = 10
NOT_LISTED_YET_S = 180.0
ABSENT_LISTINGS = 3


class LegacyBrain:
    """``limits``: the ages of its rules; ``Limits(benchmark_s=1200)`` is the manager of the field case M1121."""

    persistent_destroy = False

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    def decide(self, fleet: Fleet) -> Plan:
        """One pass of the monitor, then what the operator would click."""
        decisions: list[Decision] = []
        seen = rules.visible(fleet)
        killed: dict[IntentId, None] = {}
        for rental in fleet.rentals.values():
            if rental.stage == "gone":
                continue
            for decision in self._pass(fleet, rental, seen):
                decisions.append(decision)
                if isinstance(decision, End):
                    killed[rental.intent] = None
        if seen is not None:
            for orphan in fleet.orphans.values():
                extra = rules.unregistered(fleet, orphan, self.limits)
                if extra is not None and orphan.contract_id not in fleet.extras:
                    decisions.append(extra)
            for contract in fleet.extras.values():
                if contract.destroy.attempts > 0 and not contract.destroy.in_flight:
                    decisions.append(Gone(RULE, contract.contract_id, None, "destroyed once, not verified"))
        rents, missing = self._clicks(fleet, killed)
        machines = tuple(dict.fromkeys(o.machine_id for o in fleet.orders.values() if o.intent is None))
        asks = Asks(search=bool(missing or machines), search_machines=machines, account=False)
        return Plan((*decisions, *rents), asks)

    def destroy_again(self, fleet: Fleet, state: DestroyState) -> bool:
        """Never: the exit code of the first call was believed, and it was 0 even for an error."""
        return False

    # ------------------------------------------------------------ the monitor

    def _pass(self, fleet: Fleet, rental: Rental, seen: Mapping[ContractId, RowFact] | None) -> Iterator[Decision]:
        """What happens to one rental; rows in the manager's order, the first kill counts."""
        if rental.contract_id is None and rental.live:
            yield from _create_outcome(fleet, rental, seen)
            return
        by_hand = fleet.kills_ordered.get(rental.intent)
        if by_hand is not None and rental.live:
            text = f"ordered by the operator{': ' + by_hand if by_hand else ''}"
            yield End(RULE, rental.intent, "operator", "order", text, "nobody", {"stage": rental.stage})
            return
        slow = rules.slow_benchmark(rental)  # its message is handled as it comes, listing or not
        if seen is None:
            if slow is not None:
                yield slow
            return
        gone = rules.closed(rental, seen)
        if gone is not None:
            yield gone
        if not rental.live:
            return
        end = (
            rules.bad_machine(fleet, rental) or rules.setup_age(fleet, rental, self.limits)
            or rules.benchmark_age(fleet, rental, self.limits) or slow
        )
        if end is not None:
            yield end
            if rental.contract_id not in seen:  # it destroyed only what it found in the listing
                assert rental.contract_id is not None
                yield Gone(RULE, rental.contract_id, rental.intent, "killed: not in the listing")
            return
        over = rules.disappeared(rental, seen)
        if over is not None:
            yield from over
            return
        rate = rental.last.bench_rate_proofs_per_hour if rental.last is not None else None
        if rate is not None and not rental.judged:
            proofs = rental.last.bench[0] if rental.last is not None and rental.last.bench is not None else 0
            yield Judged(RULE, rental.intent, "passed", rate, proofs, f"bench_rate {rate:.1f}, passed")

    # ------------------------------------------------------------ the operator's clicks

    def _clicks(self, fleet: Fleet, killed: Mapping[IntentId, None]) -> tuple[list[Rent], int]:
        """(what is rented now, how many the target lacks). Limited by nothing but the ids of the beat."""
        ids = iter(fleet.ids)
        out: list[Rent] = []
        for order in fleet.orders.values():
            if order.intent is not None or order.machine_id in fleet.blacklist:
                continue
            offers = (o for o in fleet.ordered_offers if o.machine_id == order.machine_id and _fresh(fleet, o, out))
            offer = next(offers, None)
            intent = next(ids, None) if offer is not None else None
            if offer is None or intent is None:
                continue
            number, text = rules.min_rate(order.min_rate)
            disk_gb = order.disk_gb if order.disk_gb is not None else DISK_GB
            bid = order.bid_usd_per_hour
            out.append(Rent(RULE, IntentId(intent), -1, order.order, offer, disk_gb, bid, number, text))
        missing = fleet.target - len(out) - sum(1 for r in fleet.rentals.values()
                                                if r.live and r.intent not in killed and _shown(fleet, r))
        missing -= len(fleet.orphans)
        for offer in fleet.offers:
            if missing <= 0:
                break
            intent = next(ids, None) if _fresh(fleet, offer, out) and offer.machine_id not in fleet.blacklist else None
            if intent is None:
                continue
            number, text = rules.min_rate(fleet.policy.min_rate_proofs_per_hour)
            out.append(Rent(RULE, IntentId(intent), -1, "", offer, DISK_GB, None, number, text))
            missing -= 1
        return out, max(0, missing)

    def choose(self, fleet: Fleet, offers: Sequence[Offer], ordered: Sequence[MachineId]) -> Offered:
        """Its default filter, then $/h: over the highest rate ever measured there, where there is one."""
        excluded: dict[str, int] = {}
        best: list[OfferFact] = []
        wanted = dict.fromkeys(ordered)
        for offer in offers:
            why = _filtered(fleet, offer)
            if why:
                excluded[why] = excluded.get(why, 0) + 1
            else:
                best.append(_fact(fleet, offer))
        best.sort(key=lambda f: (f.expected_usd_per_proof, f.price_usd_per_hour, f.offer_id))
        for_orders = tuple(_fact(fleet, o) for o in offers if o.machine_id in wanted)
        return Offered(False, len(offers), excluded, tuple(best[:BEST]), for_orders)


# ---------------------------------------------------------------- creates, as its page showed them


def _create_outcome(fleet: Fleet, rental: Rental, seen: Mapping[ContractId, RowFact] | None) -> Iterator[Decision]:
    """A create without a known contract: found in the listing, refused, or simply not on the page."""
    label = mark(FleetId(fleet.fleet_id), rental.intent)
    for contract_id, row in (seen or {}).items():
        if row.label == label:
            yield Resolved(RULE, rental.intent, contract_id, "the listing shows it")
            return
    if rental.refused:
        reason = f"the create call failed: {rental.refused}"
        yield End(RULE, rental.intent, "never_started", "create_refused", reason, "nobody", {"stage": rental.stage})
        yield Gone(RULE, None, rental.intent, reason)


def _shown(fleet: Fleet, rental: Rental) -> bool:
    """Does the operator see it on the page, or has just clicked for it?"""
    if rental.contract_id is not None and rental.absent_listings < ABSENT_LISTINGS:
        return True
    since = rental.stage_wall_ns.get("requested")
    return since is not None and (fleet.wall_ns - since) / NS <= NOT_LISTED_YET_S


def _fresh(fleet: Fleet, offer: OfferFact, made: Sequence[Rent]) -> bool:
    return offer.offer_id not in fleet.offers_tried and all(r.offer.offer_id != offer.offer_id for r in made)


# ---------------------------------------------------------------- offers and the table of measured rates


def known_rate(fleet: Fleet, machine_id: MachineId) -> float | None:
    """The highest rate that this machine ever showed, in any configuration, however long ago."""
    return max((m.rate_proofs_per_hour for m in fleet.measured.get(machine_id, ())), default=None)


def _filtered(fleet: Fleet, offer: Offer) -> str:
    """Why the default filter, or its list of bad hosts, hides this offer; empty: shown."""
    if offer.machine_id in fleet.blacklist:
        return "bad_host"
    if offer.disk_gb < DISK_GB:
        return "disk"
    if offer.price_usd_per_hour > PRICE_MAX_USD_PER_HOUR:
        return "price"
    if offer.gpu_ram_mb <= GPU_RAM_OVER_MB or offer.cpu_ram_mb < CPU_RAM_MIN_MB:
        return "memory"
    if offer.cpu_cores_effective <= CPU_CORES_OVER:
        return "cores"
    return "network" if offer.inet_down_mbps <= INET_DOWN_OVER_MBPS else ""


def _fact(fleet: Fleet, offer: Offer) -> OfferFact:
    rate = known_rate(fleet, offer.machine_id) or rules.MIN_RATE_PROOFS_PER_HOUR
    return OfferFact(
        offer.offer_id, offer.machine_id, offer.host_id, offer.gpu_name, offer.num_gpus, offer.gpu_ram_mb,
        offer.gpu_frac, offer.cpu_name, offer.cpu_ram_mb, offer.disk_gb, offer.inet_down_mbps,
        offer.price_usd_per_hour, offer.min_bid_usd_per_hour, rate, offer.price_usd_per_hour / rate,
    )
