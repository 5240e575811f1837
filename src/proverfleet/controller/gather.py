"""What a beat asks the world, all at once and each within its bounds. Answers and failures alike are events.

Nothing here can hold the beat up: every question has its own deadline, and all of them end with the beat's budget. A
question that is not answered by then has failed; the next beat asks the ones behind it first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from proverfleet.controller.brain import Brain
from proverfleet.controller.calls import Calls, read_listing
from proverfleet.controller.observer import Observer
from proverfleet.controller.tasks import Say, Spawn
from proverfleet.domain.events import (
    AccountRead,
    Asks,
    ContractRead,
    EventBody,
    Listed,
    LogsRead,
    Offered,
    Probed,
    SourceProbed,
    Worked,
)
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.ids import ContractId, FleetId, IntentId, mark
from proverfleet.errors import MarketError, PortError
from proverfleet.ports import ControllerPorts, ProbeAnswer

LANES = 4
PROBE_S = 15.0
SOURCE_S = 10.0
ADDRESS_S = 10.0
WORK_S = 15.0
ERROR_CHARS_MAX = 120

Ask = Callable[[ContractId], Awaitable[EventBody]]

_NOT_LISTED = Listed("failed", 0, 0, (), (), "", "no listing within the beat")
_NOT_OFFERED = Offered(True, 0, {}, ())


@dataclass(slots=True)
class Answers:
    """What came in, by question. Defaults are what a question that did not end in time counts as."""

    listed: Listed = _NOT_LISTED
    confirmed: list[EventBody] = field(default_factory=list)
    reads: list[EventBody] = field(default_factory=list)
    probes: list[EventBody] = field(default_factory=list)
    logs: list[EventBody] = field(default_factory=list)
    source: EventBody | None = None
    work: EventBody | None = None
    account: EventBody | None = None
    offered: EventBody | None = None
    address_ok: bool = False

    def facts(self) -> list[EventBody]:
        """The events, in one order whatever came first."""
        out: list[EventBody] = [self.listed, *self.confirmed, *self.reads, *self.probes, *self.logs]
        out += [one for one in (self.source, self.work, self.account, self.offered) if one is not None]
        return out


class Gatherer:
    """Asks; keeps only what tells changed answers from old ones."""

    __slots__ = (
        "_brain", "_calls", "_fleet_id", "_observer", "_ports", "_say", "_spawn", "_work_seen", "_work_waiting",
    )

    def __init__(
        self,
        ports: ControllerPorts,
        calls: Calls,
        observer: Observer,
        brain: Brain,
        fleet_id: FleetId,
        spawn: Spawn,
        say: Say,
    ) -> None:
        self._ports = ports
        self._calls = calls
        self._observer = observer
        self._brain = brain
        self._fleet_id = fleet_id
        self._spawn = spawn
        self._say = say
        self._work_seen: dict[IntentId, tuple[int, int]] = {}
        self._work_waiting: bool | None = None

    async def gather(self, fleet: Fleet, asks: Asks, heard: bool, beat: int, within_s: float) -> Answers:
        """Everything that ``asks`` wants, and what every beat needs. Takes at most ``within_s`` and raises nothing."""
        until = asyncio.get_running_loop().time() + within_s
        answers = Answers()
        jobs: list[tuple[str, Awaitable[None]]] = [
            ("list", self._list(fleet, answers)),
            ("work", self._work(fleet, answers)),
        ]
        if not heard:
            jobs.append(("address", self._address(answers)))
        if asks.account:
            jobs.append(("account", self._account(answers)))
        if asks.source:
            answers.source = SourceProbed(False)
            jobs.append(("source", self._source(answers)))
        if asks.search:
            answers.offered = _NOT_OFFERED
            jobs.append(("search", self._search(fleet, asks, answers)))
        jobs += self._lanes(fleet, asks, answers, beat)
        tasks = [self._spawn(self._bounded(name, job, until), f"ask/{name}") for name, job in jobs]
        for task in tasks:
            await task
        return answers

    async def _bounded(self, name: str, job: Awaitable[None], until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await job
        except TimeoutError:
            self._say("ask_timed_out", name)
        except Exception as exc:  # one odd answer must not cost the beat the others
            self._say("ask_failed", f"{name}: {type(exc).__name__}: {exc}")

    def _lanes(self, fleet: Fleet, asks: Asks, answers: Answers, beat: int) -> list[tuple[str, Awaitable[None]]]:
        """Questions about single contracts, a few at a time. Each beat begins elsewhere in the list, so that none is
        always the one for which no time was left."""
        slots: list[tuple[list[EventBody], int, ContractId, Ask]] = []

        def put(where: list[EventBody], contract_id: ContractId, ask: Ask, failed: EventBody) -> None:
            slots.append((where, len(where), contract_id, ask))
            where.append(failed)  # what it counts as until it is answered

        for contract_id in turned(asks.contracts, beat):
            put(answers.reads, contract_id, self._read, ContractRead(contract_id, "failed", None, "no time"))
        for contract_id in turned(asks.probes, beat):
            put(answers.probes, contract_id, lambda c: self._probe(fleet, c), Probed(contract_id, "unreachable"))
        for contract_id in turned(asks.logs, beat):
            put(answers.logs, contract_id, self._logs, LogsRead(contract_id, "failed"))

        async def lane(first: int) -> None:
            for where, at, contract_id, ask in slots[first::LANES]:
                where[at] = await ask(contract_id)

        return [(f"contracts-{i}", lane(i)) for i in range(min(LANES, len(slots)))]

    # ------------------------------------------------------------ one question each

    async def _list(self, fleet: Fleet, answers: Answers) -> None:
        listing = await read_listing(self._calls)
        weighed = self._observer.weigh(fleet, listing)
        present: dict[ContractId, bool] = {}
        for contract_id in weighed.doubtful:
            read = await self._read(contract_id)
            if read.outcome != "failed":
                present[contract_id] = read.outcome == "present"
            if contract_id in fleet.by_contract or contract_id in fleet.extras:
                answers.confirmed.append(read)
        answers.listed = self._observer.conclude(fleet, weighed, present)

    async def _read(self, contract_id: ContractId) -> ContractRead:
        try:
            row = await self._calls.get(contract_id)
        except MarketError as exc:
            return ContractRead(contract_id, "failed", None, type(exc).__name__)
        if row is None:
            return ContractRead(contract_id, "absent")
        return ContractRead(contract_id, "present", self._observer.fact(row))

    async def _probe(self, fleet: Fleet, contract_id: ContractId) -> Probed:
        try:
            async with asyncio.timeout(PROBE_S):
                found = await self._ports.probe.machine(contract_id)
        except (PortError, TimeoutError):
            return Probed(contract_id, "unreachable")
        return self._probed(fleet, contract_id, found)

    def _probed(self, fleet: Fleet, contract_id: ContractId, found: ProbeAnswer) -> Probed:
        intent = fleet.by_contract.get(contract_id)
        if intent is None and contract_id in fleet.orphans:
            intent = fleet.orphans[contract_id].intent
        if intent is None or found.mark != mark(self._fleet_id, intent):
            return Probed(contract_id, "wrong_peer")  # somebody else's counters are no evidence about this rental
        outcome = "answers" if found.agent_alive or found.daemon_start_s is not None else "no_agent"
        return Probed(contract_id, outcome, found.daemon_start_s, found.partitions, found.proofs, found.bytes_on_disk)

    async def _logs(self, contract_id: ContractId) -> LogsRead:
        try:
            text = await self._calls.logs(contract_id)
        except MarketError:
            return LogsRead(contract_id, "failed")
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
        return LogsRead(contract_id, "ok", digest, len(text))

    async def _work(self, fleet: Fleet, answers: Answers) -> None:
        async with asyncio.timeout(WORK_S):
            try:
                state = await self._ports.work.state()
            except PortError:
                return  # the consumer says nothing: that is no word about anybody
        changed = []
        for intent in sorted(state.by_intent):
            count = state.by_intent[intent]
            now = (count.accepted, count.rejected)
            if intent in fleet.rentals and self._work_seen.get(intent) != now:
                self._work_seen[intent] = now
                changed.append((intent, *now))
        if changed or state.waiting != self._work_waiting:
            self._work_waiting = state.waiting
            answers.work = Worked(state.waiting, tuple(changed))

    async def _account(self, answers: Answers) -> None:
        try:
            answers.account = AccountRead((await self._calls.account()).credit_usd)
        except MarketError as exc:
            self._say("ask_failed", f"account: {str(exc)[:ERROR_CHARS_MAX]}")

    async def _source(self, answers: Answers) -> None:
        async with asyncio.timeout(SOURCE_S):
            try:
                answers.source = SourceProbed(await self._ports.probe.source())
            except PortError:
                return  # we cannot reach it: to a rule that would condemn for it, that is as good as "down"

    async def _address(self, answers: Answers) -> None:
        async with asyncio.timeout(ADDRESS_S):
            try:
                answers.address_ok = await self._ports.probe.public_address()
            except PortError:
                return

    async def _search(self, fleet: Fleet, asks: Asks, answers: Answers) -> None:
        try:
            offers = await self._calls.search(fleet.policy.disk_gb)
        except MarketError as exc:
            self._say("ask_failed", f"search: {str(exc)[:ERROR_CHARS_MAX]}")
            return
        answers.offered = self._brain.choose(fleet, offers, asks.search_machines)

    def forget_work(self) -> None:
        """What was told of the work may not have been stored: the next beat tells it again."""
        self._work_seen.clear()
        self._work_waiting = None


def turned(contracts: tuple[ContractId, ...], by: int) -> list[ContractId]:
    """The contracts in order, beginning ``by`` places further on."""
    if not contracts:
        return []
    at = by % len(contracts)
    return list(contracts[at:] + contracts[:at])
