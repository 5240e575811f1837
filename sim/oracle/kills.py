"""INV-1: a kill is wrong unless, in the world's truth up to 150 s before the destroy call, one reason holds.

A reason may hold at the knowable moment (call - 150 s) or at the call itself: what came after the knowable moment
(work that went on again) nobody could know, and what was already so at the call needs no excuse.
"""

from __future__ import annotations

from sim.oracle.view import HOUR, KNOWABLE_NS, MINUTE, Findings, View, mark_at, phase, stall_limit_ns
from sim.truth import NS, ContractTruth


def check_kills(v: View, out: Findings) -> None:
    for c in v.ours:
        calls = v.destroys.get(c.contract_id)
        if not calls:
            continue
        at = calls[0].sent
        if c.gone is not None and c.gone <= at:
            continue
        out.stake("INV-1")
        why_not = wrong_kill(v, c, at)
        if why_not:
            out.add("INV-1", at, c, why_not)


def wrong_kill(v: View, c: ContractTruth, at: int) -> str:
    """Empty when the kill at ``at`` is right; else what the world says against it."""
    knowable = max(0, at - KNOWABLE_NS)
    for t in (knowable, at):
        if (_asked_for(v, c, t) or _stalled(v, c, t) or _slow(v, c, t) or _failed(v, c, t) or _wrong_proofs(v, c, t)
                or _market_ended(v, c, t) or _dark(v, c, t) or _surplus_contract(v, c, t)):
            return ""
    if c.lease_called is not None and c.lease_called <= at:
        return ""
    target = _for_target(v, c, at)
    if target == "right":
        return ""
    if target:
        return target
    last = c.progress.last_on(at)
    age = "no unit of work ever" if last is None else f"last unit of work {(at - last) / NS:.0f} s before"
    return (f"killed in {phase(c, at)} with {age}; true rate {v.mean_potential(c, at - v.window_ns(c), at):.1f}/h "
            f"against min_rate {v.min_rate(c, at):g}")


def _asked_for(v: View, c: ContractTruth, t: int) -> bool:
    """An operator, or a money cap ($/h, $/day, credit, set-up)."""
    for order in v.truth.orders:
        if order.at <= t and order.machine_id == c.machine_id:
            if order.what == "kill" and order.at >= c.created:
                return True
            if order.what == "blacklist" and order.value is True:
                return True
    return _cap_broken(v, t) or _setup_too_dear(v, c, t)


def _cap_broken(v: View, t: int) -> bool:
    alive = [c for c in v.ours if c.created <= t and (c.gone is None or c.gone > t)]
    per_hour = sum(c.paid.at(t) for c in alive)
    cap = v.number("cap_usd_per_hour", 0)
    if cap and per_hour > cap * (1 - 1e-9):
        return True
    day_cap = v.number("cap_usd_per_day", 0)
    if day_cap:
        wall = v.truth.start_wall_ns + t
        day_start = max(0, t - wall % (24 * HOUR))
        spent = sum(c.paid.mean(day_start, t) * (t - day_start) / HOUR for c in v.ours)
        if spent >= 0.95 * day_cap:
            return True
    floor = v.scenario.policy.get("credit_floor_usd")
    wanted = float(floor) if isinstance(floor, int | float) else per_hour
    return v.truth.credit.at(t) <= wanted


def _setup_too_dear(v: View, c: ContractTruth, t: int) -> bool:
    """The forecast of the set-up's cost was above its cap for 10 min, at minute 30 or later."""
    began = mark_at(c, "params")
    if began is None or phase(c, t) != "setup" or t - c.created < 28 * MINUTE:
        return False
    cap, price = v.number("setup_cap_usd", 2.5), c.price.at(t) or c.price_usd_per_hour
    left = c.setup_left_s.at(t)
    return (t - began) / HOUR * price + left / 3600 * price > 0.95 * cap


def _stalled(v: View, c: ContractTruth, t: int) -> bool:
    """No unit of work of its stage for the stage's limit, though work was available."""
    limit = stall_limit_ns(v, c, t)
    since = c.progress.last_on(t)
    if since is None:
        since = c.created
    if phase(c, t) == "loading" and c.running is not None and c.running <= t:
        # runs without an agent: the 15 min of `never_started`
        limit = min(limit, int(v.number("never_started_s", 900) * NS))
    slack = 5 * NS
    if phase(c, t) == "active":
        idle = max(0, (t - since) - c.work_available.total(since, t))
        return t - since - idle >= limit - slack
    return t - since >= limit - slack


def _slow(v: View, c: ContractTruth, t: int) -> bool:
    """True mean rate below min_rate over the full window before, or over the 6 h after."""
    floor = v.min_rate(c, t)
    window = v.window_ns(c)
    start = max(mark_at(c, "running") or c.created, t - window)
    return v.mean_potential(c, start, t) < floor or v.mean_potential(c, t, t + 6 * HOUR) < floor


def _failed(v: View, c: ContractTruth, t: int) -> bool:
    """Its own failures used up the retries; or its container ended or cannot start and stays so."""
    exits = [e for e in c.exits if e.at <= t]
    oom = sum(e.kind == "oom" for e in exits)
    params = sum(e.kind == "params" for e in exits)
    other = len(exits) - oom - params
    if oom > v.number("oom_retries", 2) or other > v.number("crash_retries", 1) or params >= 1:
        return True
    last = c.progress.last_on(t)
    return c.broken.total(max(c.created, t - 4 * MINUTE), t) >= 2 * MINUTE and (last is None or last < t - 2 * MINUTE)


def _wrong_proofs(v: View, c: ContractTruth, t: int) -> bool:
    """Unfit, or 3 wrong proofs in a row, or 2 of the last 100 (by the self-check or the consumer)."""
    if c.unfit:
        return True
    bad = sorted({*(x for x in c.invalid if x <= t), *(x for x in c.rejected if x <= t)})
    wrong = set(bad)
    results = sorted([*((x, True) for x in c.proofs if x <= t and x not in wrong), *((x, False) for x in bad)])[-100:]
    tail = [ok for _, ok in results[-3:]]
    return (len(tail) == 3 and not any(tail)) or sum(not ok for _, ok in results) >= 2


def _market_ended(v: View, c: ContractTruth, t: int) -> bool:
    """The market stopped or ended it (two listings' time ago), or its host was offline for 30 min."""
    if c.market_stopped.covers(t - 55 * NS, t):
        return True
    half_hour = int(v.number("host_offline_s", 1800) * NS) - 5 * NS
    return c.host_offline.covers(t - half_hour, t)


def _dark(v: View, c: ContractTruth, t: int) -> bool:
    limit = 2700.0 if phase(c, t) == "loading" else v.number("silence_s", 1800)
    return c.dark.covers(t - int(limit * NS) + 5 * NS, t)


def _surplus_contract(v: View, c: ContractTruth, t: int) -> bool:
    """A duplicate of its intent; or our mark without a rental (a lost or restored database) and without progress."""
    for other in v.ours:
        alive = other.created <= t and (other.gone is None or other.gone > t)
        if other is not c and other.intent == c.intent and alive:
            return True
    lost_books = v.fired("controller.db_restored", 0, t)
    last = c.progress.last_on(t)
    return bool(lost_books) and t - (last if last is not None else c.created) >= 15 * MINUTE - 5 * NS


def _surplus(v: View, t: int) -> bool:
    """More contracts than the operator wants, not counting those whose destroy call has left."""
    alive = [o for o in v.ours if o.created <= t and (o.gone is None or o.gone > t)
             and not any(call.sent < t for call in v.destroys.get(o.contract_id, ()))]
    return len(alive) > v.wanted(t)


def _for_target(v: View, c: ContractTruth, at: int) -> str:
    """"right": a lower target asked for it (at the call, or when its drain began) and no proof was lost that could have
    finished; a text: one was; "": no target asked for it.

    A drain that its agent never heard of counts from when the surplus began: 15 min are the most that is waited."""
    drained = mark_at(c, "draining")
    wait = int(v.number("drain_s", 900) * NS)
    asked = _surplus(v, at) or _surplus(v, max(0, at - KNOWABLE_NS))
    if drained is not None and not asked:
        asked = _surplus(v, drained) or _surplus(v, max(0, drained - KNOWABLE_NS))
    if not asked:
        return ""
    limit = min(int(2 * c.proof_s * NS), wait)
    earning = phase(c, at) == "active" and c.in_flight.last_on(at) == at
    waited = (drained is not None and at - drained >= limit - 5 * NS) or _surplus(v, max(0, at - wait))
    if earning and not waited:
        return "ended for a lower target while a proof in flight could still have finished"
    return "right"
