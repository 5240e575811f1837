"""Where the market holds two contracts of one intent, the one with less progress is ended.

Protects INV-4 (I-030: each timed-out attempt had made a machine; a paused process's packet left late). The rental's own
contract, the one whose agent is heard, is kept; a second one is destroyed without touching the rental.
"""

from __future__ import annotations

from proverfleet.domain.events import Extra, Resolved, RowFact
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.ids import ContractId, FleetId, IntentId, parse_mark
from proverfleet.domain.pending import Pending
from proverfleet.domain.rules import gone

RULE = "duplicate"


def check(fleet: Fleet, pending: Pending) -> list[Extra]:
    """Listed contracts that carry the mark of an intent which has another contract, or has ended."""
    if not fleet.list_ok:
        return []
    out: list[Extra] = []
    seen: dict[IntentId, ContractId] = {}
    for contract, row in fleet.rows.items():
        own = fleet.by_contract.get(contract)
        if own is not None:
            rental = fleet.rentals.get(own)
            if rental is None or rental.stage != "gone":
                continue
        if contract in fleet.extras or contract in pending.extra:
            continue
        extra = _second(fleet, pending, contract, row, seen) or gone.back_again(fleet, contract, row.label)
        if extra is not None:
            out.append(extra)
    return out


def _second(fleet: Fleet, pending: Pending, contract: ContractId, row: RowFact,
            seen: dict[IntentId, ContractId]) -> Extra | None:
    marked = parse_mark(row.label)
    if marked is None or marked[0] != FleetId(fleet.fleet_id):
        return None
    intent = IntentId(marked[1])
    rental = fleet.rentals.get(intent)
    if rental is None:
        # Two orphans of one intent: the first listed is adopted, the other is its duplicate.
        first = seen.setdefault(intent, contract)
        return None if first == contract else _extra(contract, intent, first)
    if rental.stage == "gone":
        return None
    kept = rental.contract_id or next(
        (d.contract_id for d in pending.decisions if isinstance(d, Resolved) and d.intent == intent), None)
    if kept is None or kept == contract or kept not in fleet.rows:
        return None
    return _extra(contract, intent, kept)


def _extra(contract: ContractId, intent: IntentId, kept: ContractId) -> Extra:
    return Extra(RULE, contract, "duplicate", f"second contract of intent {intent}: {kept} is kept")
