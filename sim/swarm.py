"""Whole worlds from a seed: machines with hidden truths, a policy, an operator and a schedule of faults (contracts.md
section 2). ``draw(seed)`` is data like any scenario file: it can be stored, edited, shrunk and run again.

Each part has a stream of its own (``swarm:machines``, ``swarm:market`` …), so that tuning one family of faults moves no
other. Faults cluster around a few outages instead of falling evenly over the run. Out of scope: prices that follow
supply, operators of machines who react to us.
"""

from __future__ import annotations

import math
import random

from proverfleet.domain.policy import Policy
from sim.faults.catalogue import FAMILIES, KINDS
from sim.inventory import draw_machine
from sim.model import best_rate
from sim.spec import DeploySpec, FaultSpec, MachineSpec, Scenario
from sim.streams import Streams
from sim.swarm_faults import EARLY, FAMILY_ON, HOW_LONG, MARKS_OF, NATURES, PARAMETERS, WAITS, WEIGHTS

HOURS = (6.0, 9.0)
TARGET = (2, 8)
DEPLOYS = (0, 4)
NEAR_SHARE = 1 / 3  # of the machines: true rate within +-15 % of min_rate
SHARED_SHARE = 0.2
BAD_SHARE = 0.12  # not what the offer says: no card, another card, half the memory
KNOWN_SHARE = 0.3
NATURE_SHARE = 0.25  # of the faults that may be a machine's nature: on for ever
REPEATED_SHARE = 0.12  # of the faults that last: they come back
SPARE_GOOD = 3  # machines beyond the target on which a rental can succeed, so that the world can recover


def draw(seed: int) -> Scenario:
    """The world of this seed: at least 6 h, every number drawn, nothing left random."""
    streams = Streams(seed)
    stream = streams.fresh("swarm:world")
    scenario = Scenario(name=f"swarm-{seed}", about=f"the swarm's world of seed {seed}")
    scenario.hours = round(stream.uniform(*HOURS), 2)
    scenario.target = stream.randint(*TARGET)
    scenario.credit_usd = float(stream.choice((150, 300, 600)))
    scenario.policy = _policy(streams.fresh("swarm:policy"))
    deploys = stream.randint(*DEPLOYS) if scenario.target > 2 else stream.randint(1, DEPLOYS[1])
    scenario.machines = _machines(streams.fresh("swarm:machines"), scenario, deploys)
    scenario.deploy = _deploys(streams.fresh("swarm:deploy"), scenario, deploys)
    scenario.target += len(scenario.deploy)
    _caps(streams.fresh("swarm:caps"), scenario)
    outages = sorted(round(stream.uniform(0.1, scenario.hours) * 3600) for _ in range(stream.randint(1, 4)))
    for family in FAMILIES:
        family_stream = streams.fresh(f"swarm:{family}")
        if family_stream.random() < FAMILY_ON[family]:
            scenario.faults += _faults(family_stream, family, scenario, outages)
    for index, fault in enumerate(scenario.faults):
        fault.index = index
    return scenario


# ---------------------------------------------------------------- machines


def _machines(stream: random.Random, scenario: Scenario, deploys: int) -> list[MachineSpec]:
    """About twice as many as the fleet wants, a few of them surely good enough for the world to recover."""
    good = scenario.target + deploys + SPARE_GOOD
    count = 2 * good + stream.randint(0, 6)
    near = round(count * NEAR_SHARE)
    target_usd = float(scenario.policy.get("target_usd_per_proof", Policy().target_usd_per_proof))
    host, out = 500, []
    for i in range(count):
        if i == 0 or stream.random() < 0.6:
            host += 1
        machine = draw_machine(stream, 10_000 + 7 * i, host)
        factor = _factor(stream, "good" if i < good else "near" if i < good + near else "any")
        if i < good:
            machine.inet_down_mbps = max(machine.inet_down_mbps, 400.0)
            machine.ram_gib = max(machine.ram_gib, 256.0)
        elif stream.random() < 2 * SHARED_SHARE:
            machine.gpu_frac, machine.gpus = stream.choice((0.25, 0.5)), 1
        _price(machine, factor, target_usd)
        if stream.random() < KNOWN_SHARE:
            machine.known_rate_proofs_per_hour = round(best_rate(machine) * stream.uniform(0.92, 1.08), 1)
        if i >= good and stream.random() < 2 * BAD_SHARE:
            _make_odd(stream, machine)
        out.append(machine)
    stream.shuffle(out)
    return out


def _factor(stream: random.Random, sort: str) -> float:
    """True rate over min_rate, 0.5 … 2: near the threshold (+-15 %), well above it, or well away on either side."""
    if sort == "near":
        return stream.uniform(0.85, 1.15)
    if sort == "good" or stream.random() < 0.3:
        return stream.uniform(1.2, 2.0)
    return stream.uniform(0.5, 0.85)


def _price(machine: MachineSpec, factor: float, target_usd: float) -> None:
    """The price that puts what the hardware reaches at ``factor`` times what the price asks for. The rate is the
    model's own: a pinned one could be out of the hardware's reach."""
    rate = best_rate(machine)
    machine.price_usd_per_hour = round(max(0.02, rate / factor * target_usd), 3)
    machine.min_bid_usd_per_hour = round(machine.price_usd_per_hour / 2, 3)


def _make_odd(stream: random.Random, machine: MachineSpec) -> None:
    """Priced as it was offered, and then it is something else."""
    what = stream.choice(("no card", "other card", "half the memory", "old daemon", "wrong size first"))
    if what == "no card":
        machine.gpu_actual = []
    elif what == "other card":
        machine.gpu_actual = ["GTX 1660"] * machine.gpus
    elif what == "half the memory":
        machine.cgroup_gib = machine.ram_gib / 2
    elif what == "old daemon":
        machine.daemon = "old"
    else:
        machine.first_sizing = {"partition_workers": 18, "concurrency": 3}


# ---------------------------------------------------------------- policy and operator

_POLICY: dict[str, tuple[float, float, int]] = {  # field -> (least, most, decimals)
    "target_usd_per_proof": (0.006, 0.012, 4),
    "price_margin": (0.02, 0.1, 3),
    "beat_s": (30, 90, 0),
    "report_s": (15, 60, 0),
    "stall_loading_s": (480, 900, 0),
    "stall_params_s": (480, 1200, 0),
    "stall_benchmark_s": (1500, 2700, 0),
    "stall_active_s": (1500, 2700, 0),
    "silence_s": (1200, 3000, 0),
    "rate_window_s": (3000, 5400, 0),
    "oom_retries": (1, 3, 0),
    "crash_retries": (0, 2, 0),
    "setup_cap_usd": (1.5, 4.0, 2),
    "lease_idle_s": (1500, 3600, 0),
    "creates_per_beat": (1, 3, 0),
}
POLICY_SHARE = 0.2  # each field is moved off its default in this share of the worlds


def _policy(stream: random.Random) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, (lo, hi, decimals) in _POLICY.items():
        moved, value = stream.random() < POLICY_SHARE, stream.uniform(lo, hi)
        if moved:
            out[name] = round(value, decimals) if decimals else round(value)
    return out


def _caps(stream: random.Random, scenario: Scenario) -> None:
    """Now and then a money cap: above what the target needs, or a little below it."""
    dearest = sorted(m.price_usd_per_hour for m in scenario.machines)[: scenario.target]
    need = sum(dearest)
    if stream.random() < 0.12:
        scenario.policy["cap_usd_per_hour"] = round(need * stream.uniform(0.8, 1.6), 3)
    elif stream.random() < 0.08:
        scenario.policy["cap_usd_per_day"] = round(need * scenario.hours * stream.uniform(0.8, 1.6), 2)


def _deploys(stream: random.Random, scenario: Scenario, count: int) -> list[DeploySpec]:
    chosen = stream.sample([m.id for m in scenario.machines], min(count, len(scenario.machines)))
    by_id = {m.id: m for m in scenario.machines}
    out = []
    for machine in chosen:
        deploy = DeploySpec(machine, float(60 * stream.randint(0, int(scenario.hours * 20))))
        if stream.random() < 0.3:
            floor = scenario.min_rate_for(by_id[machine].price_usd_per_hour, None)
            deploy.min_rate = float(round(floor * stream.uniform(0.7, 1.1)))
        out.append(deploy)
    return out


# ---------------------------------------------------------------- faults


def _faults(stream: random.Random, family: str, scenario: Scenario, outages: list[int]) -> list[FaultSpec]:
    kinds = [k.name for k in FAMILIES[family] if WEIGHTS.get(k.name, 0) > 0]
    if not kinds:
        return []
    weights = [WEIGHTS[k] for k in kinds]
    count = stream.choice((1, 1, 2, 2, 3))
    return [_fault(stream, kind, scenario, outages) for kind in stream.choices(kinds, weights, k=count)]


def _fault(stream: random.Random, name: str, scenario: Scenario, outages: list[int]) -> FaultSpec:
    kind = KINDS[name]
    fault = FaultSpec(kind=name, times=kind.times, for_s=kind.for_s)
    if stream.random() < 0.6:  # several things break in the same quarter of an hour
        fault.at_s = float(max(0, stream.choice(outages) + stream.randint(-300, 600)))
    else:
        fault.at_s = float(stream.randint(0, int(scenario.hours * 3600) - 600))
    marks = MARKS_OF.get(name) or MARKS_OF.get(kind.family, ())
    if marks and stream.random() < (1.0 if kind.moment else 0.6):
        after = (0,) if kind.per_call else (0, 5, 60, 300, 620, 1200, 2400)  # a call comes with its mark
        fault.mark, fault.at_s = stream.choice(marks), float(stream.choice(after))
    elif name in EARLY:
        fault.at_s = float(stream.choice((0, 0, 0, 0, stream.choice(outages))))
    if not kind.moment:
        fault.for_s = _how_long(stream, name)
        if stream.random() < REPEATED_SHARE:
            fault.every_s = float(round((fault.for_s or 0.0) + stream.uniform(1800, 7200)))
    fault.machines = _scope(stream, name, scenario)
    if name in NATURES and stream.random() < NATURE_SHARE:  # not an episode: the machine is like that
        fault.always, fault.mark, fault.at_s, fault.every_s, fault.for_s = True, "", 0.0, None, kind.for_s
        fault.machines = (fault.machines or [])[: max(1, len(scenario.machines) // 6)]
    fault.params = {**kind.defaults(), **(PARAMETERS[name](stream, scenario) if name in PARAMETERS else {})}
    if kind.per_call and kind.times is not None:
        fault.times = stream.choice((1, 1, 2))
    return fault


def _how_long(stream: random.Random, name: str) -> float | None:
    """Around the kind's own duration (x 0.5 … 2), never into the next day; None stays the run for natures only."""
    longest = HOW_LONG.get(name, 4 * 3600)
    own = KINDS[name].for_s
    if own is None or name in WAITS:
        return float(60 * stream.randint(10, max(11, longest // 60)))
    return float(round(min(longest, own * math.exp(stream.uniform(math.log(0.5), math.log(2.0))))))


def _scope(stream: random.Random, name: str, scenario: Scenario) -> list[int] | None:
    """Machines that a fault is about; None: all of them, or none in particular."""
    family = name.split(".")[0]
    ids = [m.id for m in scenario.machines]
    if name in ("operator.kill", "operator.blacklist", "operator.wrong_id"):
        return [stream.choice([d.machine for d in scenario.deploy] or ids)]
    if family in ("host", "prover"):
        return sorted(stream.sample(ids, max(1, len(ids) // stream.choice((2, 3, 4)))))
    if family in ("tunnel", "agent", "params") and stream.random() < 0.7:
        return sorted(stream.sample(ids, max(1, len(ids) // stream.choice((1, 2, 3)))))
    if name in ("market.outbid", "market.price_change", "market.row_poison", "market.status", "market.get_null",
                "work.rejected"):
        return sorted(stream.sample(ids, max(1, len(ids) // stream.choice((2, 3)))))
    return None
