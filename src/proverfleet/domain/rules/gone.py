"""A destroy is believed only when absence is proven: the call was acknowledged, a read by id does not find the
contract, and two trusted listings since then lack it.

Protects INV-2 (no leak): cases I-008, I-015, market.destroy_fails "ignored". Until then the contract counts as spending
and the destroy is repeated. A contract of ours that shows up again after that (a lying read had "proven" it gone), or
that appears for an intent that has ended (its create's packet left late), is put back on the books and destroyed.
"""

from __future__ import annotations

from proverfleet.domain.events import Alerted, Extra, Gone
from proverfleet.domain.fleet import NS, DestroyState, Fleet
from proverfleet.domain.ids import ContractId, FleetId, IntentId, parse_mark
from proverfleet.domain.pending import Pending

RULE = "gone"
ALARM_S = 900.0
LISTINGS = 2


def check(fleet: Fleet, pending: Pending) -> list[Gone | Alerted]:
    """What is proven gone among the rentals and extra contracts that wait for it; asks for reads of the others."""
    out: list[Gone | Alerted] = []
    for rental in pending.open:
        if rental.stage != "destroying":
            continue
        if rental.contract_id is None:
            if not rental.in_doubt and not rental.create_sent:
                out.append(Gone(RULE, None, rental.intent, "ended before its create call left"))
            continue
        why = proven(rental.destroy, rental.contract_id in fleet.rows)
        if why:
            out.append(Gone(RULE, rental.contract_id, rental.intent, why))
            continue
        pending.ask(rental, read=rental.destroy.acknowledged)
        age_s = (fleet.heard_ns - rental.stage_heard_ns.get("destroying", fleet.heard_ns)) / NS
        if age_s >= ALARM_S and f"destroy_pending:{rental.intent}" not in fleet.alerts:
            text = f"contract {rental.contract_id} is still not proven gone after {age_s / 60:.0f} min: " \
                   f"{rental.destroy.attempts} destroy calls, last error {rental.destroy.last_error or 'none'}"
            out.append(Alerted("destroy_pending", rental.intent, text, rental.machine_id))
    for extra in fleet.extras.values():
        why = proven(extra.destroy, extra.contract_id in fleet.rows)
        if why:
            out.append(Gone(RULE, extra.contract_id, None, why))
        elif extra.destroy.acknowledged:
            pending.contracts[extra.contract_id] = None
    return out


def proven(destroy: DestroyState, listed: bool) -> str:
    """Why absence is proven; empty while it is not."""
    if listed or not destroy.acknowledged or destroy.absent_reads < 1 or destroy.absent_listings < LISTINGS:
        return ""
    return (f"destroy acknowledged (call {destroy.attempts}), absent by id {destroy.absent_reads}x and from "
            f"{destroy.absent_listings} trusted listings since")


def back_again(fleet: Fleet, contract: ContractId, label: str | None) -> Extra | None:
    """The order to destroy a listed contract that carries our mark although its intent's rental has ended."""
    marked = parse_mark(label)
    if marked is None or marked[0] != FleetId(fleet.fleet_id):
        return None
    rental = fleet.rentals.get(IntentId(marked[1]))
    if rental is None or rental.stage not in ("gone", "destroying"):
        return None
    if rental.stage == "destroying" and (rental.contract_id == contract or rental.contract_id is None):
        return None
    again = rental.contract_id == contract
    what = "was proven gone and is listed again" if again else "belongs to an intent that ended"
    return Extra(RULE, contract, "duplicate", f"contract {contract} of intent {rental.intent} {what}")
