"""An agent that is heard but cannot reach the chain node's RPC through its tunnel is told to repair the tunnel.

Protects rentals that pass their benchmark and then find no work (field case: port 1234 was not forwarded, curio
failed at start-up). Nothing is ended for this; it is asked again every ten minutes.
"""

from __future__ import annotations

from proverfleet.domain.events import Directed
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, reports_fresh, was_directed

RULE = "repair"
AGAIN_BEATS = 10


def check(fleet: Fleet, rental: Rental, pending: Pending) -> Directed | None:
    last = rental.last
    if last is None or last.rpc_ok is not False or not reports_fresh(fleet, rental) or not fleet.ids:
        return None
    turn = fleet.beat // AGAIN_BEATS
    if was_directed(rental, "repair_tunnel", turn) or any(d[1] == "repair_tunnel" for d in rental.directives):
        return None
    id_ = f"repair_tunnel.{turn}.{fleet.ids[0]}{len(pending.decisions)}"
    return Directed(RULE, rental.intent, id_, "repair_tunnel", {}, "the RPC port does not answer through its tunnel")
