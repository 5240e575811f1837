"""INV-2 (no leak), INV-4 (one contract per intent), INV-6 (scope), INV-13 (no over-renting): who is paid for what."""

from __future__ import annotations

from itertools import pairwise

from sim.oracle.view import MINUTE, Findings, View, mark_at
from sim.truth import NS, ContractTruth

GRACE = 10 * MINUTE


def check_books(v: View, out: Findings) -> None:
    _leaks(v, out)
    _one_per_intent(v, out)
    _scope(v, out)
    _over_renting(v, out)


def unaccounted(v: View, c: ContractTruth) -> list[tuple[int, int]]:
    """Spans in which this paid contract was in nobody's books, from the reply's own time on (a call takes a while)."""
    end = c.gone if c.gone is not None else v.now
    spans, t = [], c.created
    for a, b in c.accounted.spans:
        assert a is not None
        if a > t:
            spans.append((t, min(a, end)))
        t = max(t, b if b is not None else end)
    if t < end:
        spans.append((t, end))
    return [(a, b) for a, b in spans if b > a]


def _leaks(v: View, out: Findings) -> None:
    excuses = [f for f in v.truth.fired if f.kind.startswith(("market.", "controller.", "host.offline"))]
    for c in v.ours:
        out.stake("INV-2")
        for a, b in unaccounted(v, c):
            clear = a
            for f in sorted(excuses, key=lambda f: f.start):
                if f.start <= clear + GRACE and (f.end is None or f.end > clear):
                    clear = min(b, f.end if f.end is not None else v.now)
            down = b - a - v.truth.controller_hears.total(a, b)
            if b - clear > GRACE + down + 2 * MINUTE:
                out.add("INV-2", a, c, f"paid for {(b - a) / MINUTE / 1.0:.0f} min without a rental or a pending "
                        f"destroy, {(b - clear) / MINUTE:.0f} min of it after the last fault cleared")
        _forgotten_destroy(v, c, out)


def _forgotten_destroy(v: View, c: ContractTruth, out: Findings) -> None:
    """A destroy that did not work must be repeated: no more than 10 min of hearing time between tries."""
    calls = v.destroys.get(c.contract_id)
    if not calls:
        return
    end = c.gone if c.gone is not None else v.now
    times = [call.sent for call in calls if call.sent < end] + [end]
    for a, b in pairwise(times):
        if v.truth.controller_hears.total(a, b) > GRACE + 2 * MINUTE and not _asleep(v, c, a, b):
            out.add("INV-2", a, c, f"a destroy that had not worked was not repeated for {(b - a) / MINUTE:.0f} min")
            return


def _asleep(v: View, c: ContractTruth, a: int, b: int) -> bool:
    """The host was offline (the market cannot act), or the market said done and was only slow."""
    return c.host_offline.total(a, b) > 0 or bool(v.fired("controller.db_", a, b))


def _one_per_intent(v: View, out: Findings) -> None:
    creates: dict[str, list[int]] = {}
    for call in v.truth.calls:
        if call.op == "create" and call.label:
            out.stake("INV-4")
            creates.setdefault(call.label, []).append(call.sent)
    for label, times in creates.items():
        if len(times) > 1:
            c = next((c for c in v.ours if c.label == label), None)
            later = (times[1] - times[0]) / NS
            out.add("INV-4", times[1], c, f"a second create call for {label} {later:.0f} s after the first")
    by_intent: dict[str, list[ContractTruth]] = {}
    for c in v.ours:
        if c.intent:
            by_intent.setdefault(c.intent, []).append(c)
    for intent, contracts in by_intent.items():
        contracts.sort(key=lambda c: c.created)
        for first, second in pairwise(contracts):
            end = min(x.gone if x.gone is not None else v.now for x in (first, second))
            both = end - second.created
            excused = both - v.truth.controller_hears.total(second.created, end)
            refusing = sum((f.end or v.now) - f.start for f in v.fired("market.", second.created, end))
            if both > GRACE + excused + refusing:
                text = f"two contracts of intent {intent} for {both / MINUTE:.0f} min"
                out.add("INV-4", second.created, second, text)


def _scope(v: View, out: Findings) -> None:
    for call in v.truth.calls:
        if call.op in ("destroy", "start", "stop", "label") and call.contract_id is not None:
            out.stake("INV-6")
            c = v.truth.contracts.get(call.contract_id)
            if c is not None and not c.ours:
                out.add("INV-6", call.sent, c, f"{call.op} sent for a contract that is not ours (label {c.label!r})")


def _over_renting(v: View, out: Findings) -> None:
    """Looked at 2 min after each create: by then its reply is booked, or the contract is in doubt."""
    for moment in sorted({c.created for c in v.ours}):
        t = moment + 2 * MINUTE
        alive = [c for c in v.ours if c.created <= t and (c.gone is None or c.gone > t)]
        if not alive or t > v.now:
            continue
        out.stake("INV-13")
        allowed = _wanted(v, t) + sum(_does_not_count(v, c, t) for c in alive)
        if len(alive) > allowed:
            newest = max(alive, key=lambda c: (c.created, c.contract_id))
            out.add("INV-13", t, newest, f"{len(alive)} contracts paid at once, {allowed:g} allowed")


def _wanted(v: View, t: int) -> float:
    """What the operator wants (the higher number while a change is younger than 3 min); a deploy order that comes on
    top of a full target is one more until the surplus has drained (at most 15 min, and two beats)."""
    wanted = max(v.wanted(t), v.wanted(max(0, t - 3 * MINUTE)))
    if v.scenario.target:
        ordered = {d.machine for d in v.scenario.deploy if d.at_s * NS <= t}
        wanted += sum(1 for c in v.ours if c.machine_id in ordered and t - 30 * MINUTE <= c.created <= t)
    return wanted


def _does_not_count(v: View, c: ContractTruth, t: int) -> bool:
    """Draining or ending, in doubt, suspect, or overdue in loading (a spare is allowed for it)."""
    if any(call.sent <= t for call in v.destroys.get(c.contract_id, ())):
        return True
    drained, registered = mark_at(c, "draining"), mark_at(c, "registered")
    late = (registered is None or registered > t) and (
        t - c.created >= int(v.number("loading_spare_after_s", 1500)) * NS - 3 * MINUTE)
    return (drained is not None and drained <= t) or late or _unbooked(c, t) or _suspect(v, c, t)


def _unbooked(c: ContractTruth, t: int) -> bool:
    """In doubt: a contract whose create call's reply has not been booked."""
    return not any(a is not None and a < t and (b is None or b >= t) for a, b in c.accounted.spans)


def _suspect(v: View, c: ContractTruth, t: int) -> bool:
    """Hidden from listings for an hour while its agent reports; or stopped by the market, or lost with its host."""
    hidden = any(t - f.start >= 55 * MINUTE for f in v.fired_on(c, "market.list", t - 60 * MINUTE, t))
    return hidden or c.market_stopped.last_on(t) == t or c.host_offline.covers(t - 25 * MINUTE, t)
