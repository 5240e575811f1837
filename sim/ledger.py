"""The account's credit: what all contracts on it cost runs it down by the second.

Computed at change points: between two of them the rate is constant, so the credit is known exactly at any moment, and
so is the moment at which it runs out. ``truth.credit`` gets a step at each change and each reading.
In scope: GPU and storage, top-ups, exhaustion. Out of scope: bandwidth charges, cards on file, discounts, invoices.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from sim.truth import NS

if TYPE_CHECKING:
    from sim.world import World

HOUR_NS = 3600 * NS
NOTHING_USD = 1e-9


class Ledger:
    """``rate_usd_per_hour``: what everything costs now. ``out`` is called at the moment at which credit runs out."""

    __slots__ = ("_at", "_credit", "_is_out", "_out", "_turn", "rate_usd_per_hour", "world")

    def __init__(self, world: World, credit_usd: float, out: Callable[[], None]) -> None:
        self.world = world
        self.rate_usd_per_hour = 0.0
        self._credit = credit_usd
        self._at = world.now_ns()
        self._out = out
        self._is_out = False
        self._turn = 0
        world.truth.credit.set(self._at, credit_usd)

    def credit_usd(self) -> float:
        """What is left now; negative when more was billed than there was."""
        now = self.world.now_ns()
        if now > self._at:
            self._credit -= self.rate_usd_per_hour * (now - self._at) / HOUR_NS
            self._at = now
        self.world.truth.credit.set(now, self._credit)
        return self._credit

    @property
    def empty(self) -> bool:
        return self.credit_usd() <= NOTHING_USD

    def change(self, by_usd_per_hour: float) -> None:
        """From now on everything costs so much more (or less)."""
        self.credit_usd()
        self.rate_usd_per_hour += by_usd_per_hour
        if abs(self.rate_usd_per_hour) < NOTHING_USD:
            self.rate_usd_per_hour = 0.0
        self._plan()

    def set_credit(self, usd: float) -> None:
        """The credit is ``usd`` from now on."""
        self.credit_usd()
        self._credit = usd
        self.world.truth.credit.set(self._at, usd)
        self._plan()

    def top_up(self, usd: float) -> None:
        """Somebody pays in; a debt is paid from it first."""
        self.set_credit(self.credit_usd() + usd)

    def _plan(self) -> None:
        """One call at the moment at which nothing will be left, as things stand."""
        self._turn += 1
        turn, loop = self._turn, self.world.loop
        if self._credit > NOTHING_USD:
            self._is_out = False
            if self.rate_usd_per_hour <= 0.0:
                return
        elif self._is_out:
            return
        left_ns = 0 if self._credit <= NOTHING_USD else ceil(self._credit / self.rate_usd_per_hour * HOUR_NS)

        def look() -> None:
            if turn == self._turn and self.empty and not self._is_out:
                self._is_out = True
                self._out()

        loop.at(loop.now_ns + left_ns, look)
