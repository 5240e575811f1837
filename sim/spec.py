"""A scenario as data: what a file says after parsing, and what the swarm draws. All times in s, ids as ints.

Everything random is drawn from the seed *before* the run (``resolve`` in scenario.py), so that a schedule can be
stored, edited, shrunk and replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class MachineSpec:
    """One machine with its hidden truth. ``rate_proofs_per_hour`` pins what the prover reaches at its best size that
    fits; None: the model computes it. Optional model parameters: reference/cuzk-model.md section 5."""

    id: int
    host: int
    gpu: str = "RTX 4090"
    gpus: int = 1
    gpu_actual: list[str] | None = None
    gpu_ram_mb: int = 24_564
    gpu_frac: float = 1.0
    cpu_name: str = "AMD EPYC 7543"
    place: str = ""  # where its operator says it stands; no decision reads it
    cpu_cores: float = 64.0
    ram_gib: float = 504.0
    cgroup_gib: float | None = None  # None: like ram_gib; "max" in a file: float("inf")
    disk_gb: float = 2000.0
    disk_mb_per_s: float = 1500.0
    inet_down_mbps: float = 1000.0
    inet_up_mbps: float = 500.0
    pcie_gb_per_s: float = 24.0
    reliability: float = 0.995
    price_usd_per_hour: float = 0.30
    min_bid_usd_per_hour: float | None = None
    rate_proofs_per_hour: float | None = None
    cpu_factor: float = 1.3
    contention: float = 0.06
    gpu_s_per_partition: float = 3.75
    warm_up_s: float | None = None  # pins the first (cold) warm-up proof, start of daemon to proof
    first_sizing: dict[str, int] | None = None  # {"partition_workers": 16, "concurrency": 3}
    known_rate_proofs_per_hour: float | None = None
    image_pull_s: float = 300.0
    daemon: str = "current"
    noise: float = 0.04
    works: bool = True  # False: the prover never finishes a proof (a machine that cannot prove)


@dataclass(slots=True)
class FaultSpec:
    """One fault. ``at_s`` is absolute when ``mark`` is "", else an offset after that stage mark.

    ``machines`` None: every machine. ``for_s`` None: the kind's own default or "the run"; ``always``: stays on in the
    liveness phase (host. and prover. only). ``params`` are the kind's own, all present (defaults filled in)."""

    kind: str
    mark: str = ""
    at_s: float = 0.0
    for_s: float | None = None
    always: bool = False
    times: int | None = None
    every_s: float | None = None
    machines: list[int] | None = None
    params: dict[str, Any] = field(default_factory=dict)
    index: int = 0


@dataclass(slots=True)
class DeploySpec:
    machine: int
    at_s: float = 0.0
    min_rate: float | None = None
    disk_gb: float | None = None
    bid_usd_per_hour: float | None = None


@dataclass(slots=True)
class ExpectRental:
    machine: int
    ends: list[str] | None = None
    kills: int | None = None


@dataclass(slots=True)
class Expect:
    violations: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    rentals: list[ExpectRental] = field(default_factory=list)


@dataclass(slots=True)
class Scenario:
    name: str
    about: str = ""
    source: list[str] = field(default_factory=list)
    hours: float = 6.0
    policy: dict[str, Any] = field(default_factory=dict)  # without "rules"
    rules: str = "default"  # or "legacy"
    legacy: dict[str, float] = field(default_factory=dict)  # limits of the old manager (sim/legacy/rules.py Limits)
    target: int = 0
    deploy: list[DeploySpec] = field(default_factory=list)
    random_machines: int = 0
    credit_usd: float = 100.0
    machines: list[MachineSpec] = field(default_factory=list)
    faults: list[FaultSpec] = field(default_factory=list)
    expect: Expect = field(default_factory=Expect)
    path: str = field(default="", repr=False, compare=False)  # where it was read; the same world wherever it lies

    def min_rate_for(self, price_usd_per_hour: float, explicit: float | None) -> float:
        """INV-1's own threshold: the deployment's explicit number, else the policy's explicit one, else
        ``ceil(price / target)``, from the scenario alone."""
        import math

        if explicit is not None:
            return explicit
        own = self.policy.get("min_rate_proofs_per_hour")
        if own is not None:
            return float(own)
        return float(math.ceil(price_usd_per_hour / float(self.policy.get("target_usd_per_proof", 0.008)) - 1e-9))
