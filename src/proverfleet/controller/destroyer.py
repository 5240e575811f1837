"""Destroys contracts until their absence is proven: post-mortem first, then the call, with back-off, for ever.

Nothing but ``Gone`` in the fold ends it: not success (a market may say so and do nothing), not "unknown contract", not
a restart of the controller. A store that cannot be written does not stop it either: the decision is stored already, and
calling again is harmless.
"""

from __future__ import annotations

from proverfleet.controller import postmortem
from proverfleet.controller.brain import Brain
from proverfleet.controller.calls import Calls
from proverfleet.controller.inbox import Inbox
from proverfleet.controller.journal import Journal
from proverfleet.controller.redact import Redactor
from proverfleet.controller.tasks import Say, Spawn
from proverfleet.domain.events import DestroyAnswered, DestroySent, EventBody, PostMortemSaved
from proverfleet.domain.fleet import DestroyState
from proverfleet.domain.ids import ContractId
from proverfleet.errors import MarketError, NotFound, StoreError, StoreFenced
from proverfleet.ports import ControllerPorts
from proverfleet.settings import ControllerSettings

WHY_CHARS_MAX = 120


class Destroyer:
    """One task a contract; ``under_way`` names the contracts that have one."""

    __slots__ = (
        "_brain", "_calls", "_inbox", "_journal", "_ports", "_redact", "_say", "_settings", "_spawn", "under_way",
    )

    def __init__(
        self,
        ports: ControllerPorts,
        calls: Calls,
        journal: Journal,
        inbox: Inbox,
        brain: Brain,
        redact: Redactor,
        settings: ControllerSettings,
        spawn: Spawn,
        say: Say,
    ) -> None:
        self._ports = ports
        self._calls = calls
        self._journal = journal
        self._inbox = inbox
        self._brain = brain
        self._redact = redact
        self._settings = settings
        self._spawn = spawn
        self._say = say
        self.under_way: dict[ContractId, None] = {}

    def reconcile(self) -> None:
        """Starts a task for every contract that the fold wants destroyed and that has none."""
        fleet = self._journal.fleet
        for rental in fleet.rentals.values():
            if rental.stage == "destroying" and rental.contract_id is not None:
                self._begin(rental.contract_id, rental.destroy)
        for extra in fleet.extras.values():
            self._begin(extra.contract_id, extra.destroy)

    def _begin(self, contract_id: ContractId, state: DestroyState) -> None:
        if contract_id in self.under_way or not self._may(state, state.attempts):
            return
        self.under_way[contract_id] = None
        self._spawn(self._end(contract_id), f"destroy/{contract_id}")

    def _may(self, state: DestroyState, attempts: int) -> bool:
        return attempts == 0 or self._brain.destroy_again(self._journal.fleet, state)

    def _state(self, contract_id: ContractId) -> DestroyState | None:
        """What the fold knows of this destroy; None when there is nothing (more) to destroy."""
        fleet = self._journal.fleet
        extra = fleet.extras.get(contract_id)
        if extra is not None:
            return extra.destroy
        intent = fleet.by_contract.get(contract_id)
        rental = fleet.rentals.get(intent) if intent is not None else None
        if rental is None or rental.stage != "destroying" or rental.contract_id != contract_id:
            return None
        return rental.destroy

    async def _end(self, contract_id: ContractId) -> None:
        try:
            try:
                await self._save_post_mortem(contract_id)
            except StoreError as exc:
                self._say("post_mortem_not_saved", f"contract {contract_id}: {exc}")
            await self._until_gone(contract_id)
        except StoreFenced:
            return  # another controller leads, and its fold knows this destroy
        finally:
            self.under_way.pop(contract_id, None)

    async def _save_post_mortem(self, contract_id: ContractId) -> None:
        fleet = self._journal.fleet
        intent = fleet.by_contract.get(contract_id)
        rental = fleet.rentals.get(intent) if intent is not None else None
        if rental is None or rental.contract_id != contract_id or rental.post_mortem or contract_id in fleet.extras:
            return  # of a contract that was never a rental's own, the journal is all there is
        data, complete = await postmortem.build(
            fleet, rental, contract_id, self._inbox, self._calls, self._redact, self._settings.post_mortem_s
        )
        await self._ports.point("post_mortem.built")
        await self._ports.store.save_post_mortem(rental.intent, data)
        await self._journal.commit((PostMortemSaved(rental.intent, complete),))
        await self._ports.point("post_mortem.saved")

    async def _until_gone(self, contract_id: ContractId) -> None:
        tried = 0
        wait_s = self._settings.destroy_first_wait_s
        while True:
            state = self._state(contract_id)
            if state is None or not self._may(state, max(tried, state.attempts)):
                return
            tried = max(tried, state.attempts) + 1
            await self._note(DestroySent(contract_id, tried))
            await self._ports.point("destroy.intent_committed")
            answer = await self._call(contract_id)
            await self._ports.point("destroy.replied")
            await self._note(answer)
            await self._ports.point("destroy.recorded")
            longest_s = self._journal.fleet.policy.destroy_backoff_max_s
            if answer.outcome == "failed":
                await self._ports.clock.sleep(min(wait_s, longest_s))
                wait_s = min(2 * wait_s, longest_s)
            else:
                # Acknowledged is not gone: time for two listings and a read, and if they do not prove it, again.
                await self._ports.clock.sleep(min(self._settings.destroy_confirm_s, longest_s))

    async def _call(self, contract_id: ContractId) -> DestroyAnswered:
        try:
            await self._calls.destroy(contract_id)
        except NotFound:
            return DestroyAnswered(contract_id, "unknown_contract")
        except MarketError as exc:
            why = self._redact(f"{type(exc).__name__}: {exc}", WHY_CHARS_MAX)
            return DestroyAnswered(contract_id, "failed", why)
        except Exception as exc:  # a destroy is never given up, whatever went wrong in the call
            self._say("destroy_error", f"contract {contract_id}: {type(exc).__name__}: {exc}")
            return DestroyAnswered(contract_id, "failed", type(exc).__name__)
        return DestroyAnswered(contract_id, "ok")

    async def _note(self, body: EventBody) -> None:
        """Stores what was done, if the store lets us. Raises StoreFenced."""
        try:
            await self._journal.commit((body,))
        except StoreFenced:
            raise
        except StoreError as exc:
            self._say("destroy_not_recorded", f"{body.KIND}: {exc}")
