"""Everything the controller learns, decides and does, as data. One journal holds all of it, in order of ``seq``.

Facts come from the shell (listings, reports, probes, orders, the beat); decisions from ``decide``; calls and their
outcomes from the actuator. Each kind has a name and a version; older versions are lifted in ``codec.py``.
Only the fields listed here are ever stored. Time is data: ``wall_ns`` is a label, durations come from beats.
"""

from __future__ import annotations

from typing import Any, ClassVar

from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId
from proverfleet.domain.record import record
from proverfleet.domain.report import Report


class EventBody:
    """Base of all bodies. ``KIND`` names the kind in the journal, ``V`` its version."""

    __slots__ = ()
    KIND: ClassVar[str] = ""
    V: ClassVar[int] = 1


@record
class Event:
    """One line of the journal: its number, the controller's wall clock (a label), and what happened."""

    seq: int
    wall_ns: int
    body: EventBody


# ---------------------------------------------------------------- the shell's own life


@record
class Booted(EventBody):
    """The controller started. ``policy`` and ``target`` are what it was started with (orders may change them)."""

    KIND = "booted"
    boot: str
    version: str
    fleet: str
    policy: dict[str, Any]
    target: int


@record
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


@record
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


@record
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


@record
class ContractRead(EventBody):
    """A read by id. ``outcome``: present | absent | failed. ``row`` when present."""

    KIND = "contract_read"
    contract_id: ContractId
    outcome: str
    row: RowFact | None = None
    why: str = ""


@record
class LogsRead(EventBody):
    """The market's log of a contract: only a digest and its length are kept (has it moved?)."""

    KIND = "logs_read"
    contract_id: ContractId
    outcome: str
    digest: str = ""
    length: int = 0


@record
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
    cpu_cores: float = 0.0


@record
class Offered(EventBody):
    """A search: counts per reason of exclusion, the best offers by expected $/proof (at most 10), and the offers of
    machines that open ``deploy`` orders wait for. ``failed``: the search did not come back."""

    KIND = "offered"
    failed: bool
    found: int
    excluded: dict[str, int]
    best: tuple[OfferFact, ...]
    ordered: tuple[OfferFact, ...] = ()


@record
class AccountRead(EventBody):
    KIND = "account_read"
    credit_usd: float


@record
class Reported(EventBody):
    """A report that was accepted (credentials named this rental). Late and repeated ones are facts too."""

    KIND = "reported"
    V = 2  # terse.py; 1 had every field
    report: Report


@record
class HelloRefused(EventBody):
    """Somebody reported whom we do not accept: unknown rental, wrong token. A registration in any form is evidence
    that an agent lives on ``contract_id`` (None: unknown)."""

    KIND = "hello_refused"
    claimed: str
    why: str


@record
class Probed(EventBody):
    """A probe of a machine. ``outcome``: answers | no_agent | wrong_peer | unreachable."""

    KIND = "probed"
    contract_id: ContractId
    outcome: str
    daemon_start_s: float | None = None
    partitions: int | None = None
    proofs: int | None = None
    bytes_on_disk: int | None = None


@record
class SourceProbed(EventBody):
    KIND = "source_probed"
    ok: bool


@record
class Worked(EventBody):
    """The consumer's word: (intent, accepted, rejected) cumulative, only the ones that changed; is work waiting?"""

    KIND = "worked"
    waiting: bool
    changed: tuple[tuple[IntentId, int, int], ...]


@record
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


@record
class CreateSent(EventBody):
    """Written before the call leaves: from here on the intent may have a contract."""

    KIND = "create_sent"
    intent: IntentId


@record
class CreateAnswered(EventBody):
    """``outcome``: ok | pending (refused, and a contract exists) | refused | doubt. ``code``: why refused."""

    KIND = "create_answered"
    intent: IntentId
    outcome: str
    contract_id: ContractId | None
    code: str = ""


@record
class DestroySent(EventBody):
    KIND = "destroy_sent"
    contract_id: ContractId
    attempt: int


@record
class DestroyAnswered(EventBody):
    """``outcome``: ok | unknown_contract | failed."""

    KIND = "destroy_answered"
    contract_id: ContractId
    outcome: str
    why: str = ""


@record
class StartAnswered(EventBody):
    """A stopped contract was asked to start again (after a top-up)."""

    KIND = "start_answered"
    contract_id: ContractId
    ok: bool


@record
class PostMortemSaved(EventBody):
    KIND = "post_mortem_saved"
    intent: IntentId
    complete: bool
