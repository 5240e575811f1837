"""The ``--json`` object of a run (contracts.md section 2), and what the run means: verdict and exit code.

Rentals, blacklist and history are what the controller *reports* (its folded view). Contracts, calls, marks, faults,
work and money are the world's own. Times are s since the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.lifecycle import VERDICTS, rank
from sim.expect import INVARIANTS, failures
from sim.run import RunResult
from sim.truth import NS, STAGES, ContractTruth, Truth

OPS = ("search", "create", "list", "get", "destroy", "label", "start", "stop", "logs", "user")
TIMED_OPS = ("create", "destroy")

OK, VIOLATED, NOT_LIVE = "ok", "violated", "not_live"
EXIT = {OK: 0, VIOLATED: 1, NOT_LIVE: 3}


def build(run: RunResult, policy_name: str | None = None) -> dict[str, Any]:
    """The whole object. ``policy_name``: what ``--policy`` said; else the scenario's own rules."""
    truth, clock = run.truth, WallClock(run)
    killed = _killed(truth)
    rentals = _rentals(run, clock, killed)
    out: dict[str, Any] = {
        "scenario": run.scenario.name,
        "seed": run.seed,
        "adapter": run.adapter,
        "policy": policy_name or run.scenario.rules,
        "simulated_s": round(run.simulated_s, 3),
        "wall_s": round(run.wall_s, 3),
        "cpu_s": round(run.cpu_s, 3),
        "speed": round(run.speed, 1),
        "events": run.events,
        "journal_sha256": run.journal_sha256,
        "verdict": OK,
        "violations": _violations(run),
        "failed_checks": [],
        "at_stake": {**dict.fromkeys(INVARIANTS, 0), **run.verdict.at_stake},
        "live": run.verdict.live,
        "rentals": rentals,
        "kills": _kills(run, killed),
        "blacklist": _blacklist(run.fleet, clock),
        "history": _history(run.fleet, clock),
        "money": _money(run),
        "faults": {**{f.kind: 0 for f in run.scenario.faults}, **run.faults},
        "fired": [{"kind": f.kind, "machine_id": f.machine_id, "from_s": _s(f.start), "until_s": _s(f.end)}
                  for f in truth.fired],
        "marks": _marks(truth),
        "alerts": [{"name": e["name"], "at_s": _s(t), "machine_id": e.get("machine_id"), "text": e.get("text", "")}
                   for t, e in run.kept if e["kind"] == "alerted" and e.get("on", True)],
        "brakes": _brakes(run),
        "contracts": _contracts(truth),
        "calls": _calls(truth),
        "work": _work(truth),
        "controller": {"starts": truth.controller_starts, "exits": truth.controller_exits, "beats": run.beats,
                       "beats_failed": run.beats_failed, "beat_max_s": round(run.beat_max_s, 3)},
        "errors": [{"at_s": _s(t), "who": who, "text": text.strip().splitlines()[-1] if text.strip() else ""}
                   for t, who, text in run.errors],
    }
    out["failed_checks"] = failures(run.scenario.expect, out) + [
        f"{e['who']} ended by an error at {e['at_s']:.0f} s: {e['text']}" for e in out["errors"]]
    out["verdict"] = verdict(run, out)
    return out


def verdict(run: RunResult, result: Mapping[str, Any]) -> str:
    """``ok`` when everything held: every invariant that was not expected to break, every expectation, and LIVE-1.

    A scenario that expects violations is a negative test: it holds when they appear, whatever else does."""
    expected = run.scenario.expect.violations
    broken = [v["invariant"] for v in result["violations"] if v["invariant"] != "LIVE-1"]
    if result["failed_checks"] or (broken and not expected):
        return VIOLATED
    if run.verdict.live == "not_live" and not expected:
        return NOT_LIVE
    return OK


def _s(ns: int | None) -> float | None:
    return None if ns is None else round(ns / NS, 3)


# ---------------------------------------------------------------- clocks


@dataclass(frozen=True, slots=True)
class _Stretch:
    start: int
    end: int
    offset: int


class WallClock:
    """Turns the controller's wall-clock labels back into s of the run: its clock may have been stepped by a fault.

    After a step back a label may mean two moments; ``after`` (s) tells which, by what is known to have come before."""

    def __init__(self, run: RunResult) -> None:
        self._start = run.truth.start_wall_ns
        self._stretches: list[_Stretch] = []
        start, offset = 0, 0
        by_index = {f.index: f for f in run.scenario.faults}
        for fired in run.truth.fired:
            if fired.kind == "controller.clock_step":
                self._stretches.append(_Stretch(start, fired.start, offset))
                start, offset = fired.start, offset + int(float(by_index[fired.index].params["by_s"]) * NS)
        self._stretches.append(_Stretch(start, run.truth.end, offset))

    def s(self, wall_ns: int | None, after: float | None = None) -> float | None:
        """s since the start; None stays None."""
        if wall_ns is None:
            return None
        least = 0 if after is None else int((after - 1) * NS)
        for stretch in self._stretches:
            t = wall_ns - self._start - stretch.offset
            if max(stretch.start, least) <= t <= stretch.end:
                return _s(t)
        return _s(wall_ns - self._start - self._stretches[-1].offset)


# ---------------------------------------------------------------- rentals


def _killed(truth: Truth) -> list[int]:
    """Contracts of ours that existed when our first destroy call for them left."""
    first: dict[int, int] = {}
    for call in truth.calls:
        if call.op == "destroy" and call.contract_id is not None:
            first.setdefault(call.contract_id, call.sent)
    out = []
    for contract_id, sent in first.items():
        c = truth.contracts.get(contract_id)
        if c is not None and c.ours and (c.gone is None or c.gone >= sent):
            out.append(contract_id)
    return out


def _rentals(run: RunResult, clock: WallClock, killed: list[int]) -> list[dict[str, Any]]:
    if run.fleet is None:
        return []
    decided = {e["intent"]: t for t, e in reversed(run.kept) if e["kind"] == "end"}
    sent: dict[str, int] = {}
    for call in run.truth.calls:
        if call.op == "create" and call.label is not None:
            sent.setdefault(call.label.rpartition(".")[2], call.sent)
    return [_rental(r, run, clock, killed, decided.get(str(r.intent)), sent.get(str(r.intent)))
            for r in run.fleet.rentals.values()]


def _rental(r: Rental, run: RunResult, clock: WallClock, killed: list[int], decided: int | None,
            sent: int | None) -> dict[str, Any]:
    last = r.last
    truth = run.truth.contracts.get(int(r.contract_id)) if r.contract_id is not None else None
    created = _s(sent) if sent is not None else clock.s(r.stage_wall_ns.get("requested"))
    stages, after = {}, created
    for stage, wall in r.stage_wall_ns.items():
        stages[stage] = after = created if stage == "requested" else clock.s(wall, after)
    ended = _s(decided) if decided is not None else clock.s(r.decided_wall_ns, created)
    reached = max((rank(s) for s in r.stage_wall_ns if s not in ("destroying", "gone")), default=0)
    return {
        "intent": str(r.intent),
        "contract_id": r.contract_id,
        "machine_id": r.machine_id,
        "host_id": r.host_id,
        "gpu": f"{r.num_gpus}x {r.gpu_name}",
        "stage": r.stage,
        "verdict": r.verdict or None,
        "cause": r.cause or None,
        "reason": r.reason,
        "rate_proofs_per_hour": None if r.rate_proofs_per_hour is None else round(r.rate_proofs_per_hour, 2),
        "min_rate_proofs_per_hour": r.min_rate,
        "min_rate_from": r.min_rate_from,
        "attempts": last.attempt + 1 if last is not None and reached >= rank("benchmark") else 0,
        "proofs": last.proofs_accepted if last is not None else 0,
        "cost_usd": round(truth.paid_usd, 4) if truth is not None else 0.0,
        "created_s": created,
        "decided_s": ended,
        "ended_s": clock.s(r.ended_wall_ns, ended),
        "stages_s": stages,
        "observed_s": {stage: round(ns / NS, 3) for stage, ns in r.observed_ns.items()},
        "restarts": {
            "agent": last.restarts_agent if last is not None else 0,
            "prover": last.restarts_prover if last is not None else 0,
            "container": last.restarts_container if last is not None else 0,
        },
        "longest_silence_s": _silence(truth, run.truth),
        "kills": int(r.contract_id in killed),
    }


def _silence(c: ContractTruth | None, truth: Truth) -> float:
    """The longest time, s, from its registration to its end, in which no report of its agent could arrive."""
    if c is None or not c.marks.get("registered"):
        return 0.0
    end = c.gone if c.gone is not None else truth.end
    for times in (c.marks.get("destroying"), c.marks.get("gone")):
        end = min(end, times[0]) if times else end
    t, longest = c.marks["registered"][0], 0
    for a, b in c.agent_reachable.spans:
        if a is not None and a > t:
            longest = max(longest, min(a, end) - t)
        t = max(t, end if b is None else b)
    return round(max(longest, end - t, 0) / NS, 3)


def _kills(run: RunResult, killed: list[int]) -> dict[str, Any]:
    by_verdict = dict.fromkeys(VERDICTS, 0)
    named = _verdicts(run)
    for contract_id in killed:
        name = named.get(contract_id, "duplicate")
        by_verdict[name] = by_verdict.get(name, 0) + 1
    wrong = {v.contract_id for v in run.verdict.violations if v.invariant == "INV-1"}
    return {"total": len(killed), "wrong": len(wrong), "by_verdict": by_verdict}


def _verdicts(run: RunResult) -> dict[int, str]:
    """Why each contract was ended: its rental's verdict, or that of a contract that was no rental's."""
    out = {int(e["contract_id"]): str(e["verdict"]) for _, e in run.kept if e["kind"] == "extra"}
    if run.fleet is not None:
        for r in run.fleet.rentals.values():
            if r.contract_id is not None and r.verdict:
                out.setdefault(int(r.contract_id), r.verdict)
    return out


# ---------------------------------------------------------------- the rest


def _violations(run: RunResult) -> list[dict[str, Any]]:
    out = [{"invariant": v.invariant, "at_s": _s(v.at), "machine_id": v.machine_id, "contract_id": v.contract_id,
            "text": v.text} for v in run.verdict.violations]
    if run.verdict.live == "not_live":
        out.append({"invariant": "LIVE-1", "at_s": _s(run.truth.end), "machine_id": None, "contract_id": None,
                    "text": run.verdict.live_text})
    return out


def _blacklist(fleet: Fleet | None, clock: WallClock) -> list[dict[str, Any]]:
    entries = fleet.blacklist.values() if fleet is not None else ()
    return [{"machine_id": e.machine_id, "reason": e.reason, "until_s": clock.s(e.until_wall_ns)} for e in entries]


def _history(fleet: Fleet | None, clock: WallClock) -> list[dict[str, Any]]:
    rows = [m for measured in fleet.measured.values() for m in measured] if fleet is not None else []
    rows.sort(key=lambda m: (m.wall_ns, m.machine_id))
    return [{"machine_id": m.machine_id, "rate_proofs_per_hour": round(m.rate_proofs_per_hour, 2),
             "at_s": clock.s(m.wall_ns)} for m in rows]


def _money(run: RunResult) -> dict[str, Any]:
    m = run.verdict.money
    return {name: None if value is None else round(value, 5) for name, value in (
        ("spent_usd", m.spent_usd), ("leaked_usd", m.leaked_usd), ("wasted_usd", m.wasted_usd),
        ("usd_per_proof", m.usd_per_proof), ("best_usd_per_proof", m.best_usd_per_proof))}


def _marks(truth: Truth) -> dict[str, int]:
    """How often each stage mark was reached by contracts of ours; ``requested``: create calls that left."""
    out = dict.fromkeys(STAGES, 0)
    for c in truth.contracts.values():
        if c.ours:
            for name, times in c.marks.items():
                out[name] = out.get(name, 0) + len(times)
    out["requested"] = sum(call.op == "create" for call in truth.calls)
    return out


def _brakes(run: RunResult) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    on: dict[tuple[str, str], dict[str, Any]] = {}
    for t, event in run.kept:
        if event["kind"] != "braked":
            continue
        key = (event["name"], event.get("key", ""))
        if event["on"] and key not in on:
            on[key] = {"name": event["name"], "from_s": _s(t), "until_s": None, "reason": event.get("reason", "")}
            out.append(on[key])
        elif not event["on"] and key in on:
            on.pop(key)["until_s"] = _s(t)
    return out


def _contracts(truth: Truth) -> dict[str, Any]:
    """``most_at_once`` counts ours alone."""
    steps = sorted([*((c.created, 1) for c in truth.contracts.values() if c.ours),
                    *((c.gone, -1) for c in truth.contracts.values() if c.ours and c.gone is not None)])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return {"most_at_once": most, "list": [
        {"contract_id": c.contract_id, "machine_id": c.machine_id, "ours": c.ours, "created_s": _s(c.created),
         "gone_s": _s(c.gone), "paid_usd": round(c.paid_usd, 5)} for c in truth.contracts.values()]}


def _calls(truth: Truth) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for op in OPS:
        out[op] = {"sent": 0, "ok": 0, "failed": 0}
        if op in TIMED_OPS:
            out[op]["at_s"] = []
    for call in truth.calls:
        row = out.setdefault(call.op, {"sent": 0, "ok": 0, "failed": 0})
        row["sent"] += 1
        row["failed" if call.failed else "ok"] += 1
        if call.op in TIMED_OPS:
            row["at_s"].append(_s(call.sent))
    return out


def _work(truth: Truth) -> dict[str, int]:
    ours = [c for c in truth.contracts.values() if c.ours]
    return {"accepted": sum(len(c.accepted) for c in ours), "rejected": sum(len(c.rejected) for c in ours),
            "lost": sum(c.lost_proofs for c in ours)}
