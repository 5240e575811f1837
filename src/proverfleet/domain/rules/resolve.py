"""A create whose outcome is unknown is settled by its label, never by asking again.

Protects INV-4 (one contract per intent) and INV-2 (no leak): cases I-006, I-029, I-030, I-044. A row with our exact
label is the contract. Without one, absence counts as proven after two trusted listings over three minutes of listed
time, begun after the call's own deadline: until then a slow packet may still make a contract. Creates that the market
refused end here too, without blame: nothing was made.
"""

from __future__ import annotations

from collections.abc import Mapping

from proverfleet.domain.events import End, Gone, Resolved
from proverfleet.domain.fleet import NS, Fleet, Rental
from proverfleet.domain.ids import ContractId, FleetId, mark
from proverfleet.domain.pending import Pending, end

RULE = "resolve"
IN_DOUBT_S = 180.0
LISTINGS = 2


def labels(fleet: Fleet) -> dict[str, list[ContractId]]:
    """Contracts by label, the ones that the market calls running first, then the older."""
    out: dict[str, list[ContractId]] = {}
    for contract, row in fleet.rows.items():
        if row.label is not None:
            out.setdefault(row.label, []).append(contract)
    for contracts in out.values():
        if len(contracts) > 1:
            contracts.sort(key=lambda c: (fleet.rows[c].actual_status != "running", c))
    return out


def check(fleet: Fleet, rental: Rental, pending: Pending,
          by_label: Mapping[str, list[ContractId]]) -> list[Resolved | End | Gone]:
    """What settles this rental, which has no contract yet; an empty list while that is open."""
    if rental.contract_id is not None:
        return []
    if rental.refused and rental.stage == "requested":
        return [_no_contract(rental, f"the market refused the create ({rental.refused})", "create_refused"),
                Gone(RULE, None, rental.intent, "the market refused: no contract was made")]
    if not rental.in_doubt:
        return []
    found = by_label.get(mark(FleetId(fleet.fleet_id), rental.intent), [])
    if found:
        return [Resolved(RULE, rental.intent, found[0], f"contract {found[0]} carries the intent's label")]
    age_s = (fleet.heard_ns - rental.doubt_heard_ns) / NS
    if not fleet.list_ok or age_s < IN_DOUBT_S or rental.doubt_listings < LISTINGS:
        return []
    why = f"{rental.doubt_listings} trusted listings over {age_s:.0f} s show no contract with its label"
    ended = [] if rental.stage == "destroying" else [_no_contract(rental, f"the create was lost: {why}", "create_lost")]
    return [Resolved(RULE, rental.intent, None, why), *ended, Gone(RULE, None, rental.intent, why)]


def _no_contract(rental: Rental, reason: str, cause: str) -> End:
    return end(rental, RULE, "never_started", cause, reason, "nobody")
