"""INV-7: a machine is blacklisted only for faults that may be blamed on the machine, never for a common cause."""

from __future__ import annotations

from sim.oracle.view import HOUR, Findings, View
from sim.truth import NS, ContractTruth, ListEntryTruth

COMMON = ("systemic.", "params.source_down", "params.stall", "controller.", "work.", "market.")


def check_blame(v: View, out: Findings) -> None:
    seen: set[tuple[int, int]] = set()
    for entry in v.truth.listed:
        if (entry.machine_id, entry.at) in seen:
            continue
        seen.add((entry.machine_id, entry.at))
        out.stake("INV-7")
        why_not = _unfair(v, entry)
        if why_not:
            c = next((c for c in reversed(v.ours) if c.machine_id == entry.machine_id and c.created <= entry.at), None)
            out.add("INV-7", entry.at, c, why_not)


def _unfair(v: View, entry: ListEntryTruth) -> str:
    """Empty when the entry is fair at its moment; else why it is not."""
    if any(o.what == "blacklist" and o.machine_id == entry.machine_id and o.at <= entry.at for o in v.truth.orders):
        return ""
    rentals = [c for c in v.ours if c.machine_id == entry.machine_id and c.created <= entry.at]
    if not rentals:
        return f"machine {entry.machine_id} listed ({entry.reason}) although it was never rented"
    for c in rentals:
        if _machine_is_bad(v, c, entry.at):
            return ""
        if any(f.blame == "machine" for f in v.fired_on(c, "", c.created, entry.at)):
            return ""
    fired = {f.kind for c in rentals for f in v.fired_on(c, "", c.created, entry.at)}
    common = sorted(kind for kind in fired if kind.startswith(COMMON))
    cause = f"; what happened was {', '.join(common)}" if common else "; nothing on it may be blamed on the machine"
    return f"machine {entry.machine_id} listed ({entry.reason}){cause}"


def _machine_is_bad(v: View, c: ContractTruth, at: int) -> bool:
    """By its own nature: too slow, not what was offered, does not work, or fails by itself."""
    spec = next((m for m in v.scenario.machines if m.id == c.machine_id), None)
    if c.unfit or (spec is not None and not spec.works):
        return True
    if any(e.at <= at and e.kind in ("crash", "gpu", "bench_error") and e.fault is None for e in c.exits):
        return True
    window = v.window_ns(c)
    start = max(c.running or c.created, at - max(window, 2 * HOUR))
    return (v.mean_potential(c, start, at) < v.min_rate(c, at)
            or v.mean_potential(c, at, at + 6 * HOUR) < v.min_rate(c, at)
            or v.mean_potential(c, max(c.created, at - window - 180 * NS), at) < v.min_rate(c, at))
