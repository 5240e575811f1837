"""LIVE-1: from the end of the faults, what must end is proven gone within 60 min, and the target is reached within
8 h if enough offers exist on which a rental can succeed (checked first: else "not_recoverable")."""

from __future__ import annotations

from dataclasses import dataclass

from sim.oracle.view import HOUR, MINUTE, View, mark_at, stall_limit_ns, view_of
from sim.spec import Scenario
from sim.truth import ContractTruth, Truth


@dataclass(frozen=True, slots=True)
class Live:
    """``ended``: nothing that must end is paid. ``reached``: the target is productive. ``recoverable``: it could be."""

    ended: bool
    reached: bool
    recoverable: bool
    text: str


def live_state(truth: Truth, scenario: Scenario, now: int) -> Live:
    """Both of LIVE-1's conditions as they stand at ``now``."""
    v = view_of(truth, scenario, now)
    must_end = [c for c in v.ours if c.gone is None and _must_end(v, c, now)]
    target = int(truth.target.at(now))
    productive = [c for c in v.ours if c.gone is None and mark_at(c, "active") is not None and not must_end.count(c)
                  and c.progress.last_on(now) is not None]
    ended = not must_end
    reached = len(productive) >= target
    text = ""
    if not ended:
        text = "still paid: " + ", ".join(f"contract {c.contract_id} on machine {c.machine_id}" for c in must_end[:5])
    elif not reached:
        text = f"{len(productive)} of {target} productive"
    return Live(ended, reached, reached or _recoverable(v, target, len(productive)), text)


def _must_end(v: View, c: ContractTruth, now: int) -> bool:
    if v.destroys.get(c.contract_id):
        return True
    last = c.progress.last_on(now)
    since = c.created if last is None else last
    return now - since > stall_limit_ns(v, c, now) + 10 * MINUTE and c.work_available.covers(since, now)


def _recoverable(v: View, target: int, productive: int) -> bool:
    """Enough machines, rented or not, on which a rental can succeed as things stand now, within the money caps."""
    listed = {e.machine_id for e in v.truth.listed} | {
        o.machine_id for o in v.truth.orders if o.what == "blacklist" and o.machine_id is not None}
    alive = [c for c in v.ours if c.gone is None]
    coming = sum(1 for c in alive if mark_at(c, "active") is None and c.progress.on)
    waited_out = v.truth.faults_end > 0 and v.now - v.truth.faults_end >= 8 * HOUR
    if waited_out and productive + coming >= target:
        # After the whole 8 h: what still comes may neither be ended (INV-1) nor doubled (INV-13). Until then, wait.
        return False
    held = {c.machine_id for c in alive if mark_at(c, "active") is not None}
    good: list[float] = []
    for m in v.scenario.machines:
        steps = v.truth.potential.get(m.id)
        floor = v.scenario.min_rate_for(m.price_usd_per_hour, None)
        if steps is None or not m.works or m.id in listed or m.id in held:
            continue
        if steps.at(v.now) >= 1.1 * floor and m.gpu_frac >= 1 and not _hindered(v, m.id):
            good.append(m.price_usd_per_hour)
    spend = sum(c.price.at(v.now) or c.price_usd_per_hour for c in alive)
    cap, day_cap = v.number("cap_usd_per_hour", 0), v.number("cap_usd_per_day", 0)
    for price in sorted(good):
        spend += price
        if (cap and spend > cap) or (day_cap and spend * 24 > day_cap) or v.truth.credit.at(v.now) <= 2 * spend:
            break
        productive += 1
    return productive >= target


def _hindered(v: View, machine_id: int) -> bool:
    """A lasting fault of its own nature that keeps a rental from succeeding."""
    return any(f.machine_id == machine_id and f.end is None and f.kind.startswith(("host.", "prover."))
               and f.kind not in ("host.clock_skew", "host.clock_step", "host.nvml_lost") for f in v.truth.fired)


def liveness_deadlines() -> tuple[int, int]:
    """(must be gone within, target must be reached within), ns from the end of the faults."""
    return HOUR, 8 * HOUR
