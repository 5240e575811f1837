"""Every kind of fault that a scenario may name, in the order of contracts.md section 1."""

from __future__ import annotations

import difflib

from sim.faults.kinds import BLAMES, REQUIRED, Kind, Param
from sim.faults.kinds_line import AGENT, CONTROLLER, CRASH_POINTS, OPERATOR, SYSTEMIC, TUNNEL, WORK
from sim.faults.kinds_machine import HOST, PARAMS, PROVER
from sim.faults.kinds_market import MARKET
from sim.spec import FaultSpec

__all__ = ["BLAMES", "CRASH_POINTS", "FAMILIES", "KINDS", "REQUIRED", "Kind", "Param", "blame_of", "duration_s",
           "nearest"]

FAMILIES: dict[str, tuple[Kind, ...]] = {
    "market": MARKET, "host": HOST, "prover": PROVER, "params": PARAMS, "tunnel": TUNNEL, "agent": AGENT,
    "controller": CONTROLLER, "systemic": SYSTEMIC, "work": WORK, "operator": OPERATOR,
}
KINDS: dict[str, Kind] = {kind.name: kind for family in FAMILIES.values() for kind in family}


def nearest(name: str) -> str:
    """The kind that ``name`` was probably meant to be; "" when nothing is near."""
    near = difflib.get_close_matches(name, KINDS, 1, 0.8)
    if near:
        return near[0]
    tails: dict[str, str] = {}
    for kind in KINDS:
        tails.setdefault(kind.split(".")[1], kind)
    tail = name.split(".")[-1]
    if tail in tails:  # the right word in the wrong family
        return tails[tail]
    near = difflib.get_close_matches(name, KINDS, 1, 0.5) or [
        tails[t] for t in difflib.get_close_matches(tail, tails, 1, 0.7)]
    return near[0] if near else ""


def blame_of(fault: FaultSpec) -> str:
    """Whom this fault may be blamed on. Two kinds depend on what it is: a file whose digests differ between tries is
    the machine's, and proofs that the consumer refuses from named machines only look like those machines' own."""
    if fault.kind == "params.corrupt" and not fault.params.get("same_digest", True):
        return "machine"
    if fault.kind == "work.rejected" and fault.machines is not None:
        return "machine"
    return KINDS[fault.kind].blame


def duration_s(fault: FaultSpec) -> float | None:
    """How long it lasts in s: its own ``for``, else its kind's; None: the run (or always); 0: a moment."""
    if fault.always:
        return None
    return KINDS[fault.kind].for_s if fault.for_s is None else fault.for_s
