"""Everything the controller learns, decides and does, as data. One journal holds all of it, in order of ``seq``.

Facts come from the shell (listings, reports, probes, orders, the beat); decisions from ``decide``; calls and their
outcomes from the actuator. Each kind has a name and a version; older versions are lifted in ``codec.py``.
Only the fields listed here are ever stored. Time is data: ``wall_ns`` is a label, durations come from beats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId
from proverfleet.domain.report import Report


class EventBody:
    """Base of all bodies. ``KIND`` names the kind in the journal, ``V`` its version."""

    __slots__ = ()
    KIND: ClassVar[str] = ""
    V: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the journal: its number, the controller's wall clock (a label), and what happened."""

    seq: int
    wall_ns: int
    body: EventBody


# ---------------------------------------------------------------- the shell's own life


@dataclass(frozen=True, slots=True)
class Booted(EventBody):
    """The controller started. ``policy`` and ``target`` are what it was started with (orders may change them)."""

    KIND = "booted"
    boot: str
    version: str
    fleet: str
    policy: dict[str, Any]
    target: int


@dataclass(frozen=True, slots=True)
class Beat(EventBody):
    """The clock. ``step_ns``: monotonic ns since the last beat of this boot (0 on the first). ``gap``: over three
    beats passed, or a new boot. ``inbox_ok``: a report, or our call to our own public address, arrived since the last
    beat. ``list_ok``: a whole, trusted listing came in this beat. ``draw`` in [0, 1) for exploration; ``ids``: fresh
    random hex for the intents and directives that this beat may decide."""

    KIND = "beat"
    n: int
    step_ns: int
    gap: bool
    inbox_ok: bool
    list_ok: bool
    draw: float
    ids: tuple[str, ...]


# ---------------------------------------------------------------- facts


@dataclass(frozen=True, slots=True)
class RowFact:
    """A row of the market as far as it is kept. Odd values arrive as text or None, never as a crash."""

    contract_id: ContractId
    machine_id: MachineId | None
    host_id: HostId | None
    label: str | None
    actual_status: str | None
    intended_status: str | None
    cur_state: str | None
    status_msg: str | None
    price_usd_per_hour: float | None
    gpu_util: float | None
    disk_usage_gb: float | None


@dataclass(frozen=True, slots=True)
class Listed(EventBody):
    """A listing. ``trust``: trusted | empty | partial | shrunken | stale | malformed | failed. Rows are the ones that
    changed since the last listing; ``gone`` the ids no longer in it; both only when ``trust`` is "trusted"."""

    KIND = "listed"
    trust: str
    total: int
    skipped: int
    changed: tuple[RowFact, ...]
    gone: tuple[ContractId, ...]
    hash: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ContractRead(EventBody):
    """A read by id. ``outcome``: present | absent | failed. ``row`` when present."""

    KIND = "contract_read"
    contract_id: ContractId
    outcome: str
    row: RowFact | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class LogsRead(EventBody):
    """The market's log of a contract: only a digest and its length are kept (has it moved?)."""

    KIND = "logs_read"
    contract_id: ContractId
    outcome: str
    digest: str = ""
    length: int = 0


@dataclass(frozen=True, slots=True)
class OfferFact:
    offer_id: OfferId
    machine_id: MachineId
    host_id: HostId
    gpu_name: str
    num_gpus: int
    gpu_ram_mb: int
    gpu_frac: float
    cpu_name: str
    cpu_ram_mb: int
    disk_gb: float
    inet_down_mbps: float
    price_usd_per_hour: float
    min_bid_usd_per_hour: float
    expected_rate_proofs_per_hour: float
    expected_usd_per_proof: float


@dataclass(frozen=True, slots=True)
class Offered(EventBody):
    """A search: counts per reason of exclusion, the best offers by expected $/proof (at most 10), and the offers of
    machines that open ``deploy`` orders wait for. ``failed``: the search did not come back."""

    KIND = "offered"
    failed: bool
    found: int
    excluded: dict[str, int]
    best: tuple[OfferFact, ...]
    ordered: tuple[OfferFact, ...] = ()


@dataclass(frozen=True, slots=True)
class AccountRead(EventBody):
    KIND = "account_read"
    credit_usd: float


@dataclass(frozen=True, slots=True)
class Reported(EventBody):
    """A report that was accepted (credentials named this rental). Late and repeated ones are facts too."""

    KIND = "reported"
    report: Report


@dataclass(frozen=True, slots=True)
class HelloRefused(EventBody):
    """Somebody reported whom we do not accept: unknown rental, wrong token. A registration in any form is evidence
    that an agent lives on ``contract_id`` (None: unknown)."""

    KIND = "hello_refused"
    claimed: str
    why: str


@dataclass(frozen=True, slots=True)
class Probed(EventBody):
    """A probe of a machine. ``outcome``: answers | no_agent | wrong_peer | unreachable."""

    KIND = "probed"
    contract_id: ContractId
    outcome: str
    daemon_start_s: float | None = None
    partitions: int | None = None
    proofs: int | None = None
    bytes_on_disk: int | None = None


@dataclass(frozen=True, slots=True)
class SourceProbed(EventBody):
    KIND = "source_probed"
    ok: bool


@dataclass(frozen=True, slots=True)
class Worked(EventBody):
    """The consumer's word: (intent, accepted, rejected) cumulative, only the ones that changed; is work waiting?"""

    KIND = "worked"
    waiting: bool
    changed: tuple[tuple[IntentId, int, int], ...]


@dataclass(frozen=True, slots=True)
class Ordered(EventBody):
    """An operator's order, already checked by the API: what and its arguments.

    ``what``: deploy {order, machine_id, min_rate?, disk_gb?, bid_usd_per_hour?} | kill {intent, reason} |
    blacklist {machine_id, reason, until_s?, evict} | unblacklist {machine_id} | target {value} | policy {set} |
    freeze {on} | clear_systemic {} |
    history {machine_id, gpu_name, num_gpus, gpu_frac, image, rate_proofs_per_hour, proofs}: a rate measured elsewhere.
    """

    KIND = "ordered"
    what: str
    args: dict[str, Any]


# ---------------------------------------------------------------- calls and outcomes (the actuator)


@dataclass(frozen=True, slots=True)
class CreateSent(EventBody):
    """Written before the call leaves: from here on the intent may have a contract."""

    KIND = "create_sent"
    intent: IntentId


@dataclass(frozen=True, slots=True)
class CreateAnswered(EventBody):
    """``outcome``: ok | pending (refused, and a contract exists) | refused | doubt. ``code``: why refused."""

    KIND = "create_answered"
    intent: IntentId
    outcome: str
    contract_id: ContractId | None
    code: str = ""


@dataclass(frozen=True, slots=True)
class DestroySent(EventBody):
    KIND = "destroy_sent"
    contract_id: ContractId
    attempt: int


@dataclass(frozen=True, slots=True)
class DestroyAnswered(EventBody):
    """``outcome``: ok | unknown_contract | failed."""

    KIND = "destroy_answered"
    contract_id: ContractId
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class StartAnswered(EventBody):
    """A stopped contract was asked to start again (after a top-up)."""

    KIND = "start_answered"
    contract_id: ContractId
    ok: bool


@dataclass(frozen=True, slots=True)
class PostMortemSaved(EventBody):
    KIND = "post_mortem_saved"
    intent: IntentId
    complete: bool


# ---------------------------------------------------------------- decisions


@dataclass(frozen=True, slots=True)
class Rent(EventBody):
    """Rent this offer under a new intent. ``order``: the deploy order that asked for it ("" for the target)."""

    KIND = "rent"
    rule: str
    intent: IntentId
    slot: int
    order: str
    offer: OfferFact
    disk_gb: float
    bid_usd_per_hour: float | None
    min_rate: float
    min_rate_from: str


@dataclass(frozen=True, slots=True)
class End(EventBody):
    """End a rental. ``verdict``, ``cause`` and ``reason`` are final: the first End of a rental counts.

    ``blame``: machine | us | source | market | nobody. ``evidence``: the numbers that decided, by name.
    ``contract_ids``: what has to be destroyed for it (empty: nothing is known to exist)."""

    KIND = "end"
    rule: str
    intent: IntentId
    verdict: str
    cause: str
    reason: str
    blame: str
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extra(EventBody):
    """Destroy a contract that is not its rental's: a duplicate of an intent, or an orphan without progress."""

    KIND = "extra"
    rule: str
    contract_id: ContractId
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gone(EventBody):
    """Absence is proven: the rental (or extra contract) costs nothing any more."""

    KIND = "gone"
    rule: str
    contract_id: ContractId | None
    intent: IntentId | None
    why: str


@dataclass(frozen=True, slots=True)
class Resolved(EventBody):
    """A create in doubt is settled: this contract carries its label, or (None) none does."""

    KIND = "resolved"
    rule: str
    intent: IntentId
    contract_id: ContractId | None
    why: str


@dataclass(frozen=True, slots=True)
class Adopted(EventBody):
    """A contract with our exact mark and no rental becomes one again, under the intent in its label."""

    KIND = "adopted"
    rule: str
    intent: IntentId
    contract_id: ContractId
    machine_id: MachineId | None
    host_id: HostId | None
    price_usd_per_hour: float | None
    min_rate: float
    min_rate_from: str


@dataclass(frozen=True, slots=True)
class Directed(EventBody):
    """An order to the rental's agent; sent with its next answers until acknowledged."""

    KIND = "directed"
    rule: str
    intent: IntentId
    id: str
    what: str
    args: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Judged(EventBody):
    """A benchmark's outcome: passed | failed | undecided, with the rate that was seen (None: none)."""

    KIND = "judged"
    rule: str
    intent: IntentId
    outcome: str
    rate_proofs_per_hour: float | None
    proofs: int
    reason: str


@dataclass(frozen=True, slots=True)
class Marked(EventBody):
    """A mark beside the stage: suspect | in_doubt | stopped | draining | probation; ``on`` or off."""

    KIND = "marked"
    rule: str
    intent: IntentId
    name: str
    on: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Repriced(EventBody):
    """``min_rate`` computed anew after the price moved."""

    KIND = "repriced"
    rule: str
    intent: IntentId
    price_usd_per_hour: float
    min_rate: float
    min_rate_from: str


@dataclass(frozen=True, slots=True)
class Struck(EventBody):
    """A strike against a machine. ``hard``: one is enough. ``fingerprint`` names the kind of failure."""

    KIND = "struck"
    rule: str
    machine_id: MachineId
    intent: IntentId
    hard: bool
    fingerprint: str
    reason: str


@dataclass(frozen=True, slots=True)
class Blacklisted(EventBody):
    """``until_wall_ns`` None: until taken off. ``evict``: a rental on it is ended even while it progresses."""

    KIND = "blacklisted"
    rule: str
    machine_id: MachineId
    reason: str
    until_wall_ns: int | None
    evict: bool
    on: bool = True


@dataclass(frozen=True, slots=True)
class Braked(EventBody):
    """A brake went on or off. ``name``: list_untrusted | kill_budget | systemic | money | freeze | orphans;
    ``key`` tells several of one name apart (a systemic fingerprint)."""

    KIND = "braked"
    name: str
    key: str
    on: bool
    reason: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alerted(EventBody):
    KIND = "alerted"
    name: str
    key: str
    text: str
    machine_id: MachineId | None
    on: bool = True


@dataclass(frozen=True, slots=True)
class Restart(EventBody):
    """Ask the market to start a stopped contract again (credit came back)."""

    KIND = "restart"
    rule: str
    intent: IntentId
    contract_id: ContractId
    reason: str


Decision = (
    Rent | End | Extra | Gone | Resolved | Adopted | Directed | Judged | Marked | Repriced | Struck | Blacklisted
    | Braked | Alerted | Restart
)


# ---------------------------------------------------------------- what decide wants to know before its next beat


@dataclass(frozen=True, slots=True)
class Asks:
    """Questions for the shell, answered by events before the next ``decide``. Not journaled: they change nothing."""

    contracts: tuple[ContractId, ...] = ()
    probes: tuple[ContractId, ...] = ()
    logs: tuple[ContractId, ...] = ()
    source: bool = False
    search: bool = False
    search_machines: tuple[MachineId, ...] = ()
    account: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What one beat decided (in order) and wants to know."""

    decisions: tuple[Decision, ...]
    asks: Asks
