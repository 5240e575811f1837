"""Every call on the market passes here, in every wiring: a deadline, one more try where that is safe, the rate limit.

An adapter makes one attempt. A create is never tried again: whether the first was done is unknown (``in_doubt``), or
it was refused, and then the rules choose anew. A destroy is tried again by the actuator, with its back-off. Reads have
two tries. A deadline that passed is TimedOut and is not tried again: the beat has no time for a second one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from proverfleet.controller.limiter import Limiter
from proverfleet.controller.tasks import Spawn
from proverfleet.domain.ids import ContractId, OfferId
from proverfleet.errors import Malformed, MarketError, RateLimited, ServerError, TimedOut, Unreachable
from proverfleet.ports import Account, Clock, Created, CreateSpec, Market, Offer, Page, Row

T = TypeVar("T")

DEADLINE_S = {"search": 20.0, "list": 15.0, "get": 10.0, "create": 30.0, "destroy": 20.0, "start": 20.0, "logs": 20.0,
              "account": 10.0}
READ_TRIES = 2
READ_BACK_OFF_S = 1.5
PAGES_MAX = 1_000


class Calls:
    """The Market port with deadlines, second tries for reads, and the rate limiter around it."""

    __slots__ = ("_clock", "_market", "limiter")

    def __init__(self, market: Market, clock: Clock, spawn: Spawn) -> None:
        self._market = market
        self._clock = clock
        self.limiter = Limiter(clock, spawn)

    async def _once(self, op: str, call: Callable[[], Awaitable[T]]) -> T:
        await self.limiter.turn(op)
        try:
            async with asyncio.timeout(DEADLINE_S[op]):
                return await call()
        except TimeoutError:
            raise TimedOut(f"{op}: no answer within {DEADLINE_S[op]:g} s") from None
        except RateLimited as exc:
            self.limiter.refused(exc.retry_after_s)
            raise

    async def _read(self, op: str, call: Callable[[], Awaitable[T]]) -> T:
        for left in range(READ_TRIES - 1, -1, -1):
            try:
                return await self._once(op, call)
            except RateLimited:
                if not left:
                    raise  # else the limiter makes the second try wait
            except (Unreachable, ServerError, Malformed):
                if not left:
                    raise
                await self._clock.sleep(READ_BACK_OFF_S)
        raise AssertionError("unreachable")

    async def search(self, disk_gb: float) -> tuple[Offer, ...]:
        return await self._read("search", lambda: self._market.search(disk_gb))

    async def list_page(self, after: int | None) -> Page:
        return await self._read("list", lambda: self._market.list_page(after))

    async def get(self, contract_id: ContractId) -> Row | None:
        return await self._read("get", lambda: self._market.get(contract_id))

    async def account(self) -> Account:
        return await self._read("account", self._market.account)

    async def logs(self, contract_id: ContractId) -> str:
        return await self._once("logs", lambda: self._market.logs(contract_id))

    async def create(self, offer_id: OfferId, spec: CreateSpec) -> Created:
        return await self._once("create", lambda: self._market.create(offer_id, spec))

    async def destroy(self, contract_id: ContractId) -> None:
        await self._once("destroy", lambda: self._market.destroy(contract_id))

    async def start(self, contract_id: ContractId) -> None:
        await self._once("start", lambda: self._market.start(contract_id))


@dataclass(frozen=True, slots=True)
class Listing:
    """All pages, or none: ``rows`` is empty unless ``whole``. ``total``: what the market says there are (None: it did
    not say); ``skipped``: rows that could not be read; ``error``: the call that failed; ``why``: what is wrong."""

    rows: tuple[Row, ...]
    whole: bool
    total: int | None
    skipped: int
    error: MarketError | None = None
    why: str = ""


async def read_listing(market: Market) -> Listing:
    """Reads every page. A row that comes twice alike is one row; two that differ, a total that does not fit, or a
    page that fails void the listing (incidents I-002, I-023)."""
    rows: dict[ContractId, Row] = {}
    total: int | None = None
    skipped = 0
    after: int | None = None
    seen: dict[int, None] = {}
    for _ in range(PAGES_MAX):
        try:
            page = await market.list_page(after)
        except MarketError as exc:
            return Listing((), False, total, skipped, exc, f"page after {after}: {exc}" if after else str(exc))
        for row in page.rows:
            known = rows.get(row.contract_id)
            if known is not None and known != row:
                return Listing((), False, total, skipped, None, f"contract {row.contract_id} came twice and differs")
            rows[row.contract_id] = row
        skipped += page.skipped
        if page.total is not None:
            if total is not None and page.total != total:
                return Listing((), False, total, skipped, None, f"the total changed from {total} to {page.total}")
            total = page.total
        if page.next is None:
            break
        if page.next in seen:
            return Listing((), False, total, skipped, None, f"the page after {page.next} came twice")
        seen[page.next] = None
        after = page.next
    else:
        return Listing((), False, total, skipped, None, f"more than {PAGES_MAX} pages")
    if total is not None and total != len(rows) + skipped:
        return Listing((), False, total, skipped, None, f"{len(rows)} rows and {skipped} skipped, {total} announced")
    return Listing(tuple(rows.values()), True, total, skipped)
