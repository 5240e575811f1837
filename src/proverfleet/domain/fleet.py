"""The controller's whole view of the world: what the fold builds from the journal and the rules read.

Mutable and owned by the fold (``fold.py``); rules only read it. Times named ``*_heard_ns`` are values of
``Fleet.heard_ns``, the observed time (it grows only while the controller could have heard); ``*_listed_ns`` are values
of ``Fleet.listed_ns``, which also needs a trusted listing. Ages are differences of these, never of wall clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from proverfleet.domain.events import OfferFact, RowFact
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import Report

FOLD_VERSION = 1
NS = 1_000_000_000


WARMING, BATCH, EARNING = 0, 1, 2


@dataclass(slots=True)
class Completed:
    """One accepted proof in the rate's record: when by the agent's clock, on which clock, attempt and size, and how
    much starved time the agent had counted by then. ``phase``: WARMING (counts for nobody), BATCH or EARNING.

    The rest are running sums over the rental's *counted* intervals up to here (completions.py), so that any window is
    a difference of two entries: proofs, busy seconds, and the sum of ``busy² / proofs`` for the spread.
    """

    n: int
    mono_ns: int
    clock_id: str
    attempt: int
    p: int
    starved_s: float
    phase: int = EARNING
    restarts: int = 0
    proofs_sum: int = 0
    busy_sum_s: float = 0.0
    square_sum: float = 0.0


@dataclass(slots=True)
class DestroyState:
    """Destroy until proven. ``acknowledged``: the market said success or unknown. ``absent_reads``: by-id reads
    without it, ``absent_listings``: trusted listings without it, both since ``acknowledged``."""

    attempts: int = 0
    sent_heard_ns: int = 0
    in_flight: bool = False
    acknowledged: bool = False
    absent_reads: int = 0
    absent_listings: int = 0
    last_error: str = ""


@dataclass(slots=True)
class Rental:
    """One contract from intent to proven end."""

    # what was asked for
    intent: IntentId
    slot: int
    order: str
    machine_id: MachineId | None
    host_id: HostId | None
    gpu_name: str
    num_gpus: int
    gpu_ram_mb: int
    gpu_frac: float
    cpu_ram_mb: int
    price_usd_per_hour: float
    bid_usd_per_hour: float | None
    min_rate: float
    min_rate_from: str
    min_rate_explicit: bool
    image: str
    # identity and stage
    contract_id: ContractId | None = None
    stage: str = "requested"
    stage_wall_ns: dict[str, int] = field(default_factory=dict)
    stage_heard_ns: dict[str, int] = field(default_factory=dict)
    stage_listed_ns: dict[str, int] = field(default_factory=dict)
    observed_ns: dict[str, int] = field(default_factory=dict)
    # marks
    in_doubt: bool = False
    suspect: bool = False
    stopped: bool = False
    draining: bool = False
    probation: bool = False
    adopted: bool = False
    # create in doubt: trusted listings and by-label misses since the doubt began
    doubt_heard_ns: int = 0
    doubt_listings: int = 0
    # the end
    verdict: str = ""
    cause: str = ""
    reason: str = ""
    blame: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    decided_wall_ns: int | None = None
    ended_wall_ns: int | None = None
    destroy: DestroyState = field(default_factory=DestroyState)
    # evidence: market
    row: RowFact | None = None
    absent_listings: int = 0
    absent_since_listed_ns: int = 0
    absent_by_id: bool = False
    by_id_ok_beat: int = -1
    status_moved: bool = False
    status_moved_listed_ns: int = 0
    running_listed_ns: int | None = None
    bad_status_beats: int = 0
    offline_listed_ns: int | None = None
    market_stopped_listings: int = 0
    logs_digest: str = ""
    # evidence: agent
    last: Report | None = None
    hello_refused: bool = False
    report_heard_ns: int = 0
    backlog: int = 0
    seq_seen: int = -1
    setup_high: int = 0
    work_high: int = 0
    progress_heard_ns: int = 0
    progress_starved_s: float = 0.0
    evidence_heard_ns: int = 0
    setup_samples: list[tuple[int, int]] = field(default_factory=list)
    setup_over_cap_heard_ns: int | None = None
    # evidence: probe and consumer
    probe_outcome: str = ""
    probe_beat: int = -1
    probe_heard_ns: int = 0
    probe_key: float = -1.0
    probe_units: int = 0
    source_stalled: bool = False
    work_accepted: int = 0
    work_rejected: int = 0
    work_results: list[bool] = field(default_factory=list)
    rejected_in_a_row: int = 0
    # rate
    completed: list[Completed] = field(default_factory=list)
    judged: str = ""
    rate_proofs_per_hour: float | None = None
    # retries and directives
    oom_retries: int = 0
    crash_retries: int = 0
    restarted_in_place_attempt: int = -1
    exits_seen: int = 0
    directives: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)
    drain_heard_ns: int | None = None
    # what rules compare (filled by the fold): the create call's refusal code; restarts (agent + prover + container) at
    # the last unit of work; the smallest size that the kernel killed (0: none); running numbers (accepted + failed) of
    # the newest proofs that the self-check refused, at most 3
    refused: str = ""
    progress_restarts: int = 0
    oom_at_p: int = 0
    too_slow_at: list[int] = field(default_factory=list)  # sizes that were measured and left for another one
    failed_at: list[int] = field(default_factory=list)
    cost_usd: float = 0.0
    post_mortem: bool = False
    # what the fold needs beside
    disk_gb: float = 0.0
    cpu_cores: float = 0.0  # 0: unknown
    priced_usd_per_hour: float = 0.0  # the price that min_rate rests on (0: the price itself)
    create_sent: bool = False
    caught_up: bool = True  # since the last gap: a report with backlog 0 came
    progress_new: bool = False  # seen since the last beat; stamped by the next one
    evidence_new: bool = False
    report_new: bool = False
    status_new: bool = False
    stage_at_beat: str = ""
    unfed_ns: int = 0  # observed time since the last progress in which the consumer had no work
    seq_by_boot: dict[str, int] = field(default_factory=dict)
    exit_key: str = ""
    probe_bytes: int = 0
    restart_asked_beat: int = -1
    # what the rate needs beside
    phase_attempt: int = -1  # attempt and phase of the newest report that was not late
    phase: int = -1
    rate_process: str = ""  # clock and restarts of the newest report
    rate_skip_clock: str = ""
    rate_skip_until_ns: int = 0
    rate_after_break: bool = False
    rate_freezes: list[tuple[int, float]] = field(default_factory=list)
    claimed_base: int = -1  # the agent's count of proofs, and the consumer's, when it began to earn
    consumed_base: int = 0
    consumer_claimed: int = 0  # both, since then, at the consumer's last word
    consumer_seen: int = 0

    @property
    def live(self) -> bool:
        """Not decided to end and not gone."""
        return self.stage not in ("destroying", "gone")

    @property
    def paid(self) -> bool:
        """A contract of it may exist and cost money."""
        return self.stage != "gone"


@dataclass(slots=True)
class ExtraContract:
    """A marked contract to be destroyed that is no rental's (duplicate, orphan)."""

    contract_id: ContractId
    intent: IntentId
    verdict: str
    reason: str
    destroy: DestroyState = field(default_factory=DestroyState)


@dataclass(slots=True)
class Orphan:
    """A contract with our exact mark and no rental, seen in trusted listings."""

    contract_id: ContractId
    intent: IntentId
    since_listed_ns: int
    row: RowFact


@dataclass(slots=True)
class Strike:
    machine_id: MachineId
    intent: IntentId
    hard: bool
    fingerprint: str
    wall_ns: int


@dataclass(slots=True)
class ListEntry:
    machine_id: MachineId
    reason: str
    since_wall_ns: int
    until_wall_ns: int | None
    evict: bool
    by_operator: bool


@dataclass(slots=True)
class Measured:
    """One measured rate of a machine, under a configuration and an image."""

    machine_id: MachineId
    gpu_name: str
    num_gpus: int
    image: str
    rate_proofs_per_hour: float
    spread: float
    proofs: int
    gpu_frac: float
    wall_ns: int


@dataclass(slots=True)
class Failure:
    """One failed rental, for the systemic brake and the slot's back-off."""

    fingerprint: str
    machine_id: MachineId | None
    host_id: HostId | None
    intent: IntentId
    card: str
    image: str
    heard_ns: int
    slot: int
    never_productive: bool


@dataclass(slots=True)
class Order:
    """An open deploy order: rent this machine, whatever its rank; done once a rental was made for it."""

    order: str
    machine_id: MachineId
    min_rate: float | None
    disk_gb: float | None
    bid_usd_per_hour: float | None
    intent: IntentId | None = None


@dataclass(slots=True)
class BrakeState:
    name: str
    key: str
    reason: str
    detail: dict[str, Any]
    since_heard_ns: int
    since_wall_ns: int
    canary_heard_ns: int = 0


@dataclass(slots=True)
class Fleet:
    """The state of everything. ``rentals`` keeps ended ones too (by intent, in order of request)."""

    policy: Policy = field(default_factory=Policy)
    fleet_id: str = ""
    image: str = "proverfleet/agent"
    target: int = 0
    boot: str = ""
    beat: int = 0
    seq: int = 0
    wall_ns: int = 0
    heard_ns: int = 0
    listed_ns: int = 0
    step_ns: int = 0
    gap_heard_ns: int | None = None
    list_ok: bool = False
    inbox_ok: bool = False
    list_trust: str = ""
    draw: float = 0.0
    ids: tuple[str, ...] = ()
    rentals: dict[IntentId, Rental] = field(default_factory=dict)
    by_contract: dict[ContractId, IntentId] = field(default_factory=dict)
    rows: dict[ContractId, RowFact] = field(default_factory=dict)
    extras: dict[ContractId, ExtraContract] = field(default_factory=dict)
    orphans: dict[ContractId, Orphan] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    kills_ordered: dict[IntentId, str] = field(default_factory=dict)
    offers: tuple[OfferFact, ...] = ()
    ordered_offers: tuple[OfferFact, ...] = ()
    offers_beat: int = -1
    offers_tried: list[int] = field(default_factory=list)
    credit_usd: float | None = None
    spent_today_usd: float = 0.0
    day: int = -1
    work_waiting: bool = True
    source_ok: bool | None = None
    source_beat: int = -1
    source_bad_heard_ns: int | None = None  # when a probe of the source last said no
    credit_low_heard_ns: int | None = None  # the last beat at which the account had no credit
    strikes: list[Strike] = field(default_factory=list)
    blacklist: dict[MachineId, ListEntry] = field(default_factory=dict)
    measured: dict[MachineId, list[Measured]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    slot_failures: dict[int, int] = field(default_factory=dict)
    slot_wait_until_heard_ns: dict[int, int] = field(default_factory=dict)
    brakes: dict[str, BrakeState] = field(default_factory=dict)
    alerts: dict[str, int] = field(default_factory=dict)
    frozen: bool = False
    frozen_heard_ns: int = 0
    booted_policy: dict[str, Any] = field(default_factory=dict)
    booted_target: int = -1
    deaf_beats: int = 0

    def live(self) -> list[Rental]:
        """Rentals that are neither decided to end nor gone, in order of request."""
        return [r for r in self.rentals.values() if r.live]
