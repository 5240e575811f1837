"""The virtual loop: asyncio on integer nanoseconds that jump to the next thing that happens.

One heap holds everything with a time, ordered by (ns, sequence number): asyncio's timers, sleeping futures, plain
calls and SimPy's events. An entry's consequences (the ready queue) run to the end before the next entry, also at the
same instant. Nothing waits in real time, nothing starts a thread, and every error ends the run.

Out of scope: sockets, subprocesses, signals, executors (each raises).
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import sys
import threading
from asyncio import events as _events
from collections.abc import Callable, Coroutine, Generator, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from simpy.events import Event

from sim.env import SIMPY, VirtualEnvironment, fire
from sim.tasks import NS as NS
from sim.tasks import SimTask as SimTask
from sim.tasks import SoonHandle as SoonHandle
from sim.tasks import Timer as Timer

if TYPE_CHECKING:
    from sim.process import Process

T = TypeVar("T")
FOREVER = (1 << 63) - 1
WAKE, CALL, TIMER = 0, 1, 2  # kinds of heap entries: a future to wake, a function to call, a cancellable timer
SPINS_MAX = 5_000_000  # ready callbacks at one instant before the run is called stuck
COMPACT_MIN = 256

_copy_context = contextvars.copy_context


class RunFailed(Exception):
    """The run cannot go on: an exception reached the loop. The original is ``__cause__``."""


class Deadlock(RunFailed):
    """Nothing is ready and nothing will ever happen, though the run was not over."""


class Livelock(RunFailed):
    """Callbacks go on for ever without time passing."""


class Forbidden(RuntimeError):
    """Something that would leave virtual time: a thread, a socket, name resolution."""


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's loop on virtual time; ``env`` is the SimPy environment on the same order."""

    get_debug = staticmethod(bool)  # False, and no Python code: every future asks when it is made

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.heap: list[tuple[int, int, int, Any]] = []
        self.sequence = itertools.count(1)
        self.task_numbers = itertools.count(1)
        self.serving: Process | None = None  # whose code runs outside any task (sim/net.py)
        self.failures: list[tuple[str, BaseException | None]] = []
        self._cancelled_timers = 0
        self._owner_thread = threading.get_ident()
        self.env = VirtualEnvironment(self)
        self.set_debug(False)

    # ------------------------------------------------------------ time and timers

    def time(self) -> float:
        """Seconds since the start. Exact to the ns below 2**51 ns (26 days)."""
        return self.now_ns / NS

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Timer:
        return self.timer_ns(round(when * NS), callback, args, context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Timer:
        return self.timer_ns(self.now_ns + round(delay * NS), callback, args, context)

    def timer_ns(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: Sequence[Any] = (),
        context: contextvars.Context | None = None,
    ) -> Timer:
        """A cancellable timer at ``when_ns``; one in the past fires at this instant."""
        timer = Timer(self, max(when_ns, self.now_ns), callback, args, context or _copy_context(), self.owner())
        heappush(self.heap, (timer.when_ns, next(self.sequence), TIMER, timer))
        return timer

    def at(self, when_ns: int, function: Callable[[], object]) -> None:
        """Calls ``function`` at ``when_ns``. The cheap one: it cannot be cancelled and belongs to nobody."""
        heappush(self.heap, (when_ns, next(self.sequence), CALL, function))

    def wake_at(self, when_ns: int, future: asyncio.Future[None]) -> None:
        """Completes ``future`` at ``when_ns`` unless it is done by then."""
        heappush(self.heap, (when_ns, next(self.sequence), WAKE, future))

    def event_future(self, event: Event) -> asyncio.Future[Any]:
        """A future for a SimPy event, so that a task can await it. A failed event becomes the future's exception."""
        future: asyncio.Future[Any] = self.create_future()

        def arrived(done: Event) -> None:
            if not done.ok:
                done.defused = True
            if not future.done():
                if done.ok:
                    future.set_result(done.value)
                else:
                    failure: Any = done.value
                    future.set_exception(failure)

        if event.callbacks is None:
            arrived(event)
        else:
            event.callbacks.append(arrived)
        return future

    def note_cancelled(self) -> None:
        """A timer was cancelled; the heap is rebuilt without such once they are the greater part."""
        self._cancelled_timers += 1
        if self._cancelled_timers > COMPACT_MIN and self._cancelled_timers * 2 > len(self.heap):
            self.heap[:] = [e for e in self.heap if not (e[2] == TIMER and e[3].cancelled())]
            heapify(self.heap)
            self._cancelled_timers = 0

    # ------------------------------------------------------------ callbacks and tasks

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = SoonHandle(callback, args, _copy_context() if context is None else context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._owner_thread:
            raise Forbidden("another thread called into the virtual loop: nothing under simulation may start one")
        return self.call_soon(callback, *args, context=context)

    def owner(self) -> Process | None:
        """The process whose code runs now; None for the world's own."""
        if self.serving is not None:
            return self.serving
        current = asyncio.current_task(self) if _events._get_running_loop() is self else None
        return current.process if isinstance(current, SimTask) else None

    def create_task(  # type: ignore[override]
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        process: Process | None = None,
    ) -> asyncio.Task[T]:
        """A task of ``process``, by default of the process whose code creates it."""
        owner = process if process is not None else self.owner()
        task = SimTask(coro, self, owner, name, context)
        if owner is not None:
            owner.adopt(task)
        return task

    # ------------------------------------------------------------ running

    def run_until(self, when_ns: int) -> None:
        """Runs everything up to and including ``when_ns`` and stands there.

        Raises RunFailed with the first exception that reached the loop, Deadlock when nothing is left to happen.
        """
        self._drive(when_ns, None)

    def run_while(self, condition: Callable[[], bool], limit_ns: int = FOREVER) -> None:
        """Runs while ``condition`` holds (asked between entries), up to ``limit_ns`` at most. Raises as run_until."""
        self._drive(limit_ns, condition)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs ``main`` to its end and returns its result; for tests and small programs."""
        with _Running(self):
            task = self.create_task(main)
        self.run_while(lambda: not task.done())
        return task.result()

    def _drive(self, until_ns: int, condition: Callable[[], bool] | None) -> None:
        with _Running(self):
            while not self._go(until_ns, condition):
                self.raise_failures()

    def _go(self, until_ns: int, condition: Callable[[], bool] | None) -> bool:
        """The hot loop: the ready queue to its end, then the next entry, and so on. True when the run is over; False
        after a failure. Written as one piece on purpose: a call a step would cost a tenth of a run."""
        heap, ready, failures = self.heap, self._ready, self.failures  # type: ignore[attr-defined]
        popleft, spins, thing = ready.popleft, 0, None
        try:
            while True:
                while ready:
                    thing = popleft()
                    if not thing._cancelled:
                        thing._context.run(thing._callback, *thing._args)
                    spins += 1
                    if spins > SPINS_MAX:
                        raise Livelock(f"callbacks follow callbacks at {self.now_ns} ns, {SPINS_MAX} so far: {thing!r}")
                if failures:
                    return False
                if condition is not None and not condition():
                    return True
                if not heap:
                    if self.now_ns >= until_ns:
                        return True
                    raise Deadlock(self._nothing_left())
                when = heap[0][0]
                if when > self.now_ns:
                    if when > until_ns:
                        if self.now_ns < until_ns != FOREVER:
                            self.now_ns = until_ns
                        return True
                    self.now_ns = when
                    spins = 0
                _, _, kind, thing = heappop(heap)
                if kind == CALL:
                    thing()
                elif kind == WAKE:
                    if not thing.done():
                        thing.set_result(None)
                elif kind == SIMPY:
                    fire(thing)
                elif thing._cancelled:
                    self._cancelled_timers -= 1
                else:
                    thing._context.run(thing._callback, *thing._args)
        except (SystemExit, KeyboardInterrupt, RunFailed):
            raise
        except BaseException as exc:
            self.fail(f"in {thing!r}", exc)
            return False

    def _run_once(self) -> None:
        """One step for asyncio's own run_forever: what is ready, then what comes next."""
        if self._ready or not self.heap:  # type: ignore[attr-defined]
            moment = self.now_ns
        else:
            moment = self.heap[0][0]
        if not self._go(moment, None):
            self.raise_failures()
        if not self._ready and not self.heap and not self._stopping:  # type: ignore[attr-defined]
            raise Deadlock(self._nothing_left())

    def _nothing_left(self) -> str:
        waiting = sorted((t.number, t.get_name()) for t in asyncio.all_tasks(self) if isinstance(t, SimTask))
        names = ", ".join(name for _, name in waiting[:8]) or "none"
        return (
            f"nothing is left to happen at {self.now_ns} ns: no timer, no event, nothing ready; "
            f"{len(waiting)} tasks wait for ever ({names})"
        )

    # ------------------------------------------------------------ failures

    def fail(self, where: str, exc: BaseException | None) -> None:
        """Ends the run at its next step with ``exc``."""
        self.failures.append((where, exc))

    def raise_failures(self) -> None:
        """Raises the first failure; no-op without one."""
        if self.failures:
            where, exc = self.failures[0]
            what = where if exc is None else f"{where}: {type(exc).__name__}: {exc}"
            raise RunFailed(f"at {self.now_ns} ns: {what}") from exc

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """asyncio's own complaints (a task's error that nobody saw) end the run as well."""
        about = context.get("task") or context.get("future") or context.get("handle") or ""
        self.fail(f"{context.get('message', 'error')} {about!r}", context.get("exception"))

    # ------------------------------------------------------------ what virtual time has not

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise Forbidden(f"run_in_executor({func!r}): a thread would starve behind the jumping clock; call it inline")

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Forbidden("getaddrinfo: there are no real names and addresses under simulation")

    async def getnameinfo(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Forbidden("getnameinfo: there are no real names and addresses under simulation")

    def _process_events(self, event_list: Any) -> None:
        return None

    def _write_to_self(self) -> None:
        return None

    def __del__(self) -> None:
        """asyncio's own warns of a loop that was not closed; this one holds nothing that needs closing."""

    def close(self) -> None:
        """Drops everything that is still scheduled."""
        self.heap.clear()
        super().close()


class _Running:
    """Makes a loop the running one, with asyncio's hooks for async generators, and puts back what was before."""

    __slots__ = ("_before", "_hooks", "_loop")

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        loop = self._loop
        loop._check_closed()  # type: ignore[attr-defined]
        self._before = _events._get_running_loop()
        if self._before is not None:
            raise RuntimeError("a virtual loop cannot run inside another running loop")
        self._hooks = sys.get_asyncgen_hooks()
        loop._thread_id = loop._owner_thread  # type: ignore[attr-defined]
        sys.set_asyncgen_hooks(
            firstiter=loop._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
            finalizer=loop._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
        )
        _events._set_running_loop(loop)

    def __exit__(self, *exc: object) -> None:
        _events._set_running_loop(None)
        sys.set_asyncgen_hooks(*self._hooks)
        self._loop._thread_id = None  # type: ignore[attr-defined]
