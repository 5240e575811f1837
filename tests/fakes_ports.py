"""Small, real ports for tests of the controller: a market that keeps contracts, a probe, a store that fails.

``Life`` stands for one process: when it ends, every port of it stops answering, as after kill -9. Time is the running
loop's (tests run on ``sim.loop.VirtualLoop``, so that nothing really sleeps).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from proverfleet.controller.store import SqliteStore
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId, parse_mark
from proverfleet.errors import NotFound, ProbeFailed, StoreError
from proverfleet.ports import (
    Account,
    ControllerPorts,
    Created,
    CreateSpec,
    Offer,
    Page,
    ProbeAnswer,
    Row,
    WorkCount,
    WorkState,
)
from sim.loop import VirtualLoop

T = TypeVar("T")
PAGE = 25


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs ``main`` on virtual time; what is left running when it returns is dropped without a word."""
    loop = VirtualLoop()
    try:
        return loop.run(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        _NEVER.clear()


_NEVER: list[asyncio.Future[None]] = []  # kept, or the tasks that wait for them would be collected and complain


async def never() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _NEVER.append(future)
    await future


class Life:
    """One process. ``ends_at``: the crash point (and how many-th) at which it is killed."""

    def __init__(self) -> None:
        self.alive = True
        self.ends_at: tuple[str, int] = ("", 0)
        self.points: list[str] = []
        self.ended: asyncio.Event = asyncio.Event()

    async def gate(self) -> None:
        if not self.alive:
            await never()

    def end(self) -> None:
        self.alive = False
        self.ended.set()

    async def point(self, name: str) -> None:
        self.points.append(name)
        if self.ends_at == (name, self.points.count(name)):
            self.end()
        await self.gate()


class FakeClock:
    def __init__(self, life: Life) -> None:
        self.life = life
        self.wall_offset_ns = 1_772_323_200 * 10**9

    def monotonic_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * 1e9)

    def wall_ns(self) -> int:
        return self.monotonic_ns() + self.wall_offset_ns

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.life.gate()


class FakeEntropy:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def random(self) -> float:
        return self._random.random()

    def hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"


Trouble = Callable[[], Awaitable[None]]
"""What happens instead of (or before) a call: raise, hang, or nothing."""


@dataclass
class FakeMarket:
    """Keeps contracts across lives of the controller. ``trouble[op]``: used up one a call. ``sent``: calls in order."""

    rows: dict[ContractId, Row] = field(default_factory=dict)
    trouble: dict[str, list[Trouble]] = field(default_factory=dict)
    after: dict[str, list[Trouble]] = field(default_factory=dict)
    sent: list[tuple[str, Any]] = field(default_factory=list)
    specs: list[CreateSpec] = field(default_factory=list)
    offers: tuple[Offer, ...] = ()
    credit_usd: float = 100.0
    latency_s: float = 0.1
    next_id: int = 9000
    listing: Callable[[dict[ContractId, Row]], list[Row]] | None = None
    log: str = "layer 1 of 2"

    async def _before(self, op: str, about: Any) -> None:
        self.sent.append((op, about))
        await asyncio.sleep(self.latency_s)
        waiting = self.trouble.get(op)
        if waiting:
            await waiting.pop(0)()

    async def _behind(self, op: str) -> None:
        waiting = self.after.get(op)
        if waiting:
            await waiting.pop(0)()

    def count(self, op: str) -> int:
        return sum(1 for name, _ in self.sent if name == op)

    def make(self, offer_id: int, label: str | None) -> ContractId:
        self.next_id += 1
        contract_id = ContractId(self.next_id)
        self.rows[contract_id] = row(contract_id, machine=offer_id, label=label)
        return contract_id

    async def search(self, disk_gb: float) -> tuple[Offer, ...]:
        await self._before("search", disk_gb)
        return self.offers

    async def create(self, offer_id: OfferId, spec: CreateSpec) -> Created:
        await self._before("create", offer_id)
        self.specs.append(spec)
        contract_id = self.make(int(offer_id), spec.label)
        await self._behind("create")
        return Created(contract_id, True)

    async def list_page(self, after: int | None) -> Page:
        await self._before("list", after)
        rows = sorted(self.rows.values(), key=lambda r: r.contract_id)
        if self.listing is not None:
            rows = self.listing(dict(self.rows))
        start = after or 0
        page = tuple(rows[start : start + PAGE])
        more = start + PAGE < len(rows)
        return Page(page, start + PAGE if more else None, len(rows))

    async def get(self, contract_id: ContractId) -> Row | None:
        await self._before("get", contract_id)
        return self.rows.get(contract_id)

    async def destroy(self, contract_id: ContractId) -> None:
        await self._before("destroy", contract_id)
        if contract_id not in self.rows:
            raise NotFound(str(contract_id))
        del self.rows[contract_id]
        await self._behind("destroy")

    async def start(self, contract_id: ContractId) -> None:
        await self._before("start", contract_id)

    async def logs(self, contract_id: ContractId) -> str:
        await self._before("logs", contract_id)
        return self.log

    async def account(self) -> Account:
        await self._before("account", None)
        return Account(self.credit_usd)


class CutMarket:
    """The market as one life sees it: a dead one neither sends nor hears."""

    def __init__(self, market: FakeMarket, life: Life) -> None:
        self._market = market
        self._life = life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._market, name)

        async def through(*args: Any) -> Any:
            await self._life.gate()
            # Served in a task of its own: a caller that gives up does not stop the market.
            task = asyncio.get_running_loop().create_task(call(*args))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                return await asyncio.shield(task)
            finally:
                await self._life.gate()

        return through


class FlakyStore(SqliteStore):
    """The real store; ``error`` set: every write fails with it. ``fail_next``: only the next ones, by count."""

    __slots__ = ("error", "fail_next", "life", "on_append")

    def __init__(self, db: Any = ":memory:") -> None:
        super().__init__(db)
        self.error: StoreError | None = None
        self.fail_next: list[StoreError | None] = []
        self.on_append: list[Any] = []

    async def append(self, records: list[tuple[int, bytes]]) -> None:
        if self.fail_next:
            error = self.fail_next.pop(0)
            if error is not None:
                raise error
        if self.error is not None:
            raise self.error
        await super().append(records)


class CutStore:
    def __init__(self, store: SqliteStore, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        async def through(*args: Any) -> Any:
            await self._life.gate()
            return await call(*args)

        return through


@dataclass
class FakeProbe:
    machines: dict[ContractId, ProbeAnswer] = field(default_factory=dict)
    source_ok: bool = True
    address_ok: bool = True
    asked: list[Any] = field(default_factory=list)
    hang: bool = False

    async def machine(self, contract_id: ContractId) -> ProbeAnswer:
        self.asked.append(contract_id)
        if self.hang:
            await never()
        if contract_id not in self.machines:
            raise ProbeFailed("no route")
        return self.machines[contract_id]

    async def source(self) -> bool:
        self.asked.append("source")
        return self.source_ok

    async def public_address(self) -> bool:
        self.asked.append("address")
        return self.address_ok


@dataclass
class FakeWork:
    waiting: bool = True
    counts: dict[IntentId, WorkCount] = field(default_factory=dict)

    async def state(self) -> WorkState:
        return WorkState(self.waiting, dict(self.counts))


@dataclass
class FakeNotifier:
    sent: list[tuple[str, str]] = field(default_factory=list)

    async def alert(self, name: str, text: str, machine_id: MachineId | None) -> None:
        self.sent.append((name, text))


@dataclass
class World:
    """What outlives a controller."""

    market: FakeMarket = field(default_factory=FakeMarket)
    probe: FakeProbe = field(default_factory=FakeProbe)
    work: FakeWork = field(default_factory=FakeWork)
    notifier: FakeNotifier = field(default_factory=FakeNotifier)
    store: FlakyStore = field(default_factory=FlakyStore)
    lives: int = 0

    def ports(self, life: Life) -> ControllerPorts:
        self.lives += 1
        return ControllerPorts(
            market=CutMarket(self.market, life),  # type: ignore[arg-type]
            probe=self.probe,
            work=self.work,
            store=CutStore(self.store, life),  # type: ignore[arg-type]
            notifier=self.notifier,
            clock=FakeClock(life),
            entropy=FakeEntropy(self.lives),
            point=life.point,
        )


def row(contract_id: int, *, machine: int = 42, label: str | None = None, status: Any = "running", **more: Any) -> Row:
    base = Row(
        contract_id=ContractId(contract_id), machine_id=MachineId(machine), host_id=HostId(7), label=label,
        actual_status=status, intended_status="running", cur_state="running", next_state="running",
        status_msg="success, running", price_usd_per_hour=0.3, gpu_util=50.0, disk_usage_gb=10.0,
    )
    return replace(base, **more)


def market_offer(machine: int, **more: Any) -> Offer:
    base = Offer(
        offer_id=OfferId(1000 + machine), machine_id=MachineId(machine), host_id=HostId(machine), gpu_name="RTX 4090",
        num_gpus=1, gpu_ram_mb=24_564, gpu_frac=1.0, cpu_name="AMD EPYC 7543", cpu_cores_effective=64.0,
        cpu_ram_mb=504 * 1024, disk_gb=1000.0, inet_down_mbps=900.0, pcie_gb_per_s=24.0, reliability=0.99,
        price_usd_per_hour=0.3, min_bid_usd_per_hour=0.2,
    )
    return replace(base, **more)


def intent_of(spec: CreateSpec) -> IntentId:
    found = parse_mark(spec.label)
    assert found is not None
    return found[1]


def fails(error: Exception, times: int = 1) -> list[Trouble]:
    """Trouble that raises ``error``."""

    async def trouble() -> None:
        raise error

    return [trouble] * times


def hangs(times: int = 1) -> list[Trouble]:
    """Trouble that never answers."""

    async def trouble() -> None:
        await never()

    return [trouble] * times
