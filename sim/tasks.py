"""The loop's own handles, timers and tasks: asyncio's with less bookkeeping, integer times, a fixed order in sets."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.loop import VirtualLoop
    from sim.process import Process

NS = 1_000_000_000


class SoonHandle(asyncio.Handle):
    """A ready callback; asyncio's own does more bookkeeping than a run needs."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., object], args: Sequence[Any], context: contextvars.Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def __repr__(self) -> str:
        return f"<SoonHandle {self._callback!r}>"


class Timer(asyncio.TimerHandle):
    """A cancellable timer. ``owner``: the process whose code set it (it freezes and dies with that process)."""

    __slots__ = ("owner", "virtual_loop", "when_ns")

    def __init__(
        self,
        loop: VirtualLoop,
        when_ns: int,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: contextvars.Context,
        owner: Process | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.virtual_loop = loop
        self.when_ns = when_ns
        self.owner = owner

    def when(self) -> float:
        return self.when_ns / NS

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self.virtual_loop.note_cancelled()

    def cancel_quietly(self) -> None:
        """Cancels without a rebuild of the heap: for callers that walk through it."""
        if not self._cancelled:
            self._cancelled = True
            self.virtual_loop._cancelled_timers += 1

    def __repr__(self) -> str:
        return f"<Timer at {self.when_ns} ns {self._callback!r}>"


class SimTask(asyncio.Task[Any]):
    """A task whose hash is a counter of its loop, so that sets of tasks have one order in every process."""

    __slots__ = ("number", "process")

    def __init__(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        loop: VirtualLoop,
        process: Process | None,
        name: str | None,
        context: contextvars.Context | None,
    ) -> None:
        self.number = number = next(loop.task_numbers)
        self.process = process
        super().__init__(coro, loop=loop, name=name or f"task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number
