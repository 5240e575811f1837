"""The market's counter: what one call is answered, with whatever market fault is on. Every wiring asks here.

Each fault is the typed outcome of the port call (reference/faults.md, "market."). An error that a fault caused carries
that fault as ``fault`` (:func:`cause_of`), so that a wire can give it the right bytes. A call that is never answered
waits for ever: the caller's own deadline ends it. A fault with ``machine`` acts only on calls and rows about it.
In scope: every • kind of the market. Out of scope: latency and reachability (the ports), kinds that happen by
themselves (sim/faults/market_faults.py).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from proverfleet.domain.ids import ContractId
from proverfleet.errors import (
    AuthBroken,
    Malformed,
    MarketError,
    NotAllowed,
    RateLimited,
    Refused,
    RouteGone,
    ServerError,
    Unreachable,
)
from proverfleet.ports import Account, Created, CreateSpec, Offer, Page, Row
from sim.rows import poisoned, restated, row_of
from sim.truth import NS, CallTruth

if TYPE_CHECKING:
    from sim.contract import SimContract
    from sim.market import SimMarket
    from sim.spec import FaultSpec
    from sim.world import World

T = TypeVar("T")
Hits = dict[int, "tuple[FaultSpec, int | None]"]
"""Faults that changed an answer, by index."""
PAGE = 25
KINDS = (
    "market.list_empty", "market.list_partial", "market.list_stale", "market.list_garbage", "market.list_gone_410",
    "market.row_poison", "market.status", "market.rate_limit", "market.error", "market.hang", "market.lost_request",
    "market.lost_reply", "market.auth_broken", "market.key_scope", "market.no_such_ask", "market.insufficient_credit",
    "market.create_pending", "market.create_without_id", "market.destroy_fails", "market.get_null",
)


def cause_of(error: BaseException) -> FaultSpec | None:
    """The fault that made the counter answer with this error; None: it is the market's own word."""
    return getattr(error, "fault", None)


def _caused(error: MarketError, fault: FaultSpec) -> MarketError:
    error.fault = fault  # type: ignore[attr-defined]
    return error


class Counter:
    """Serves calls at the market. ``call``: the world's record of the call; ``done`` is set when the deed is done."""

    __slots__ = ("_accepted", "_calm", "_odd_turns", "market", "world")

    def __init__(self, world: World, market: SimMarket) -> None:
        self.world = world
        self.market = market
        self._accepted: dict[str, int] = {}  # operation -> when a call was last let in (rate_limit)
        self._odd_turns: dict[int, int] = {}  # row_poison with ``alternate``: readings so far, by fault
        self._calm = True
        world.on_change.append(self._look)

    def _look(self) -> None:
        active = self.world.faults.active
        self._calm = all(active(kind) is None for kind in KINDS)

    # ------------------------------------------------------------ the calls

    async def search(self, call: CallTruth, disk_gb: float) -> tuple[Offer, ...]:
        return await self._serve("search", None, call, lambda: self.market.offers(disk_gb))

    async def create(self, call: CallTruth, offer_id: int, spec: CreateSpec) -> Created:
        lot = self.market.lot_of_offer(offer_id)
        about = lot.spec.id if lot is not None else None
        return await self._serve("create", about, call, lambda: self._create(call, offer_id, about, spec))

    async def list_page(self, call: CallTruth, after: int | None) -> Page:
        return await self._serve("list", None, call, lambda: self._page(after))

    async def get(self, call: CallTruth, contract_id: int) -> Row | None:
        about = self._about(contract_id)
        return await self._serve("get", about, call, lambda: self._get(contract_id, about))

    async def destroy(self, call: CallTruth, contract_id: int, *, by: str = "destroy") -> None:
        """``by`` lease: with the container's own key."""
        about = self._about(contract_id)
        await self._serve("destroy", about, call, lambda: self._destroy(call, contract_id, about, by),
                          own_key=by == "lease")

    async def start(self, call: CallTruth, contract_id: int) -> None:
        await self._serve("start", self._about(contract_id), call, lambda: self.market.start(contract_id))

    async def logs(self, call: CallTruth, contract_id: int) -> str:
        return await self._serve("logs", self._about(contract_id), call, lambda: self.market.logs(contract_id))

    async def account(self, call: CallTruth) -> Account:
        return await self._serve("user", None, call, lambda: Account(max(0.0, self.market.ledger.credit_usd())))

    def _about(self, contract_id: int) -> int | None:
        contract = self.market.contracts.get(contract_id)
        return contract.machine_id if contract is not None else None

    # ------------------------------------------------------------ what may befall any call

    def _hit(self, kind: str, op: str, about: int | None) -> FaultSpec | None:
        """The fault of ``kind`` that acts on this call, if one is on; it is counted as a hit."""
        for fault in self.world.faults.all_active(kind, about):
            if fault.params.get("op", op) in (op, "all"):
                self.world.faults.consume(fault, about)
                return fault
        return None

    async def _serve(
        self, op: str, about: int | None, call: CallTruth, deed: Callable[[], T], *, own_key: bool = False
    ) -> T:
        if self._calm:
            value = deed()
            call.done = True
            return value
        if self._hit("market.lost_request", op, about):
            await self._never()
        hang = self._hit("market.hang", op, about)
        if hang is None:
            return await self._checked(op, about, call, deed, own_key)
        delay_s = float(hang.params["delay_s"])
        if hang.params["effect"] == "last":
            await self._wait(delay_s)
            return await self._checked(op, about, call, deed, own_key)
        try:
            value = await self._checked(op, about, call, deed, own_key)
        except MarketError:
            await self._wait(delay_s)
            raise
        await self._wait(delay_s)
        return value

    async def _checked(self, op: str, about: int | None, call: CallTruth, deed: Callable[[], T], own_key: bool) -> T:
        error = self._hit("market.error", op, about)
        if error is not None:
            if error.params["after_effect"]:
                self._try(call, deed)
            status = int(error.params["status"])
            raise _caused(ServerError(status) if status else Unreachable("connection refused"), error)
        if not own_key:  # a container's own key is another identity than the account's
            self._at_the_door(op, about)
        try:
            value = deed()
        except _NoAnswer:
            await self._never()
            raise
        call.done = op != "destroy" or call.contract_id not in self.market.live
        if self._hit("market.lost_reply", op, about):
            await self._never()
        return value

    def _try(self, call: CallTruth, deed: Callable[[], object]) -> None:
        try:
            deed()
            call.done = True
        except MarketError:
            pass  # the error that the caller sees is another one anyway

    def _at_the_door(self, op: str, about: int | None) -> None:
        """Rate limit and key: one bucket an operation for the whole account, on virtual time."""
        now = self.world.loop.now_ns
        for limit in self.world.faults.all_active("market.rate_limit", about):
            if limit.params["op"] not in (op, "all"):
                continue
            if now - self._accepted.get(op, -(10**18)) < float(limit.params["interval_s"]) * NS:
                self.world.faults.consume(limit, about)
                raise _caused(RateLimited(float(limit.params["retry_after_s"]) or None), limit)
        self._accepted[op] = now
        broken = self._hit("market.auth_broken", op, about)
        if broken is not None:
            raise _caused(AuthBroken("auth_error: Invalid user key"), broken)
        for scope in self.world.faults.all_active("market.key_scope", about):
            if scope.params["denies"] == op and scope.params["op"] in (op, "all"):
                self.world.faults.consume(scope, about)
                raise _caused(NotAllowed(f"403: this key may not {op}"), scope)

    async def _never(self) -> None:
        await self.world.bury(asyncio.Future(loop=self.world.loop))

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            await self._never()
        future: asyncio.Future[None] = asyncio.Future(loop=self.world.loop)
        self.world.loop.wake_at(self.world.loop.now_ns + round(seconds * NS), future)
        await future

    # ------------------------------------------------------------ create, destroy

    def _create(self, call: CallTruth, offer_id: int, about: int | None, spec: CreateSpec) -> Created:
        market = self.market
        refused = self._hit("market.insufficient_credit", "create", about)
        if refused is not None:
            raise _caused(Refused("insufficient_credit", "Your account lacks credit; see the billing page."), refused)
        lot = market.lot_of_offer(offer_id)
        if lot is not None and market.rentable(lot):
            taken = self._hit("market.no_such_ask", "create", about)
            if taken is not None:
                if taken.params["gone"]:
                    market.taken_by_others(lot)
                raise _caused(Refused("no_such_ask", f"Instance type by id {offer_id} is not available."), taken)
        would = lot is not None and market.rentable(lot) and not market.ledger.empty
        pending = self._hit("market.create_pending", "create", about) if would else None
        contract = market.create(
            offer_id, label=spec.label, image=spec.image, disk_gb=spec.disk_gb, env=spec.env,
            bid_usd_per_hour=spec.bid_usd_per_hour, pending=pending is not None, sent_ns=call.sent,
        )
        call.contract_id = contract.contract_id
        if pending is not None and float(pending.params["starts_after_s"]) > 0:
            market.later(float(pending.params["starts_after_s"]),
                         lambda: contract.resume() if contract.stopped == "pending" else None)
        nameless = self._hit("market.create_without_id", "create", about)
        if nameless is not None:
            return Created(None, True, str(nameless.params["how"]))
        if contract.stopped == "pending":
            return Created(ContractId(contract.contract_id), False, "success:false, the contract is stopped")
        return Created(ContractId(contract.contract_id), True)

    def _destroy(self, call: CallTruth, contract_id: int, about: int | None, by: str) -> None:
        market = self.market
        market.find(contract_id)
        fails = self._hit("market.destroy_fails", "destroy", about)
        how = fails.params["how"] if fails is not None else ""
        if fails is not None and how == "error":
            raise _caused(ServerError(int(fails.params["status"])), fails)
        if how == "timeout":
            raise _NoAnswer
        if fails is not None and how == "slow":
            market.later(float(fails.params["delay_s"]), lambda: self._end(call, contract_id, by))
        elif how != "ignored":
            market.end(contract_id, by)

    def _end(self, call: CallTruth, contract_id: int, by: str) -> None:
        call.done = call.done or contract_id in self.market.live
        self.market.end(contract_id, by)

    # ------------------------------------------------------------ reading

    def _get(self, contract_id: int, about: int | None) -> Row | None:
        contract = self.market.live.get(contract_id)
        if self._calm:
            return self._true_row(contract) if contract is not None else None
        if contract is not None and self._hit("market.get_null", "get", about):
            return None
        stale = self.world.faults.active("market.list_stale", about)
        if stale is not None and stale.params["by_id"]:
            self.world.faults.consume(stale, about)
            old = self.market.contracts.get(contract_id)
            return self._old_row(old, float(stale.params["age_s"])) if old is not None else None
        if contract is None:
            return None
        hits: Hits = {}
        row = self._odd(self._true_row(contract), contract, "get", hits)
        self._count(hits)
        if row is None:
            raise Malformed(f"the row of contract {contract_id} cannot be read")
        return row

    def _true_row(self, contract: SimContract) -> Row:
        return row_of(contract, contract.state, contract.readings())

    def _old_row(self, contract: SimContract, age_s: float) -> Row | None:
        """As it stood so long ago; None: it did not exist then."""
        at = self.world.loop.now_ns - round(age_s * NS)
        state = contract.state_at(at)
        return None if state is None else row_of(contract, state, contract.readings_at(at))

    def _page(self, after: int | None) -> Page:
        market = self.market
        if self._calm:
            ids = market.ids
            start = 0 if after is None else bisect_right(ids, after)
            chosen = ids[start : start + PAGE]
            more = start + PAGE < len(ids)
            rows = tuple([self._true_row(market.live[i]) for i in chosen])
            return Page(rows, chosen[-1] if more else None, len(ids))
        self._listing_fails()
        hits: Hits = {}
        rows_all, hidden, twice = self._partial(self._entries(hits), after, hits)
        start = 0 if after is None else bisect_right([i for i, _ in rows_all], after)
        shown = rows_all[start : start + PAGE]
        more = start + PAGE < len(rows_all)
        out: list[Row] = []
        skipped = 0
        for contract_id, row in shown:
            odd = self._odd(row, market.contracts[contract_id], "list", hits)
            if odd is None:
                skipped += 1
                continue
            out.append(odd)
            if contract_id == twice:
                out.append(odd)
        self._count(hits)
        return Page(tuple(out), shown[-1][0] if more else None, len(rows_all) + hidden, skipped)

    def _count(self, hits: Hits) -> None:
        """A call is one hit, however many of its rows a fault changed."""
        for fault, about in hits.values():
            self.world.faults.consume(fault, about)

    def _listing_fails(self) -> None:
        gone = self._hit("market.list_gone_410", "list", None)
        if gone is not None:
            raise _caused(RouteGone("deprecated_endpoint"), gone)
        garbage = self._hit("market.list_garbage", "list", None)
        if garbage is not None:
            raise _caused(Malformed(f"no listing: {garbage.params['how']}"), garbage)
        empty = self.world.faults.active("market.list_empty", None)
        if empty is not None and empty.params["how"] != "rows":
            self.world.faults.consume(empty)
            raise _caused(Malformed(f"no listing: {empty.params['how']}"), empty)

    def _entries(self, hits: Hits) -> list[tuple[int, Row]]:
        """Rows by rising id, as old as the replica is, without those that an empty listing lacks."""
        faults, out = self.world.faults, []
        stale_on = faults.active("market.list_stale") is not None
        for contract in self.market.contracts.values() if stale_on else self.market.live.values():
            about = contract.machine_id
            row: Row | None
            stale = faults.active("market.list_stale", about) if stale_on else None
            if stale is not None:
                row = self._old_row(contract, float(stale.params["age_s"]))
                hits[stale.index] = stale, about
            else:
                row = None if contract.gone else self._true_row(contract)
            if row is None:
                continue
            empty = faults.active("market.list_empty", about)
            if empty is not None:
                hits[empty.index] = empty, about
                continue
            out.append((contract.contract_id, row))
        return out

    def _partial(
        self, rows: list[tuple[int, Row]], after: int | None, hits: Hits
    ) -> tuple[list[tuple[int, Row]], int, int | None]:
        """(rows that are there, rows that only the total counts, the contract whose row comes twice)."""
        fault = self.world.faults.active("market.list_partial")
        if fault is None or not rows:
            return rows, 0, None
        scoped = [i for i, row in rows if fault.machines is not None and self._about(i) in fault.machines]
        if fault.machines is not None and not scoped:
            return rows, 0, None
        how = fault.params["how"]
        if how == "page_error":
            ids = [i for i, _ in rows]
            start = 0 if after is None else bisect_right(ids, after)
            here = ids[start : start + PAGE]
            fails = any(i in here for i in scoped) if scoped else after is not None or len(ids) <= PAGE
            if fails:
                self.world.faults.consume(fault)
                raise _caused(ServerError(500, "a page failed"), fault)
            return rows, 0, None
        hits[fault.index] = fault, None
        if how == "row_twice":
            return rows, 0, scoped[0] if scoped else rows[0][0]
        if how == "row_moves":
            # It moves to a page that was read already, or that is never asked for: in either case nobody sees it.
            lost = {scoped[0] if scoped else rows[min(PAGE, len(rows) - 1)][0]}
        else:
            lost = set(scoped) if scoped else {i for n, (i, _) in enumerate(rows) if n % 2 or len(rows) == 1}
        kept = [entry for entry in rows if entry[0] not in lost]
        return kept, len(lost) if fault.params["total"] == "true" else 0, None

    def _odd(self, row: Row, contract: SimContract, op: str, hits: Hits) -> Row | None:
        """The row with what the faults about rows make of it; None: it cannot be read."""
        faults, about = self.world.faults, contract.machine_id
        for fault in faults.all_active("market.status", about):
            if fault.params["op"] in (op, "all"):
                hits[fault.index] = fault, about
                row = restated(row, fault)
        for fault in faults.all_active("market.row_poison", about):
            if fault.params["op"] not in (op, "all"):
                continue
            turn = self._odd_turns[fault.index] = self._odd_turns.get(fault.index, 0) + 1
            if fault.params["alternate"] and turn % 2 == 0:
                continue
            hits[fault.index] = fault, about
            found = poisoned(row, fault)
            if found is None:
                return None
            row = found
        return row


class _NoAnswer(MarketError):
    """The call is not answered any more."""
