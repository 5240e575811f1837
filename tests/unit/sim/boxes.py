"""Builders for the tests of hosts: a world with machines and no market, and what those tests do over and over."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from proverfleet.domain.sizing import Sizing
from sim.faults.catalogue import KINDS
from sim.faults.host_faults import host_faults
from sim.faults.params_faults import params_faults
from sim.faults.prover_faults import prover_faults
from sim.host import Container, Host
from sim.params import ParamsSource
from sim.spec import FaultSpec, MachineSpec, Scenario
from sim.truth import NS, ContractTruth
from sim.world import World

MINUTE = 60.0
OPEN: list[World] = []
"""Worlds of the running test; the fixture in conftest.py closes them."""


@dataclass
class Contract:
    contract_id: int
    truth: ContractTruth
    label: str | None = "pf.fleet.intent"
    env: dict[str, str] = field(default_factory=dict)
    disk_gb: float = 250.0
    shown: list[tuple[int, str | None, str | None]] = field(default_factory=list)
    world: Any = None

    def set_status(self, actual: str | None, msg: str | None) -> None:
        self.shown.append((self.world.now_ns(), actual, msg))

    @property
    def status(self) -> str | None:
        return self.shown[-1][1]


class Consumer:
    """The consumer's pool as the hosts see it."""

    def __init__(self) -> None:
        self.waiting = True
        self.refuses = False
        self.delivered: list[tuple[int, bool]] = []

    def available(self, machine_id: int) -> bool:
        return self.waiting

    def deliver(self, contract_id: int, machine_id: int, at_ns: int, valid: bool) -> bool:
        self.delivered.append((at_ns, valid))
        return valid and not self.refuses


def spec_of(**fields: Any) -> MachineSpec:
    return MachineSpec(**{"id": 1, "host": 9, "ram_gib": 504.0, "noise": 0.0, **fields})


def fault(kind: str, index: int = 0, for_s: float | None = None, **params: Any) -> FaultSpec:
    return FaultSpec(kind, for_s=for_s, params={**KINDS[kind].defaults(), **params}, index=index, machines=[1])


class Box:
    """One machine in a world of its own, rented. Times in s."""

    def __init__(self, *, faults: tuple[FaultSpec, ...] = (), seed: int = 1, min_rate: float | None = None,
                 **fields: Any) -> None:
        self.spec = spec_of(**fields)
        self.scenario = Scenario("test", machines=[self.spec], faults=list(faults))
        self.world = World(self.scenario, seed)
        OPEN.append(self.world)
        self.world.loop.at(10**18, lambda: None)  # so that an idle world is not a deadlock
        self.world.start_container = lambda c: self.started.append(self.now_s)
        self.world.stop_container = lambda c, how: self.stopped.append(how)
        self.world.source = ParamsSource(self.world)
        self.world.work = self.work = Consumer()
        self.started: list[float] = []
        self.stopped: list[str] = []
        self.host = self.world.hosts[1] = Host(self.world, self.spec)
        for table in (host_faults(self.world), prover_faults(self.world), params_faults(self.world)):
            self.world.faults.register_all(table)
        self.world.faults.start()

    @property
    def now_s(self) -> float:
        return self.world.now_ns() / NS

    def rent(self, contract_id: int = 5) -> Container:
        """Makes a contract; nothing is waited for."""
        truth = ContractTruth(contract_id, 1, 9, "pf.fleet.intent", True, "intent", 0.296, self.world.now_ns())
        self.world.truth.contracts[contract_id] = truth
        self.contract = Contract(contract_id, truth, world=self.world)
        self.truth = truth
        self.container = self.host.boot(self.contract)
        return self.container

    def ready(self) -> Container:
        """Rents, and skips pull and parameters."""
        container = self.rent()
        container.params.fill()
        while not container.up:
            self.run(10.0)
        return container

    def run(self, seconds: float) -> None:
        self.world.loop.run_until(self.world.now_ns() + round(seconds * NS))

    def to(self, second: float) -> None:
        self.world.loop.run_until(round(second * NS))

    def do(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return self.world.loop.run(coro)

    def status(self) -> Any:
        return self.do(self.container.prover.status())

    def start(self, p: int = 9, concurrency: int = 3) -> None:
        self.do(self.container.prover.start(Sizing(p, concurrency)))

    def loaded(self, p: int = 9, concurrency: int = 3) -> None:
        """A daemon whose SRS is loaded."""
        self.start(p, concurrency)
        while self.status().srs_bytes < 44 << 30:
            self.run(1.0)

    def batch(self, count: int = 12, concurrency: int = 3) -> None:
        self.do(self.container.prover.batch(count, concurrency))

    def switch(self, f: FaultSpec) -> Any:
        """Applies a fault now, as the engine does; returns its undo."""
        return self.world.faults._apply[f.kind](f, 1)
