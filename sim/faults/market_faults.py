"""Faults of the market that happen by themselves: offer ids, prices, displacement, credit, other people's contracts.

In scope: market.offer_reshuffle, price_change, outbid, credit_exhausted, foreign_contract. The kinds that act on calls
are the counter's (sim/counter.py). Out of scope: a market that moves a contract to another machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sim.market import Lot, changed_price

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.spec import FaultSpec
    from sim.world import World


def market_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def reshuffle(fault: FaultSpec, machine_id: int | None) -> Literal[False] | None:
        lots = _lots(world, machine_id)
        for lot in lots:
            world.market.renumber(lot)
        return None if lots else False

    def foreign(fault: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        label = fault.params.get("label")
        made = [world.market.foreign(None if label is None else str(label), machine_id,
                                     bool(fault.params["rows_missing_fields"])) for _ in range(fault.params["count"])]
        ids = [contract.contract_id for contract in made if contract is not None]

        def away() -> None:
            for contract_id in ids:
                world.market.end(contract_id, "market")

        return away if ids else False

    return {
        "market.offer_reshuffle": reshuffle,
        "market.price_change": lambda fault, machine_id: _price_change(world, fault, machine_id),
        "market.outbid": lambda fault, machine_id: _outbid(world, fault, machine_id),
        "market.credit_exhausted": lambda fault, machine_id: _credit_exhausted(world, fault),
        "market.foreign_contract": foreign,
    }


def _lots(world: World, machine_id: int | None) -> list[Lot]:
    """The machine's lot, or all of them."""
    if machine_id is None:
        return list(world.market.lots.values())
    lot = world.market.lots.get(machine_id)
    return [lot] if lot is not None else []


def _price_change(world: World, fault: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
    """Offers cost more while it lasts; contracts that exist when it begins cost more until it ends."""
    lots, what = _lots(world, machine_id), fault.params["applies_to"]
    before: dict[int, float] = {}
    for lot in lots:
        if what in ("contracts", "both") and lot.by is not None:
            contract = world.market.live[lot.by]
            before[lot.by] = contract.price_usd_per_hour
            contract.reprice(changed_price(contract.price_usd_per_hour, fault))
        if what in ("offers", "both"):
            lot.changes.append(fault)
    if not lots or (what == "contracts" and not before):
        return False

    def back() -> None:
        for lot in lots:
            if fault in lot.changes:
                lot.changes.remove(fault)
        for contract_id, price in before.items():
            contract = world.market.live.get(contract_id)
            if contract is not None:
                contract.reprice(price)

    return back


def _outbid(world: World, fault: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
    """Somebody else gets the machines that are rented; with ``resumes`` they come back when he leaves."""
    hit = [lot for lot in _lots(world, machine_id) if lot.by is not None]
    contracts = [contract for lot in hit if lot.by is not None
                 for contract in (world.market.live[lot.by],) if not contract.stopped]
    if not contracts:
        return False
    for lot in hit:
        lot.displaced.append(fault)
    for contract in contracts:
        contract.halt("outbid")

    def leaves() -> None:
        for lot in hit:
            if fault in lot.displaced:
                lot.displaced.remove(fault)
        if not fault.params["resumes"] or world.market.ledger.empty:
            return
        for contract in contracts:
            if contract.stopped == "outbid" and not world.market.lots[contract.machine_id].displaced:
                contract.resume()

    return leaves


def _credit_exhausted(world: World, fault: FaultSpec) -> Undo:
    """The account has ``left_usd`` from now on, and is topped up when it ends. What stopped waits to be started."""
    market = world.market
    market.deletes_after_s = float(fault.params["deletes_after_s"])
    market.ledger.set_credit(float(fault.params["left_usd"]))

    def paid_in() -> None:
        market.deletes_after_s = 0.0
        market.ledger.top_up(float(fault.params["top_up_usd"]))

    return paid_in
