"""Decisions: what ``decide`` says, as events. Recorded before they are carried out, applied by the fold, never remade.

``Asks`` and ``Plan`` are what a beat hands to the shell; they are not journaled.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from proverfleet.domain.facts import EventBody, OfferFact
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId
from proverfleet.domain.record import record


@record
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


@record
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


@record
class Extra(EventBody):
    """Destroy a contract that is not its rental's: a duplicate of an intent, or an orphan without progress."""

    KIND = "extra"
    rule: str
    contract_id: ContractId
    verdict: str
    reason: str


@record
class Gone(EventBody):
    """Absence is proven: the rental (or extra contract) costs nothing any more."""

    KIND = "gone"
    rule: str
    contract_id: ContractId | None
    intent: IntentId | None
    why: str


@record
class Resolved(EventBody):
    """A create in doubt is settled: this contract carries its label, or (None) none does."""

    KIND = "resolved"
    rule: str
    intent: IntentId
    contract_id: ContractId | None
    why: str


@record
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


@record
class Directed(EventBody):
    """An order to the rental's agent; sent with its next answers until acknowledged."""

    KIND = "directed"
    rule: str
    intent: IntentId
    id: str
    what: str
    args: dict[str, Any]
    reason: str


@record
class Judged(EventBody):
    """A benchmark's outcome: passed | failed | undecided, with the rate that was seen (None: none)."""

    KIND = "judged"
    rule: str
    intent: IntentId
    outcome: str
    rate_proofs_per_hour: float | None
    proofs: int
    reason: str


@record
class Marked(EventBody):
    """A mark beside the stage: suspect | in_doubt | stopped | draining | probation; ``on`` or off."""

    KIND = "marked"
    rule: str
    intent: IntentId
    name: str
    on: bool
    reason: str


@record
class Repriced(EventBody):
    """``min_rate`` computed anew after the price moved."""

    KIND = "repriced"
    rule: str
    intent: IntentId
    price_usd_per_hour: float
    min_rate: float
    min_rate_from: str


@record
class Struck(EventBody):
    """A strike against a machine. ``hard``: one is enough. ``fingerprint`` names the kind of failure."""

    KIND = "struck"
    rule: str
    machine_id: MachineId
    intent: IntentId
    hard: bool
    fingerprint: str
    reason: str


@record
class Blacklisted(EventBody):
    """``until_wall_ns`` None: until taken off. ``evict``: a rental on it is ended even while it progresses."""

    KIND = "blacklisted"
    rule: str
    machine_id: MachineId
    reason: str
    until_wall_ns: int | None
    evict: bool
    on: bool = True


@record
class Braked(EventBody):
    """A brake went on or off. ``name``: list_untrusted | kill_budget | systemic | money | freeze | orphans;
    ``key`` tells several of one name apart (a systemic fingerprint)."""

    KIND = "braked"
    name: str
    key: str
    on: bool
    reason: str
    detail: dict[str, Any] = field(default_factory=dict)


@record
class Alerted(EventBody):
    KIND = "alerted"
    name: str
    key: str
    text: str
    machine_id: MachineId | None
    on: bool = True


@record
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


@record
class Asks:
    """Questions for the shell, answered by events before the next ``decide``. Not journaled: they change nothing."""

    contracts: tuple[ContractId, ...] = ()
    probes: tuple[ContractId, ...] = ()
    logs: tuple[ContractId, ...] = ()
    source: bool = False
    search: bool = False
    search_machines: tuple[MachineId, ...] = ()
    account: bool = True


@record
class Plan:
    """What one beat decided (in order) and wants to know."""

    decisions: tuple[Decision, ...]
    asks: Asks
