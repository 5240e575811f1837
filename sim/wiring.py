"""Builds a world with a controller and agents in it. Only this file knows which implementation stands behind a port."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from proverfleet.agent.agent import Agent
from proverfleet.agent.settings import AgentSettings, Identity, identity_from, settings_from
from proverfleet.controller.brain import Brain, DefaultBrain
from proverfleet.controller.controller import Controller
from proverfleet.controller.orders import OrderRefused
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import Answer, Report
from proverfleet.errors import LinkDown, PortError, StoreError
from proverfleet.ports import AgentPorts, ControllerPorts
from proverfleet.settings import ControllerSettings
from sim.books import Books
from sim.faults.agent_faults import agent_faults
from sim.faults.controller_faults import at_point, controller_faults, controller_started
from sim.faults.host_faults import host_faults
from sim.faults.market_faults import market_faults
from sim.faults.operator_faults import operator_faults
from sim.faults.params_faults import params_faults
from sim.faults.prover_faults import prover_faults
from sim.faults.store import Database, FaultStore, remember
from sim.faults.tunnel_faults import tunnel_faults
from sim.faults.work_faults import work_faults
from sim.host import Host
from sim.journal import RunJournal
from sim.legacy.brain import LegacyBrain
from sim.legacy.entrypoint import LegacyEntrypoint
from sim.legacy.rules import Limits
from sim.lines import Darkness, Lines
from sim.loop import NS
from sim.market import SimMarket
from sim.net import LINK
from sim.params import ParamsSource
from sim.ports.link import DirectLink, DirectOwnContract, DirectTunnel
from sim.ports.market import DirectMarket
from sim.ports.probe import DirectProbe
from sim.ports.work import DirectWork, WorkPool
from sim.process import Process
from sim.spec import DeploySpec, Scenario
from sim.stages import StagedParams, StagedProver, StagedState
from sim.streams import StreamEntropy
from sim.supervisor import Supervised
from sim.truth import OrderTruth
from sim.world import World

if TYPE_CHECKING:
    from sim.container import Container

ADAPTERS = ("direct",)
ORDER_AGAIN_S = 10.0
ORDER_DEADLINE_S = 30.0
OLD_VERSION = "0.0.9"


class AgentProgram(Protocol):
    """What runs in a container."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What may be plugged in where the product takes its own: the old manager, deliberately broken parts."""

    brain: Callable[[], Brain] = DefaultBrain
    agent: Callable[[AgentPorts, Identity, AgentSettings], AgentProgram] = Agent
    controller: Callable[..., Controller] = Controller
    controller_ports: Callable[[ControllerPorts], ControllerPorts] | None = None



def legacy_parts(scenario: Scenario) -> Parts:
    """The old manager and its entrypoint, with the limits that the case had."""
    limits = Limits(**scenario.legacy)
    return Parts(brain=lambda: LegacyBrain(limits), agent=LegacyEntrypoint)


class _NoNotifier:
    """Alerts stand in the journal; nobody is paged in a simulation."""

    async def alert(self, name: str, text: str, machine_id: int | None) -> None:
        return None


@dataclass(slots=True)
class Wired:
    """A world with everything in it. ``controllers``: the controller of each process that runs, by process name."""

    world: World
    parts: Parts
    policy: Policy
    settings: ControllerSettings
    database: Database
    version: str
    supervised: Supervised = field(init=False)
    controllers: dict[str, Controller] = field(default_factory=dict)
    last: Controller | None = None  # the newest of the first instance, dead or alive
    agents: dict[int, Supervised] = field(default_factory=dict)
    armed: list[tuple[Any, int | None]] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)
    beats: int = 0
    beats_failed: int = 0
    beat_max_s: float = 0.0
    _seconds: int = 0
    _databases: list[Database] = field(default_factory=list)

    # ------------------------------------------------------------ controllers

    def build_controller(self) -> None:
        self.supervised = Supervised(
            self.world, "controller", self.world.box("controller"),
            lambda process: self._run_controller(process, self.database, self.settings),
            started=self._controller_up, ended=self._controller_down,
        )

    def second(self, same_store: bool) -> Supervised:
        """A second controller on the same account. With a store of its own it has no target: it would rent a fleet
        of its own that nobody ends when it goes away again."""
        self._seconds += 1
        database, settings = self.database, self.settings
        if not same_store:
            database = Database(self.world, remember=False)
            self._databases.append(database)
            settings = dataclasses.replace(settings, target=0)
        return Supervised(
            self.world, f"controller-{self._seconds + 1}", self.world.box(f"controller-{self._seconds + 1}"),
            lambda process: self._run_controller(process, database, settings),
            started=lambda process: None, ended=lambda process, how: self._forget(process),
        )

    async def _run_controller(self, process: Process, database: Database, settings: ControllerSettings) -> None:
        world = self.world

        async def point(name: str) -> None:
            if name == "beat.begin" and database is self.database:  # whoever leads this fleet
                world.truth.beats.append(world.loop.now_ns)
            if self.armed:
                await at_point(world, self, process, name)

        def say(name: str, text: str) -> None:
            self.said[name] = self.said.get(name, 0) + 1
            world.record("said", by=process.name, name=name, text=text)
            if name == "beat_failed":
                world.note_error(f"{process.name}: a beat", text)

        ports = ControllerPorts(
            market=DirectMarket(world, process), probe=DirectProbe(world, process), work=DirectWork(world, process),
            store=FaultStore(process, database), notifier=_NoNotifier(), clock=process.clock,
            entropy=StreamEntropy(world.streams.get(process.name)), point=point,
        )
        if self.parts.controller_ports is not None:
            ports = self.parts.controller_ports(ports)
        settings = dataclasses.replace(settings, version=self.version)
        controller = self.parts.controller(ports, self.parts.brain(), settings, spawn=process.spawn, say=say)
        self.controllers[process.name] = controller
        if process.name == "controller":
            self.last = controller
        await controller.run()

    def _controller_up(self, process: Process) -> None:
        self.world.controller = process
        self.world.truth.controller_starts += 1
        controller_started(self.world, self)
        self.world.record("controller", what="started")

    def _controller_down(self, process: Process, how: str) -> None:
        self._forget(process)
        if how in ("error", "exit"):
            self.world.truth.controller_exits += 1
        self.world.record("controller", what=how)

    def _forget(self, process: Process) -> None:
        controller = self.controllers.pop(process.name, None)
        if controller is not None:
            self._count(controller)

    def _count(self, controller: Controller) -> None:
        counts = controller.counts
        self.beats += counts.beats
        self.beats_failed += counts.beats_failed
        self.beat_max_s = max(self.beat_max_s, counts.beat_max_s)

    def finish_counts(self) -> None:
        """Adds what the controllers that still run have counted; once, at the end."""
        for controller in self.controllers.values():
            self._count(controller)
        self.controllers.clear()
        self.world.truth.beats_failed = self.beats_failed

    async def receive(self, report: Report) -> Answer:
        """What serves an agent's report, in the controller's process. Raises LinkDown ("try again") where the
        controller cannot store it or is not there."""
        controller = self.controllers.get("controller")
        if controller is None:
            raise LinkDown("no controller listens")
        try:
            return await controller.inbox.receive(report)
        except StoreError as exc:
            raise LinkDown(f"try again: {exc}") from exc

    # ------------------------------------------------------------ agents

    def start_container(self, container: Container) -> None:
        """A container's processes start: its agent is one of them."""
        world, contract_id = self.world, container.contract_id
        container.disk["starts"] = start = int(container.disk.get("starts", 0)) + 1
        env = self._agent_env(container, start)
        agent = Supervised(
            world, f"agent:{contract_id}", world.box(f"machine:{container.host.spec.id}"),
            lambda process: self._run_agent(process, container, env),
            started=lambda process: self._agent_up(container, process), ended=lambda process, how: None, again="failed",
        )
        self.agents[contract_id] = agent
        agent.start()

    def stop_container(self, container: Container, how: str) -> None:
        agent = self.agents.pop(container.contract_id, None)
        if agent is not None:
            agent.crash()
        self.world.agents.pop(container.contract_id, None)

    def agents_on(self, machine_id: int | None) -> list[Supervised]:
        """The agents in the containers that run on this machine; None: on every one."""
        hosts = self.world.hosts.values() if machine_id is None else [self.world.hosts[machine_id]]
        found = [self.agents.get(contract_id) for host in hosts for contract_id in host.containers]
        return [agent for agent in found if agent is not None]

    def _agent_up(self, container: Container, process: Process) -> None:
        if self.agents[container.contract_id].starts > 1:
            container.truth.restarts_agent += 1
        self.world.agents[container.contract_id] = process

    def _agent_env(self, container: Container, start: int) -> dict[str, str]:
        spec = container.host.spec
        env = {**container.env, "PF_CONTAINER": f"{container.contract_id}-{start}", "PF_DAEMON": spec.daemon}
        if spec.first_sizing is not None:
            env["PF_FIRST_P"] = str(spec.first_sizing["partition_workers"])
            env["PF_FIRST_CONCURRENCY"] = str(spec.first_sizing["concurrency"])
        return env

    async def _run_agent(self, process: Process, container: Container, env: dict[str, str]) -> None:
        world = self.world
        settings = settings_from(env)
        old = world.faults.active("agent.old_version", container.host.spec.id)
        if old is not None:
            world.faults.consume(old, container.host.spec.id)
            settings = dataclasses.replace(settings, version=OLD_VERSION)
        ports = AgentPorts(
            prover=StagedProver(container), params=StagedParams(container), sensors=container.sensors,
            tunnel=DirectTunnel(world, process, container), link=DirectLink(world, process, container),
            state=StagedState(container), own_contract=DirectOwnContract(world, process, container),
            clock=process.clock, entropy=StreamEntropy(world.streams.get(process.name)),
        )
        await self.parts.agent(ports, identity_from(env), settings).run()

    # ------------------------------------------------------------ operators

    async def order(self, what: str, args: dict[str, Any]) -> None:
        """An operator's order, given again every 10 s until a controller took or refused it."""
        world, operator = self.world, Process(self.world, "operator")

        async def serve() -> tuple[str, str]:
            controller = self.controllers.get("controller")
            if controller is None:
                raise LinkDown("no controller listens")
            try:
                await controller.order(what, args)
            except OrderRefused as exc:
                return "refused", str(exc)
            return "taken", ""

        while True:
            controller = world.controller
            if controller is not None and controller.alive:
                try:
                    outcome, why = await world.net.call(
                        operator, "order", what, serve, latency=LINK, callee=controller,
                        path=world.net.controller_reachable, deadline_ns=round(ORDER_DEADLINE_S * NS),
                    )
                    world.record("order", what=what, outcome=outcome, why=why)
                    return
                except PortError:
                    pass
            await operator.sleep_ns(round(ORDER_AGAIN_S * NS))

    def deploy(self, number: int, spec: DeploySpec) -> None:
        """A deploy entry of the scenario: the order of an operator who clicks on that machine."""
        args: dict[str, Any] = {"order": f"deploy-{number}", "machine_id": spec.machine}
        for name, value in (("min_rate", spec.min_rate), ("disk_gb", spec.disk_gb),
                            ("bid_usd_per_hour", spec.bid_usd_per_hour)):
            if value is not None:
                args[name] = value
        self.world.truth.orders.append(OrderTruth(self.world.now_ns(), "deploy", spec.machine))
        self.world.loop.create_task(self.order("deploy", args), name=f"operator/deploy-{number}")

    def close(self) -> None:
        """Takes everything apart; see World.close."""
        self.world.close()
        for database in (self.database, *self._databases):
            database.close()


def build(
    scenario: Scenario, seed: int, *, adapter: str = "direct", parts: Parts | None = None,
    policy: Policy | None = None, journal: RunJournal | None = None,
) -> Wired:
    """A world at time 0 with a controller that starts there. ``scenario`` is resolved (nothing random left in it).

    ``policy`` replaces the scenario's own; ``parts`` what the product brings (default: by ``scenario.rules``)."""
    if adapter not in ADAPTERS:
        raise ValueError(f"adapter {adapter!r}: there are {', '.join(ADAPTERS)}")
    world = World(scenario, seed, adapter, journal)
    policy = policy or Policy.of(scenario.policy)
    has = world.faults.has
    database = Database(world, remember=has("controller.db_locked"))
    secret = world.streams.fresh("secrets")
    key, market_key, tunnel_key = (f"canary{secret.getrandbits(128):032x}" for _ in range(3))
    settings = ControllerSettings(
        fleet_key=key, policy=policy, target=scenario.target, adapter=adapter, secrets=(market_key,),
        agent_env={"PF_CONTROLLER": "https://controller.example", "PF_TUNNEL_KEY": tunnel_key},
    )
    world.journal.canaries = tuple(k.encode() for k in (key, market_key, tunnel_key))
    parts = parts or (legacy_parts(scenario) if scenario.rules == "legacy" else Parts())
    wired = Wired(world, parts, policy, settings, database, settings.version)
    _populate(world, policy)
    world.receive = wired.receive
    world.start_container, world.stop_container = wired.start_container, wired.stop_container
    world.order = wired.order
    wired.build_controller()
    Books(world, lambda: wired.last).attach()
    world.faults.register_all({
        **host_faults(world), **prover_faults(world), **params_faults(world), **agent_faults(wired),
        **controller_faults(world, wired), **operator_faults(world), **market_faults(world), **tunnel_faults(world),
        **work_faults(world),
    })
    if has("controller.db_restored"):
        database.keep_backups()
    for number, spec in enumerate(scenario.deploy):
        world.loop.at(round(spec.at_s * NS), lambda n=number, s=spec: wired.deploy(n, s))  # type: ignore[misc]
    remember(world, database, settings.image)
    world.faults.start()
    world.loop.at(0, wired.supervised.start)  # after the faults of that instant: a crash point may be in its boot
    return wired


def _populate(world: World, policy: Policy) -> None:
    scenario = world.scenario
    truth = world.truth
    truth.target.set(0, scenario.target)
    truth.policy = {k: float(v) for k, v in dataclasses.asdict(policy).items() if isinstance(v, int | float)}
    world.source = ParamsSource(world)
    world.work = WorkPool(world)
    for spec in scenario.machines:
        world.hosts[spec.id] = Host(world, spec)
    world.market = SimMarket(world)
    world.lines = Lines(world)
    Darkness(world, world.lines)
