"""Builders for the tests of market and line: a world with machines, a market, one controller process and no brain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import Any

from boxes import OPEN

from proverfleet.domain.ids import ContractId
from proverfleet.domain.report import Answer, Report
from proverfleet.ports import Created, CreateSpec, Page, Row
from sim.container import Container
from sim.contract import SimContract
from sim.faults.catalogue import KINDS
from sim.faults.host_faults import host_faults
from sim.faults.market_faults import market_faults
from sim.faults.tunnel_faults import tunnel_faults
from sim.faults.work_faults import work_faults
from sim.host import Host
from sim.lines import Darkness, Lines
from sim.market import SimMarket
from sim.params import ParamsSource
from sim.ports.market import DirectMarket
from sim.ports.work import WorkPool
from sim.process import Process
from sim.spec import FaultSpec, MachineSpec, Scenario
from sim.truth import NS, ContractTruth
from sim.world import World

LABEL = "pf.fleet1.intent1"
REPORT = Report(
    rental="intent1", token="t", boot="b", seq=1, backlog=0, mono_ns=0, clock_id="c", stage="hello", attempt=0,  # type: ignore[arg-type]
    p=None, concurrency=None, daemon="current", version="0.1.0", bytes_received=0, bytes_hashed=0, bytes_total=100,
    srs_bytes=0, partitions=0, proofs_accepted=0, proofs_failed=0, busy_s=0.0, starved_s=0.0, restarts_agent=0,
    restarts_prover=0, restarts_container=0,
)


def fault(kind: str, *, at_s: float = 0.0, for_s: float | None = None, times: int | None = None,
          machines: list[int] | None = None, mark: str = "", index: int = 0, **params: Any) -> FaultSpec:
    """A fault as a scenario's reader would make it."""
    known = KINDS[kind]
    return FaultSpec(
        kind, mark, at_s, known.for_s if for_s is None else for_s, times=known.times if times is None else times,
        machines=machines, params={**known.defaults(), **params}, index=index,
    )


class Place:
    """``receive`` keeps what reports arrive in ``got`` as (s, seq). Times in s."""

    def __init__(self, *faults: FaultSpec, machines: int = 1, credit_usd: float = 100.0, seed: int = 1,
                 **spec: Any) -> None:
        for number, one in enumerate(faults):
            one.index = number
        usual: dict[str, Any] = {"price_usd_per_hour": 0.36, "image_pull_s": 120.0, "disk_gb": 1000.0, "noise": 0.0}
        alike = [MachineSpec(1 + i, 100 + i, **{**usual, **spec}) for i in range(machines)]
        self.scenario = Scenario("test", machines=alike, faults=list(faults), credit_usd=credit_usd)
        self.world = world = World(self.scenario, seed)
        OPEN.append(world)
        world.loop.at(10**18, lambda: None)  # so that an idle world is not a deadlock
        world.start_container = self._start
        world.stop_container = self._stop
        world.source = ParamsSource(world)
        world.work = WorkPool(world)
        for one_spec in self.scenario.machines:
            world.hosts[one_spec.id] = Host(world, one_spec)
        self.market = world.market = SimMarket(world)
        world.lines = Lines(world)
        Darkness(world, world.lines)
        self.got: list[tuple[float, int]] = []
        world.receive = self._receive
        self.process = world.controller = Process(world, "controller", world.box("controller"))
        self.port = DirectMarket(world, self.process)
        for table in (host_faults(world), market_faults(world), tunnel_faults(world), work_faults(world)):
            world.faults.register_all(table)
        world.faults.start()
        self.run(0.001)

    # ------------------------------------------------------------ agents, reports

    def _start(self, container: Container) -> None:
        name = f"agent:{container.contract_id}"
        self.world.agents[container.contract_id] = Process(self.world, name, container.host.box)

    def _stop(self, container: Container, how: str) -> None:
        self.world.agents.pop(container.contract_id).crash()

    async def _receive(self, report: Report) -> Answer:
        self.got.append((round(self.now_s, 3), report.seq))
        return Answer()

    # ------------------------------------------------------------ time

    @property
    def now_s(self) -> float:
        return self.world.now_ns() / NS

    def run(self, seconds: float) -> None:
        self.world.loop.run_until(self.world.now_ns() + round(seconds * NS))

    def to(self, second: float) -> None:
        self.world.loop.run_until(round(second * NS))

    def ask(self, call: Awaitable[Any], deadline_s: float = 30.0) -> Any:
        """Awaits a call as the controller does. Raises TimeoutError when it is not answered in time."""

        async def bounded() -> Any:
            async with asyncio.timeout(deadline_s):
                return await call

        return self.world.loop.run(bounded())

    def do(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return self.world.loop.run(coro)

    # ------------------------------------------------------------ the market

    def create(self, machine: int = 1, label: str = LABEL, **spec: Any) -> Created:
        offer = next(o for o in self.market.offers(250.0) if o.machine_id == machine)
        made = replace(CreateSpec(label, "image", 250.0, {"PF_MARK": label}), **spec)
        answer: Created = self.ask(self.port.create(offer.offer_id, made))
        return answer

    def rent(self, machine: int = 1, label: str = LABEL, **spec: Any) -> SimContract:
        created = self.create(machine, label, **spec)
        assert created.contract_id is not None
        return self.market.contracts[created.contract_id]

    def running(self, machine: int = 1, label: str = LABEL) -> SimContract:
        """Rents, and waits until the container runs."""
        contract = self.rent(machine, label)
        while contract.container is None or not contract.container.up:
            self.run(10.0)
        return contract

    def truth(self, contract: SimContract) -> ContractTruth:
        contract.settle()
        return contract.truth

    def list(self, after: int | None = None) -> Page:
        page: Page = self.ask(self.port.list_page(after))
        return page

    def row(self, contract: SimContract) -> Row | None:
        row: Row | None = self.ask(self.port.get(ContractId(contract.contract_id)))
        return row
