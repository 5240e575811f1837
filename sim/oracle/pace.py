"""INV-9 (caps and back-off), INV-10 (the beat goes on) and INV-11 (no idle pay)."""

from __future__ import annotations

from itertools import pairwise

from sim.oracle.view import HOUR, MINUTE, Findings, View, phase, stall_limit_ns
from sim.truth import NS, ContractTruth, Spans

BEAT_LIMIT = 120 * NS
SIZES_TRIED = 4
UNTRUSTED = ("market.", "systemic.", "params.source_down", "params.stall")


def check_pace(v: View, out: Findings) -> None:
    _caps(v, out)
    _rhythm_of_creates(v, out)
    _beats(v, out)
    for c in v.ours:
        _idle(v, c, out)
        _slow_kept(v, c, out)


def _caps(v: View, out: Findings) -> None:
    cap = v.number("cap_usd_per_hour", 0)
    if not cap:
        return
    for c in v.ours:
        out.stake("INV-9")
        alive = [o for o in v.ours if o.created <= c.created and (o.gone is None or o.gone > c.created)]
        agreed = sum(o.price.at(c.created) or o.price_usd_per_hour for o in alive)
        if agreed > cap * 1.001:
            out.add("INV-9", c.created, c, f"rented although ${agreed:.3f}/h is above the cap of ${cap:.3f}/h")


def _rhythm_of_creates(v: View, out: Findings) -> None:
    """At most ``creates_per_beat`` a beat for the target; and failing slots back off (3 tries, then 5/15/45 min)."""
    orders = sum(1 for _ in v.scenario.deploy)
    sent = [c.sent for c in v.truth.calls if c.op == "create"]
    out.stake("INV-9", len(sent))
    per_beat = int(v.number("creates_per_beat", 2))
    beat = int(v.number("beat_s", 60) * NS) - 5 * NS
    for i, t in enumerate(sent):
        near = sum(1 for u in sent[i:] if u < t + beat)
        if near > per_beat + orders:
            out.add("INV-9", t, None, f"{near} creates within one beat, {per_beat} allowed")
            return
    slots = max(1.0, max(v.truth.target.values, default=0.0)) + orders
    for i, t in enumerate(sent):
        within = sum(1 for u in sent[i:] if u < t + HOUR)
        if within > 8 * slots:
            out.add("INV-9", t, None, f"{within} creates within an hour for {slots:g} slots: failure does not back off")
            return


def _beats(v: View, out: Findings) -> None:
    beats = v.truth.beats
    for a, b in v.truth.controller_up.spans:
        assert a is not None
        end = b if b is not None else v.now
        inside = [t for t in beats if a <= t <= end]
        times = [a, *inside, end]
        out.stake("INV-10", len(inside))
        for t, u in pairwise(times):
            if u - t > BEAT_LIMIT + NS:
                out.add("INV-10", t, None, f"no beat started for {(u - t) / NS:.0f} s while the controller ran")
                return


def _idle(v: View, c: ContractTruth, out: Findings) -> None:
    """Paid without a unit of work: at most the stage's limit + 10 min (+ 60 min under a brake or untrusted lists)."""
    end = c.gone if c.gone is not None else v.now
    times: list[tuple[int, int]] = []
    t = c.created
    for a, b in c.progress.spans:
        assert a is not None
        if a > t:
            times.append((t, a))
        t = max(t, b if b is not None else end)
    if t < end:
        times.append((t, end))
    for a, b in times:
        out.stake("INV-11")
        limit = max(stall_limit_ns(v, c, a), stall_limit_ns(v, c, min(b, a + 10 * MINUTE)))
        if phase(c, a) == "loading" and c.running is not None and c.progress.last_on(a) is None:
            limit = max(limit, 45 * MINUTE)
        allowed = limit + 10 * MINUTE + _excused(v, c, a, b)
        paid = b - a - c.host_offline.total(a, b)
        earns = next((m for m in c.marks.get("active", ()) if m <= b), None)
        if earns is not None:  # without tasks nothing is owed
            start = max(a, earns)
            paid -= max(0, b - start - c.work_available.total(start, b))
        if paid > allowed:
            text = f"paid {paid / MINUTE:.0f} min without a unit of work in {phase(c, a)}"
            out.add("INV-11", a + allowed, c, f"{text}, {allowed / MINUTE:.0f} allowed")
            return


def _excused(v: View, c: ContractTruth, a: int, b: int) -> int:
    """Time that the controller could not hear, catches up after, is held by a brake, a freeze or the market."""
    deaf = (b - a) - v.truth.controller_hears.total(a, b)
    out = deaf + (10 * MINUTE if deaf > 3 * MINUTE else 0)
    held = Spans()
    for f in sorted((f for p in UNTRUSTED for f in v.fired_on(c, p, a, b)), key=lambda f: f.start):
        lo, hi = max(a, f.start), min(b, f.end if f.end is not None else b)
        if held.spans and held.spans[-1][1] is not None and lo <= held.spans[-1][1]:
            held.spans[-1][1] = max(held.spans[-1][1], hi)
        else:
            held.spans.append([lo, hi])
    if held.spans:
        out += 60 * MINUTE + held.total(a, b)
    elif _common_cause(v, a, b):
        out += 60 * MINUTE
    for f in v.fired("operator.freeze", a, b):
        out += min(b, f.end if f.end is not None else b) - max(a, f.start)
    for f in v.fired("controller.db_", a, b):
        out += min(b, f.end if f.end is not None else b) - max(a, f.start) + 10 * MINUTE
    if any(f.kind.startswith(("tunnel.", "agent.")) for f in v.fired_on(c, "", a - HOUR, b)):
        # what was done unheard is dated by its arrival
        since = max(c.created, a - HOUR)
        out += min(HOUR, (b - since) - c.agent_reachable.total(since, b)) + 10 * MINUTE
    out += c.dark.total(a, b) and int(v.number("silence_s", 1800) * NS)
    if len({call.sent for call in v.truth.calls if call.op == "destroy" and a <= call.sent <= b}) > 5:
        out += 60 * MINUTE  # the kill budget stretches a mass of right kills
    return int(out)


def _common_cause(v: View, a: int, b: int) -> bool:
    """Three machines of two hosts failed, or stood still, in the same way within 2 h: a brake may hold them 60 min."""
    for kind in ("oom", "crash", "bench_error", "gpu", "params"):
        hit = {c.machine_id: c.host_id for c in v.ours for e in c.exits if e.kind == kind and a - 2 * HOUR <= e.at <= b}
        if _common(hit):
            return True
    still: dict[int, int] = {}
    for c in v.ours:
        last = c.progress.last_on(b)
        end = c.gone if c.gone is not None and c.gone < b else b
        sick = v.mean_potential(c, end - NS, end) == 0
        if end > a - 2 * HOUR and (sick or end - (last if last is not None else c.created) > 20 * MINUTE):
            still[c.machine_id] = c.host_id
    return _common(still)


def _common(hit: dict[int, int]) -> bool:
    """machine -> host: enough of both to be a cause that they share?"""
    return len(hit) >= 3 and len(set(hit.values())) >= 2


def _slow_kept(v: View, c: ContractTruth, out: Findings) -> None:
    """A rental truly below 0.97 x min_rate is ended within 3 windows of busy time."""
    end = c.gone if c.gone is not None else v.now
    if not c.busy.spans or c.busy.spans[0][0] is None:
        return
    first = (c.marks.get("batch") or [c.busy.spans[0][0]])[0]
    out.stake("INV-11")
    span = 3 * v.window_ns(c)
    t = first + span
    while t <= end:
        if _below_all_along(v, c, t - span, t):
            limit = t + 25 * MINUTE + _excused(v, c, t - span, end)
            if end > limit:
                rate, floor = v.mean_potential(c, t - span, t), v.min_rate(c, t)
                text = f"kept at a true {rate:.1f}/h, below 0.97 x min_rate {floor:g}, for more than 3 windows"
                out.add("INV-11", limit, c, text)
            return
        t += 10 * MINUTE


def _below_all_along(v: View, c: ContractTruth, start: int, end: int) -> bool:
    """Busy and heard for the whole of [start, end], at one size, and truly below 0.97 x min_rate in each third of it.

    Another size is tried before a rate condemns, and has its own windows; more than three tries are none."""
    span, floor = end - start, 0.97 * v.min_rate(c, end)
    heard = c.agent_reachable.total(start, end) if c.agent_reachable.spans else span
    if c.busy.total(start, end) < 0.97 * span or heard < 0.9 * span:
        return False
    begun = c.marks.get("active", [])
    if len(begun) <= SIZES_TRIED and any(start < t < end for t in begun):
        return False
    thirds = [(start + k * span // 3, start + (k + 1) * span // 3) for k in range(3)]
    return all(v.mean_potential(c, a, b) < floor for a, b in thirds)
