"""The Market port of one controller process, onto the simulated market. Each page of a listing is a request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from proverfleet.domain.ids import ContractId, OfferId
from proverfleet.ports import Account, Created, CreateSpec, Offer, Page, Row
from sim.truth import CallTruth

if TYPE_CHECKING:
    from sim.process import Process
    from sim.world import World

T = TypeVar("T")


class DirectMarket:
    """What the caller is told is sim/counter.py's. A call is in ``truth.calls`` once it left the process, whatever
    becomes of it. No deadline of its own: a call that is never answered waits for the caller's."""

    __slots__ = ("_counter", "_process", "_world")

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._counter = world.market.counter

    async def search(self, disk_gb: float) -> tuple[Offer, ...]:
        return await self._ask("search", "", lambda call: self._counter.search(call, disk_gb))

    async def create(self, offer_id: OfferId, spec: CreateSpec) -> Created:
        lot = self._world.market.lot_of_offer(offer_id)
        machine_id = lot.spec.id if lot is not None else None
        if self._process.alive:
            self._world.mark("requested", None, machine_id)
        return await self._ask(
            "create", machine_id, lambda call: self._counter.create(call, offer_id, spec),
            machine_id=machine_id, label=spec.label,
        )

    async def list_page(self, after: int | None) -> Page:
        return await self._ask("list", "", lambda call: self._counter.list_page(call, after))

    async def get(self, contract_id: ContractId) -> Row | None:
        return await self._ask("get", contract_id, lambda call: self._counter.get(call, contract_id),
                               contract_id=contract_id)

    async def destroy(self, contract_id: ContractId) -> None:
        truth = self._world.truth.contracts.get(contract_id)
        if self._process.alive and truth is not None and truth.gone is None and "destroying" not in truth.marks:
            self._world.mark("destroying", contract_id)
        await self._ask("destroy", contract_id, lambda call: self._counter.destroy(call, contract_id),
                        contract_id=contract_id)

    async def start(self, contract_id: ContractId) -> None:
        await self._ask("start", contract_id, lambda call: self._counter.start(call, contract_id),
                        contract_id=contract_id)

    async def logs(self, contract_id: ContractId) -> str:
        return await self._ask("logs", contract_id, lambda call: self._counter.logs(call, contract_id),
                               contract_id=contract_id)

    async def account(self) -> Account:
        return await self._ask("user", "", self._counter.account)

    async def _ask(
        self, op: str, target: object, serve: Callable[[CallTruth], Coroutine[Any, Any, T]], *,
        contract_id: int | None = None, machine_id: int | None = None, label: str | None = None,
    ) -> T:
        process, world = self._process, self._world
        call = CallTruth(op, world.loop.now_ns, process.name, contract_id, machine_id, label)
        if contract_id is not None:
            about = world.truth.contracts.get(contract_id)
            call.machine_id = about.machine_id if about is not None else None
        if process.alive:
            world.truth.calls.append(call)
        try:
            return await world.net.call(
                process, f"market.{op}", target, lambda: serve(call), path=world.net.controller_reachable
            )
        except BaseException:
            call.failed = True
            raise
