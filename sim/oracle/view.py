"""What the checks share: the run as they see it, limits by stage, and who may be excused when."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.spec import DeploySpec, Scenario
from sim.truth import NS, CallTruth, ContractTruth, FiredTruth, Spans, Truth

KNOWABLE_NS = 150 * NS
"""A report, a beat and the network: nobody can know what happened later than this before a call."""

MINUTE = 60 * NS
HOUR = 3600 * NS


@dataclass(frozen=True, slots=True)
class Violation:
    invariant: str
    at: int
    machine_id: int | None
    contract_id: int | None
    text: str


@dataclass(slots=True)
class Findings:
    """Violations found so far, and how often each invariant was really at stake."""

    violations: list[Violation] = field(default_factory=list)
    at_stake: dict[str, int] = field(default_factory=dict)

    def stake(self, invariant: str, times: int = 1) -> None:
        self.at_stake[invariant] = self.at_stake.get(invariant, 0) + times

    def add(self, invariant: str, at: int, c: ContractTruth | None, text: str) -> None:
        self.violations.append(
            Violation(invariant, at, c.machine_id if c else None, c.contract_id if c else None, text))


@dataclass(slots=True)
class View:
    """A finished (or running) run, indexed for the checks."""

    truth: Truth
    scenario: Scenario
    now: int
    ours: list[ContractTruth]
    destroys: dict[int, list[CallTruth]]
    orders: dict[int, DeploySpec]

    def number(self, name: str, default: float) -> float:
        """A number of the policy as the scenario states it; rules.md's default otherwise."""
        value = self.scenario.policy.get(name)
        return float(value) if isinstance(value, int | float) else default

    def min_rate(self, c: ContractTruth, at: int) -> float:
        """INV-1's threshold for this contract: explicit in its deploy order, else from its price then."""
        price = c.price.at(at) or c.price_usd_per_hour
        order = self.orders.get(c.machine_id)
        explicit = order.min_rate if order is not None and c.created >= order.at_s * NS else None
        return self.scenario.min_rate_for(price, explicit)

    def wanted(self, at: int) -> float:
        """Contracts that the operator wants: the target, which deploy orders count towards; the orders alone where the
        scenario has no target (contracts.md section 1)."""
        given = sum(1 for d in self.scenario.deploy if d.at_s * NS <= at)
        return max(self.truth.target.at(at), given) if self.scenario.target else given

    def fired(self, prefix: str, start: int, end: int) -> list[FiredTruth]:
        """Faults whose kind starts with ``prefix`` and that were on at any time in [start, end]."""
        return [f for f in self.truth.fired
                if f.kind.startswith(prefix) and f.start <= end and (f.end is None or f.end >= start)]

    def fired_on(self, c: ContractTruth, prefix: str, start: int, end: int) -> list[FiredTruth]:
        return [f for f in self.fired(prefix, start, end) if f.machine_id in (None, c.machine_id)]

    def mean_potential(self, c: ContractTruth, start: int, end: int) -> float:
        """True mean rate in proofs per busy hour at the best size that fits, over [start, end]."""
        steps = self.truth.potential.get(c.machine_id, c.potential)
        return steps.mean(max(0, start), max(0, end))

    def window_ns(self, c: ContractTruth) -> int:
        shared = any(m.id == c.machine_id and m.gpu_frac < 1 for m in self.scenario.machines)
        name, default = ("rate_window_shared_s", 21600.0) if shared else ("rate_window_s", 3600.0)
        return int(self.number(name, default) * NS)


def view_of(truth: Truth, scenario: Scenario, now: int) -> View:
    ours = sorted((c for c in truth.contracts.values() if c.ours), key=lambda c: (c.created, c.contract_id))
    destroys: dict[int, list[CallTruth]] = {}
    for call in truth.calls:
        if call.op == "destroy" and call.contract_id is not None:
            destroys.setdefault(call.contract_id, []).append(call)
    return View(truth, scenario, now, ours, destroys, {d.machine: d for d in scenario.deploy})


def mark_at(c: ContractTruth, name: str) -> int | None:
    """When this stage mark was first reached; None: never."""
    times = c.marks.get(name)
    return times[0] if times else None


def phase(c: ContractTruth, at: int) -> str:
    """Stage at ``at`` as the rules name it: loading | setup | benchmark | active, by the world's own marks."""
    best, name = -1, "loading"
    for mark, stage in (("registered", "setup"), ("params", "setup"), ("warmup", "benchmark"),
                        ("batch", "benchmark"), ("active", "active"), ("draining", "active")):
        for t in c.marks.get(mark, ()):
            if best <= t <= at:
                best, name = t, stage
    return name


def stall_limit_ns(v: View, c: ContractTruth, at: int) -> int:
    """No unit of work for this long is a stall in the stage of ``at``."""
    stage = phase(c, at)
    if stage == "loading":
        moved = c.progress.last_on(at) is not None
        return int((v.number("stall_loading_s", 600) if moved else 2700) * NS)
    name, default = {"setup": ("stall_params_s", 600.0), "benchmark": ("stall_benchmark_s", 1800.0),
                     "active": ("stall_active_s", 1800.0)}[stage]
    return int(v.number(name, default) * NS)


def outside(spans: Spans, start: int, end: int) -> int:
    """ns of [start, end] that ``spans`` does not cover."""
    return max(0, end - start - spans.total(start, end))
