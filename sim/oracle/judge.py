"""One verdict for one run: every invariant on the world's truth, what was at stake, and whether it is live."""

from __future__ import annotations

from dataclasses import dataclass

from sim.oracle.blame import check_blame
from sim.oracle.books import check_books, unaccounted
from sim.oracle.clairvoyant import best_usd_per_proof
from sim.oracle.kills import check_kills
from sim.oracle.live import Live, live_state
from sim.oracle.pace import check_pace
from sim.oracle.view import HOUR, Findings, View, Violation, view_of
from sim.spec import Scenario
from sim.truth import ContractTruth, Truth

__all__ = ["Money", "Verdict", "Violation", "judge"]

LIES = ("market.list_", "market.status", "market.row_poison", "market.get_null", "market.auth_broken", "market.error",
        "market.hang", "market.rate_limit")
REPEATS = ("agent.duplicate", "agent.reorder", "agent.late", "agent.restart", "market.destroy_fails")
CLOCKS = ("host.clock_", "host.suspend", "controller.suspend", "controller.clock_step", "controller.offline",
          "controller.crash", "controller.restart")


@dataclass(frozen=True, slots=True)
class Money:
    spent_usd: float
    leaked_usd: float
    wasted_usd: float
    usd_per_proof: float | None
    best_usd_per_proof: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``live``: ok | not_live | not_recoverable."""

    violations: tuple[Violation, ...]
    at_stake: dict[str, int]
    live: str
    live_text: str
    money: Money


def judge(truth: Truth, scenario: Scenario, now: int, *, secrets_seen: tuple[str, ...] = ()) -> Verdict:
    """Judges a finished run. ``secrets_seen``: places where a canary secret showed (INV-12), found by the recorder."""
    v = view_of(truth, scenario, now)
    out = Findings()
    check_kills(v, out)
    check_books(v, out)
    check_blame(v, out)
    check_pace(v, out)
    out.stake("INV-12")
    for place in secrets_seen:
        out.add("INV-12", now, None, f"a secret shows in {place}")
    for invariant, families in (("INV-3", LIES), ("INV-5", REPEATS), ("INV-8", CLOCKS)):
        out.stake(invariant, sum(1 for f in truth.fired if f.kind.startswith(families)))
    live = live_state(truth, scenario, now)
    out.stake("LIVE-1")
    violations = sorted(out.violations, key=lambda x: (x.at, x.invariant, x.contract_id or 0))
    return Verdict(tuple(violations), dict(sorted(out.at_stake.items())), _liveness(live, v), live.text, _money(v))


def _liveness(live: Live, v: View) -> str:
    if live.ended and live.reached:
        return "ok"
    if not live.ended:
        return "not_live"
    return "not_live" if live.recoverable else "not_recoverable"


def paid_usd(c: ContractTruth, start: int, end: int) -> float:
    """What was billed for ``c`` within [start, end]."""
    return c.paid.mean(start, end) * (end - start) / HOUR if end > start else 0.0


def _money(v: View) -> Money:
    spent = sum(c.paid_usd for c in v.ours)
    leaked = sum(paid_usd(c, a, b) for c in v.ours for a, b in unaccounted(v, c) if b - a > 60_000_000_000)
    wasted = 0.0
    proofs = 0
    for c in v.ours:
        end = c.gone if c.gone is not None else v.now
        proofs += len(c.proofs) - len(c.rejected)
        if not c.proofs:
            wasted += c.paid_usd
        else:
            last = c.progress.last_on(end)
            wasted += paid_usd(c, last if last is not None else c.created, end)
    per_proof = spent / proofs if proofs > 0 else None
    return Money(spent, leaked, wasted, per_proof, best_usd_per_proof(v))
