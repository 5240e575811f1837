"""The seams. Everything that touches the world is behind one of these Protocols.

Rules: no implementation may start a thread; every wait is a coroutine; every error is one of
:mod:`proverfleet.errors`. An adapter makes *one* attempt a call; deadlines, retries and the rate limiter wrap the
port once, for every wiring (``controller/calls.py``). Units are in the names; memory is GiB unless ``_mb``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from proverfleet.domain.ids import ContractId, MachineId, OfferId
from proverfleet.domain.market_facts import Account as Account
from proverfleet.domain.market_facts import Created as Created
from proverfleet.domain.market_facts import CreateSpec as CreateSpec
from proverfleet.domain.market_facts import Offer as Offer
from proverfleet.domain.market_facts import Page as Page
from proverfleet.domain.market_facts import ProbeAnswer as ProbeAnswer
from proverfleet.domain.market_facts import Row as Row
from proverfleet.domain.market_facts import WorkCount as WorkCount
from proverfleet.domain.market_facts import WorkState as WorkState
from proverfleet.domain.record import record
from proverfleet.domain.report import Answer, Report
from proverfleet.domain.sizing import Sizing

# ---------------------------------------------------------------- market


class Market(Protocol):
    """Vast.ai's instance market, one attempt a call. Raises MarketError."""

    async def search(self, disk_gb: float) -> tuple[Offer, ...]: ...
    async def create(self, offer_id: OfferId, spec: CreateSpec) -> Created: ...
    async def list_page(self, after: int | None) -> Page:
        """25 rows from ``after`` (None: the first page)."""
        ...

    async def get(self, contract_id: ContractId) -> Row | None:
        """None: the market does not know this contract (null, empty and 404 alike)."""
        ...

    async def destroy(self, contract_id: ContractId) -> None:
        """Returns when the market said success; NotFound when it does not know the contract."""
        ...

    async def start(self, contract_id: ContractId) -> None: ...
    async def logs(self, contract_id: ContractId) -> str: ...
    async def account(self) -> Account: ...


# ---------------------------------------------------------------- controller → machine, work, store


class Probe(Protocol):
    async def machine(self, contract_id: ContractId) -> ProbeAnswer:
        """Raises ProbeFailed when nothing answers (host down, SSH cut)."""
        ...

    async def source(self) -> bool:
        """Does the parameter source serve bytes to the controller?"""
        ...

    async def public_address(self) -> bool:
        """Does a call to the controller's own public address arrive?"""
        ...


class Work(Protocol):
    async def state(self) -> WorkState: ...


class Store(Protocol):
    """The controller's durable journal. One call is one transaction: all of it or nothing. Raises StoreError."""

    async def append(self, records: list[tuple[int, bytes]]) -> None:
        """(sequence number, one event as JSON bytes), sequence numbers rising."""
        ...

    async def load(self, after: int) -> list[bytes]: ...
    async def save_snapshot(self, seq: int, header: str, data: bytes) -> None: ...
    async def newest_snapshot(self, header: str) -> tuple[int, bytes] | None: ...
    async def fleet_id(self, fresh: str) -> str:
        """The random id made with the database; ``fresh`` is stored when there is none yet."""
        ...

    async def save_post_mortem(self, intent: str, data: bytes) -> None: ...
    async def post_mortem(self, intent: str) -> bytes | None: ...


class Notifier(Protocol):
    async def alert(self, name: str, text: str, machine_id: MachineId | None) -> None: ...


# ---------------------------------------------------------------- on the machine


@record
class Exit:
    """How the daemon or the benchmark ended. ``oom_kill``: the cgroup's counter rose. ``gpu_oom``: CUDA said so."""

    code: int | None
    signal: int | None
    oom_kill: bool
    gpu_oom: bool
    log_tail: str


@record
class Completion:
    """One accepted proof: its running number since the daemon's start, and when (agent's monotonic ns)."""

    n: int
    mono_ns: int


@record
class ProverStatus:
    """The daemon, as /status, gRPC metrics and /proc tell it. Counters since *this* daemon's start.

    ``alive`` False with ``exit`` None: never started. ``running`` True: a warm-up, batch or task is in flight.
    ``done`` True: the batch asked for has ended by itself (``proofs_failed`` of it may be > 0).
    ``bench_exit``: the benchmark program ended without a result although the daemon lives.
    ``p``, ``concurrency``: the size that is really in use; 0 while no daemon runs.
    """

    alive: bool
    running: bool
    done: bool
    exit: Exit | None
    bench_exit: Exit | None
    srs_bytes: int
    partitions: int
    proofs_accepted: int
    proofs_failed: int
    completions: tuple[Completion, ...]
    busy_s: float
    starved_s: float
    rss_gib: float
    p: int = 0
    concurrency: int = 0


class Prover(Protocol):
    """cuzk daemon + bench. Raises ProverError when the daemon cannot be started."""

    async def start(self, sizing: Sizing) -> None: ...
    async def stop(self) -> None:
        """SIGTERM, then KILL; returns when the process is gone. No-op when none runs."""
        ...

    async def warm_up(self) -> None:
        """One proof of the daemon's own at the current size; writes the PCE cache. Returns at once."""
        ...

    async def batch(self, count: int, concurrency: int) -> None:
        """Starts ``cuzk-bench batch``; progress is in :meth:`status`. Returns at once."""
        ...

    async def work(self) -> None:
        """Takes tasks from the consumer from now on. Returns at once."""
        ...

    async def drain(self) -> None:
        """Takes no new task; what is in flight finishes. Returns at once."""
        ...

    async def status(self) -> ProverStatus: ...
    async def has_pce_cache(self) -> bool: ...


@record
class ParamsStatus:
    """The one fetcher. ``bytes_received`` counts only files that have not failed their checksum;
    ``file_failures`` the worst count of checksum failures of one file; ``digests_differ``: between its tries."""

    running: bool
    done: bool
    bytes_received: int
    bytes_hashed: int
    bytes_total: int
    file_failures: int
    digests_differ: bool
    error: str | None = None


class Params(Protocol):
    async def fetch(self) -> None:
        """Starts or resumes the fetch; no-op while one runs. Returns at once."""
        ...

    async def status(self) -> ParamsStatus: ...


@record
class Gpu:
    """One card; every field but the uuid may be unknown."""

    uuid: str
    name: str | None = None
    memory_mb: int | None = None
    util: float | None = None
    temp_c: float | None = None
    pcie_gb_per_s: float | None = None
    xid: int | None = None
    foreign_load: float | None = None


@record
class Readings:
    """What the sensors say. None: that reading failed (it condemns nobody). ``gpus`` None: NVML cannot be read."""

    gpus: tuple[Gpu, ...] | None
    limit_gib: float | None
    rss_gib: float | None
    disk_free_gb: float | None
    down_mbps: float | None
    pcie_gb_per_s_under_load: float | None


class Sensors(Protocol):
    async def read(self) -> Readings: ...
    async def under_load(self) -> Readings:
        """As :meth:`read`, with the link and the network measured under a short load (30 s)."""
        ...


class Tunnel(Protocol):
    async def ensure(self) -> bool:
        """Opens or repairs the tunnel; True when an end-to-end echo through it came back."""
        ...

    async def rpc_ok(self) -> bool:
        """Is the chain node's RPC (port 1234) reachable through the forward?"""
        ...


class ControllerLink(Protocol):
    async def send(self, report: Report) -> Answer:
        """One report; the answer comes after its commit. Raises LinkDown."""
        ...


class StateFile(Protocol):
    """The agent's own small file on the container's disk."""

    def load(self) -> dict[str, Any] | None: ...
    def save(self, data: dict[str, Any]) -> None: ...


class OwnContract(Protocol):
    """The container's own key: it may end its own contract and nothing else. Raises MarketError."""

    async def destroy(self) -> None: ...


# ---------------------------------------------------------------- both


class Clock(Protocol):
    def monotonic_ns(self) -> int: ...
    def wall_ns(self) -> int: ...
    async def sleep(self, seconds: float) -> None: ...


class Entropy(Protocol):
    def random(self) -> float: ...
    def hex(self, digits: int) -> str: ...


@dataclass(slots=True)
class AgentPorts:
    prover: Prover
    params: Params
    sensors: Sensors
    tunnel: Tunnel
    link: ControllerLink
    state: StateFile
    own_contract: OwnContract
    clock: Clock
    entropy: Entropy


Point = Callable[[str], Awaitable[None]]


async def no_point(name: str) -> None:
    """Nothing happens at a crash point (names: ``controller/points.py``)."""


@dataclass(slots=True)
class ControllerPorts:
    """What the controller touches. ``point`` is awaited between two effects; the test-bed may end the process there."""

    market: Market
    probe: Probe
    work: Work
    store: Store
    notifier: Notifier
    clock: Clock
    entropy: Entropy
    point: Point = no_point
