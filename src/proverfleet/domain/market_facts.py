"""Plain data that ports hand over: what the market, a probe and the consumer say. ``ports.py`` re-exports all of it.

It stands here because the domain ranks offers and may import nothing but itself. Units are in the names; memory is MB
where ``_mb`` says so, as Vast gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId
from proverfleet.domain.record import record


@record
class Offer:
    """One ask. ``price_usd_per_hour`` is the total with the disk asked for; ``gpu_frac`` the share of the box."""

    offer_id: OfferId
    machine_id: MachineId
    host_id: HostId
    gpu_name: str
    num_gpus: int
    gpu_ram_mb: int
    gpu_frac: float
    cpu_name: str
    cpu_cores_effective: float
    cpu_ram_mb: int
    disk_gb: float
    inet_down_mbps: float
    pcie_gb_per_s: float
    reliability: float
    price_usd_per_hour: float
    min_bid_usd_per_hour: float


@record
class Row:
    """One contract as the market tells it. Anything but the ids may be odd: the market says what it likes.

    ``actual_status`` and friends are carried as they came (also non-strings). env, onstart, tokens and keys of the
    market's row never pass this port.
    """

    contract_id: ContractId
    machine_id: MachineId | None
    host_id: HostId | None
    label: Any
    actual_status: Any
    intended_status: Any
    cur_state: Any
    next_state: Any
    status_msg: Any
    price_usd_per_hour: float | None
    gpu_util: float | None
    disk_usage_gb: float | None


@record
class Page:
    """One page of the listing. ``next`` is None on the last; ``total`` is what the market says there are in all;
    ``skipped`` rows could not be read (counted, never fatal)."""

    rows: tuple[Row, ...]
    next: int | None
    total: int | None
    skipped: int = 0


@record
class CreateSpec:
    label: str
    image: str
    disk_gb: float
    env: Mapping[str, str]
    bid_usd_per_hour: float | None = None


@record
class Created:
    """What a create call answered. ``contract_id`` None: done, id unknown (in doubt). ``started`` False: the market
    said ``success:false`` and yet named a contract, which bills."""

    contract_id: ContractId | None
    started: bool
    text: str = ""


@record
class Account:
    credit_usd: float


@record
class ProbeAnswer:
    """What SSH to the machine found. Counters are the daemon's own since its start (None: no daemon answers).

    ``mark`` is the label in the container's environment: an answer with another mark is somebody else's.
    """

    mark: str
    agent_alive: bool
    daemon_start_s: float | None = None
    partitions: int | None = None
    proofs: int | None = None
    bytes_on_disk: int | None = None


@record
class WorkCount:
    """Proofs of one rental since the beginning, by the consumer's own word."""

    accepted: int
    rejected: int


@record
class WorkState:
    """``waiting``: there are tasks for anybody. ``by_intent``: counts, cumulative."""

    waiting: bool
    by_intent: Mapping[IntentId, WorkCount]
