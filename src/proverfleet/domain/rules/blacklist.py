"""Strikes: a machine that failed by its own fault is listed, and a listed machine is never rented.

Protects against renting the same bad box again and again (I-055), keyed by `machine_id`, never by `host_id` (field case
M1475, point 5). A rental that progresses on a listed machine is left alone, unless the operator's entry says `evict`.
Common causes, our own sizing, refusals and market ends are no strikes (INV-7).
"""

from __future__ import annotations

from proverfleet.domain import reputation, systemic
from proverfleet.domain.events import Blacklisted, End, Struck
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, end

RULE = "blacklist"
DAY_NS = 86_400 * 1_000_000_000


def evict(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    """Ends a rental on a machine whose entry says so. Rests on the market's word for the machine: a trusted listing."""
    entry = fleet.blacklist.get(rental.machine_id) if rental.machine_id is not None else None
    if entry is None or not entry.evict or not fleet.list_ok:
        return None
    text = f"machine {rental.machine_id} is listed with evict: {entry.reason}"
    return end(rental, RULE, "operator", "evicted", text, "nobody")


def strikes(fleet: Fleet, pending: Pending) -> list[Struck | Blacklisted]:
    """Strikes for the ends that this beat decided, and the entries that follow from them."""
    out: list[Struck | Blacklisted] = []
    for said in pending.ended.values():
        kind = reputation.strike_of(said.verdict, said.cause, said.blame)
        machine = fleet.rentals[said.intent].machine_id
        if not kind or machine is None:
            continue
        struck = Struck(RULE, machine, said.intent, kind == "hard", str(said.evidence["fingerprint"]), said.reason)
        out.append(struck)
        why = reputation.must_list(fleet, struck)
        if why and not struck.hard and systemic.suspected(fleet, struck.fingerprint, machine):
            continue
        if why and not reputation.is_listed(fleet, machine):
            until_ns = fleet.wall_ns + int(fleet.policy.blacklist_days * DAY_NS)
            out.append(Blacklisted(RULE, machine, why, until_ns, False))
    return out
