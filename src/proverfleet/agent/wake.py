"""Wakes one task of the agent. asyncio.Event does more than that, for any number of tasks, at three times the cost."""

from __future__ import annotations

import asyncio


class Wake:
    """``await wake.wait()`` ends at the next ``ring()``; a ring that nobody waits for is forgotten."""

    __slots__ = ("_waited",)

    def __init__(self) -> None:
        self._waited: asyncio.Future[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        self._waited = asyncio.get_running_loop().create_future()
        return self._waited

    def ring(self) -> None:
        if self._waited is not None and not self._waited.done():
            self._waited.set_result(None)
