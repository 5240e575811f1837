"""Keeps calls on the market apart once it asked for that. Destroys go first: they stop money, reads only tell.

Free until the first RateLimited; from then on one call at a time, ``interval_s`` after the other, in order of urgency.
The interval doubles with every further refusal (or follows the wait that the market names) and shrinks after five
quiet minutes. One bucket for all: the market limits per endpoint and identity, and some endpoints share theirs
(incident I-011).
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush

from proverfleet.controller.tasks import Spawn
from proverfleet.ports import Clock

INTERVAL_FIRST_S = 1.0
INTERVAL_MAX_S = 20.0
QUIET_S = 300.0
URGENCY = {"destroy": 0, "create": 1, "start": 1, "list": 2, "get": 3, "search": 4, "account": 5, "logs": 6}
NS = 1_000_000_000


class Limiter:
    """``await limiter.turn(op)`` before each call, ``limiter.refused(wait_s)`` when the market said too frequent."""

    __slots__ = ("_busy", "_clock", "_count", "_next_ns", "_refused_ns", "_spawn", "_waiting", "interval_s")

    def __init__(self, clock: Clock, spawn: Spawn) -> None:
        self._clock = clock
        self._spawn = spawn
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0
        self._busy = False
        self._next_ns = 0
        self._refused_ns = 0
        self.interval_s = 0.0

    async def turn(self, op: str) -> None:
        """Returns when a call of this kind may leave; at once while the market never complained."""
        if not self.interval_s and not self._waiting:
            return
        if not self._waiting and not self._busy:
            self._calm_down()
            now = self._clock.monotonic_ns()
            if now >= self._next_ns:
                self._next_ns = now + int(self.interval_s * NS)
                return
        self._count += 1
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (URGENCY[op], self._count, mine))
        if not self._busy:
            self._busy = True
            self._spawn(self._let_pass(), "limiter")
        await mine

    def refused(self, wait_s: float | None) -> None:
        """The market refused a call for its rate. ``wait_s``: how long it asked us to wait, if it did."""
        now = self._clock.monotonic_ns()
        if wait_s is not None and wait_s > 0:
            self.interval_s = min(INTERVAL_MAX_S, max(self.interval_s, wait_s))
        else:
            self.interval_s = min(INTERVAL_MAX_S, max(INTERVAL_FIRST_S, 2 * self.interval_s))
        self._refused_ns = now
        self._next_ns = max(self._next_ns, now + int(max(wait_s or 0.0, self.interval_s) * NS))

    def _calm_down(self) -> None:
        now = self._clock.monotonic_ns()
        if now - self._refused_ns >= QUIET_S * NS:
            self._refused_ns = now
            self.interval_s = self.interval_s / 2 if self.interval_s > INTERVAL_FIRST_S else 0.0

    async def _let_pass(self) -> None:
        try:
            while self._waiting:
                left_ns = self._next_ns - self._clock.monotonic_ns()
                if left_ns > 0:
                    await self._clock.sleep(left_ns / NS)
                    continue  # a refusal may have moved the moment, and something more urgent may have come
                self._calm_down()
                while self._waiting:
                    turn = heappop(self._waiting)[2]
                    if not turn.done():
                        turn.set_result(None)
                        self._next_ns = self._clock.monotonic_ns() + int(self.interval_s * NS)
                        break
        finally:
            self._busy = False

