"""Carries out what was decided: creates, destroys, starts. Each call in its own task, so that one that hangs holds
nothing up, and each with its intent stored first, so that a crash at any line leaves a record of what may exist.

Destroys are driven by the fold, not by memory: whatever the fold says is to be destroyed and is not proven gone has a
task, after a restart too (``destroyer.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from proverfleet.controller.calls import Calls
from proverfleet.controller.credentials import sign
from proverfleet.controller.destroyer import Destroyer
from proverfleet.controller.inbox import Inbox
from proverfleet.controller.journal import Journal
from proverfleet.controller.tasks import Say, Spawn
from proverfleet.domain.events import (
    Alerted,
    CreateAnswered,
    CreateSent,
    Decision,
    EventBody,
    Gone,
    Rent,
    Restart,
    StartAnswered,
)
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.ids import FleetId, IntentId, MachineId, mark
from proverfleet.errors import (
    AuthBroken,
    MarketError,
    NotAllowed,
    NotFound,
    PortError,
    RateLimited,
    Refused,
    RouteGone,
    StoreError,
    StoreFenced,
)
from proverfleet.ports import ControllerPorts, Created, CreateSpec
from proverfleet.settings import ControllerSettings

RECORD_WAIT_FIRST_S = 2.0
RECORD_WAIT_MAX_S = 30.0
ALERT_S = 20.0
CODE_CHARS_MAX = 60

_CODES: tuple[tuple[type[MarketError], str], ...] = (
    (RateLimited, "rate_limited"), (AuthBroken, "auth_broken"), (NotAllowed, "not_allowed"), (RouteGone, "route_gone"),
    (NotFound, "no_such_ask"),
)


class Actuator:
    """``act(decisions)`` after their commit; ``resume()`` once after a boot; ``reconcile()`` every beat."""

    __slots__ = ("_calls", "_destroyer", "_fleet_id", "_inbox", "_journal", "_ports", "_say", "_settings", "_spawn")

    def __init__(
        self,
        ports: ControllerPorts,
        calls: Calls,
        journal: Journal,
        inbox: Inbox,
        destroyer: Destroyer,
        settings: ControllerSettings,
        fleet_id: FleetId,
        spawn: Spawn,
        say: Say,
    ) -> None:
        self._ports = ports
        self._calls = calls
        self._journal = journal
        self._inbox = inbox
        self._destroyer = destroyer
        self._settings = settings
        self._fleet_id = fleet_id
        self._spawn = spawn
        self._say = say

    def act(self, decisions: Sequence[Decision]) -> None:
        """Starts a task for each decision that is a deed. The decisions are stored already."""
        for decision in decisions:
            if isinstance(decision, Rent):
                self._spawn(self._guarded(self._create(decision), decision.intent), f"create/{decision.intent}")
            elif isinstance(decision, Restart):
                self._spawn(self._start(decision), f"start/{decision.contract_id}")
            elif isinstance(decision, Alerted) and decision.on:
                self._spawn(self._alert(decision), f"alert/{decision.name}")
            elif isinstance(decision, Gone) and decision.intent is not None:
                self._inbox.forget(decision.intent)
        self.reconcile()

    def reconcile(self) -> None:
        """Every contract that the fold wants destroyed has a task that destroys it."""
        self._destroyer.reconcile()

    async def resume(self) -> None:
        """After a boot: a create that was under way is never sent again. One whose CreateSent is stored may have left
        and is in doubt; one without it has not left. Raises StoreError."""
        bodies: list[EventBody] = []
        for rental in self._journal.fleet.rentals.values():
            if rental.contract_id is None and rental.stage != "gone" and not rental.in_doubt and not rental.refused:
                if rental.create_sent:
                    bodies.append(CreateAnswered(rental.intent, "doubt", None, "restarted"))
                elif rental.live:
                    bodies.append(CreateAnswered(rental.intent, "refused", None, "not_sent"))
        if bodies:
            await self._journal.commit(bodies)
        self.reconcile()

    # ------------------------------------------------------------ create

    async def _create(self, rent: Rent) -> None:
        fleet = self._journal.fleet
        rental = fleet.rentals.get(rent.intent)
        if rental is None or not rental.live:
            return
        if listed(fleet, rent.offer.machine_id, self._ports.clock.wall_ns()):
            await self._record(CreateAnswered(rent.intent, "refused", None, "blacklisted"))
            return
        try:
            # The intent is committed before the call leaves. From here on a contract with this label may exist, and
            # whatever happens to this process, the journal says so: after a restart the create is in doubt, and is
            # resolved by its label instead of being sent a second time (I-029, I-030).
            await self._journal.commit((CreateSent(rent.intent),))
        except StoreFenced:
            return
        except StoreError as exc:
            # It could not be written, so it is not sent: an unwritten create is a contract that nobody would look for.
            self._say("create_not_sent", f"{rent.intent}: {exc}")
            await self._record(CreateAnswered(rent.intent, "refused", None, "not_sent"))
            return
        await self._ports.point("create.intent_committed")
        answer = await self._ask_for(rent, rental)
        await self._ports.point("create.replied")
        await self._record(answer)
        await self._ports.point("create.recorded")
        if not rental.live:
            self.reconcile()  # it was ended while the call was under way, and now has something to destroy

    async def _ask_for(self, rent: Rent, rental: Rental) -> CreateAnswered:
        """The call, once, and what its outcome means."""
        spec = CreateSpec(
            label=mark(self._fleet_id, rent.intent),
            image=rental.image,
            disk_gb=rent.disk_gb,
            env=self._env(rent.intent),
            bid_usd_per_hour=rent.bid_usd_per_hour,
        )
        try:
            created = await self._calls.create(rent.offer.offer_id, spec)
        except MarketError as exc:
            return _failed(rent.intent, exc)
        except Exception as exc:  # nobody knows what an unexpected error left behind: so it is in doubt
            self._say("create_error", f"{rent.intent}: {type(exc).__name__}: {exc}")
            return CreateAnswered(rent.intent, "doubt", None, type(exc).__name__)
        return _answered(rent.intent, created)

    def _env(self, intent: IntentId) -> dict[str, str]:
        policy = self._journal.fleet.policy
        env = {
            **self._settings.agent_env,
            "PF_FLEET": self._fleet_id,
            "PF_INTENT": intent,
            "PF_MARK": mark(self._fleet_id, intent),
            "PF_TOKEN": sign(self._settings.fleet_key, self._fleet_id, intent),
            "PF_REPORT_S": f"{policy.report_s:g}",
            "PF_LEASE_IDLE_S": f"{policy.lease_idle_s:g}",
            "PF_BATCH_PROOFS": str(policy.batch_proofs),
            "PF_DISK_GB": f"{policy.disk_gb:g}",
        }
        if policy.lease_hard_s is not None:
            env["PF_LEASE_HARD_S"] = f"{policy.lease_hard_s:g}"
        return env

    async def _guarded(self, work: object, intent: IntentId) -> None:
        try:
            await work  # type: ignore[misc]
        except StoreFenced:
            return  # another controller leads; it finds the create in doubt and resolves it

    async def _record(self, body: EventBody) -> None:
        """Stores an outcome, however long the store refuses: until then only this task knows it. Raises StoreFenced."""
        wait_s = RECORD_WAIT_FIRST_S
        while True:
            try:
                await self._journal.commit((body,))
                return
            except StoreFenced:
                raise
            except StoreError as exc:
                self._say("outcome_not_stored", f"{body.KIND}: {exc}")
            await self._ports.clock.sleep(wait_s)
            wait_s = min(RECORD_WAIT_MAX_S, 2 * wait_s)

    # ------------------------------------------------------------ start, alert

    async def _start(self, restart: Restart) -> None:
        try:
            await self._calls.start(restart.contract_id)
            ok = True
        except MarketError:
            ok = False
        await self._ports.point("start.replied")
        try:
            await self._journal.commit((StartAnswered(restart.contract_id, ok),))
        except StoreError as exc:
            self._say("outcome_not_stored", f"start of {restart.contract_id}: {exc}")  # the rule asks again

    async def _alert(self, alert: Alerted) -> None:
        try:
            async with asyncio.timeout(ALERT_S):
                await self._ports.notifier.alert(alert.name, alert.text, alert.machine_id)
        except (PortError, TimeoutError, OSError) as exc:
            self._say("alert_not_sent", f"{alert.name}: {type(exc).__name__}")


def listed(fleet: Fleet, machine_id: MachineId, wall_ns: int) -> bool:
    """Is the machine on the blacklist now? Asked again right before the create: the offer may be minutes old."""
    entry = fleet.blacklist.get(machine_id)
    return entry is not None and (entry.until_wall_ns is None or entry.until_wall_ns > wall_ns)


def _answered(intent: IntentId, created: Created) -> CreateAnswered:
    if created.contract_id is None:
        return CreateAnswered(intent, "doubt", None, "no_id")
    if not created.started:
        # "success: false" with a contract number: it exists and bills its disk (INV-2).
        return CreateAnswered(intent, "pending", created.contract_id, created.text[:CODE_CHARS_MAX])
    return CreateAnswered(intent, "ok", created.contract_id)


def _failed(intent: IntentId, exc: MarketError) -> CreateAnswered:
    if exc.in_doubt:
        return CreateAnswered(intent, "doubt", None, type(exc).__name__)
    if isinstance(exc, Refused):
        return CreateAnswered(intent, "refused", None, exc.code[:CODE_CHARS_MAX])
    code = next((code for kind, code in _CODES if isinstance(exc, kind)), type(exc).__name__)
    return CreateAnswered(intent, "refused", None, code)
