"""A process under simulation: its tasks, its clocks, and how it ends.

A crash runs no ``finally`` and commits nothing: its ports are cut first (``alive`` turns False and every port asks),
then its tasks are taken off whatever they wait for and never resumed. A suspended process executes nothing; its timers
and its monotonic clock stand still, wall time goes on. Out of scope: signals, partial writes within one commit.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import partial
from heapq import heapify, heappush
from typing import TYPE_CHECKING, Any, TypeVar

from sim.loop import NS, TIMER, WAKE, SimTask, SoonHandle, Timer, VirtualLoop

if TYPE_CHECKING:
    from sim.world import World

T = TypeVar("T")


class BoxClock:
    """The clocks of one box (a rented machine, the controller's computer): several processes may share one.

    ``booted_ns``: virtual time at which its monotonic clock read 0 (before 0: it was up already).
    """

    __slots__ = ("_drift_from", "_drift_ppm", "_frozen_at", "_loop", "_mono_zero", "_wall_offset")

    def __init__(self, loop: VirtualLoop, start_wall_ns: int, booted_ns: int = -3600 * NS) -> None:
        self._loop = loop
        self._wall_offset = start_wall_ns
        self._drift_ppm = 0.0
        self._drift_from = 0
        self._mono_zero = booted_ns  # moves on by the time that the box was suspended
        self._frozen_at: int | None = None

    @property
    def suspended(self) -> bool:
        return self._frozen_at is not None

    def monotonic_ns(self) -> int:
        """ns since the box booted, without the time that it was suspended."""
        if self._frozen_at is None:
            return self._loop.now_ns - self._mono_zero
        return self._frozen_at - self._mono_zero

    def wall_ns(self) -> int:
        """ns since 1970 as this box believes."""
        now = self._loop.now_ns
        if self._drift_ppm:
            return now + self._wall_offset + round((now - self._drift_from) * self._drift_ppm / 1e6)
        return now + self._wall_offset

    def step(self, ns: int) -> None:
        """Wall time jumps by ``ns`` (may be negative)."""
        self._wall_offset += ns

    def skew(self, ns: int, ppm: float = 0.0) -> None:
        """Wall time is ``ns`` off from now on, and drifts by ``ppm``. ``skew(-ns, 0)`` ends it (the drift is kept)."""
        now = self._loop.now_ns
        self._wall_offset += ns + round((now - self._drift_from) * self._drift_ppm / 1e6)
        self._drift_from = now
        self._drift_ppm = ppm

    def reboot(self) -> None:
        """The monotonic clock starts anew; wall time goes on."""
        self._mono_zero = self._loop.now_ns
        if self._frozen_at is not None:
            self._frozen_at = self._loop.now_ns

    def freeze(self) -> None:
        if self._frozen_at is None:
            self._frozen_at = self._loop.now_ns

    def thaw(self) -> None:
        if self._frozen_at is not None:
            self._mono_zero += self._loop.now_ns - self._frozen_at
            self._frozen_at = None


class ProcessClock:
    """The Clock port of one process."""

    __slots__ = ("_process", "box", "monotonic_ns", "wall_ns")

    def __init__(self, process: Process, box: BoxClock) -> None:
        self._process = process
        self.box = box
        self.monotonic_ns = box.monotonic_ns
        self.wall_ns = box.wall_ns

    async def sleep(self, seconds: float) -> None:
        """Sleeps by the process's own monotonic clock: time in which it is suspended does not count."""
        await self._process.sleep_ns(round(seconds * NS))


class Process:
    """One process: ``name`` keys its latency streams, so that it is the same in both wirings and after a restart."""

    __slots__ = (
        "_held", "_on_end", "_prune_at", "_tasks", "_wait_running", "alive", "born_ns", "clock", "loop", "name",
        "suspended", "world",
    )

    def __init__(self, world: World, name: str, box: BoxClock | None = None) -> None:
        self.world = world
        self.loop = world.loop
        self.name = name
        self.alive = True
        self.born_ns = self.loop.now_ns
        self.clock = ProcessClock(self, box or BoxClock(self.loop, world.truth.start_wall_ns))
        self.suspended = False
        self._tasks: list[SimTask] = []
        self._prune_at = 32
        self._held: list[Callable[[], None]] = []  # puts back what a suspension took away
        self._wait_running: list[Callable[[], object]] = []
        self._on_end: list[Callable[[], None]] = []
        if self.clock.box.suspended:
            self.suspended = True

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "suspended" if self.suspended else "running"
        return f"<Process {self.name} {state}>"

    # ------------------------------------------------------------ running code

    def tasks(self) -> list[SimTask]:
        """Its tasks that are not done, oldest first."""
        return [t for t in self._tasks if not t.done()]

    def spawn(self, coro: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Runs ``coro`` as a task of this process. Tasks that it creates belong to this process as well."""
        return self.loop.create_task(coro, name=f"{self.name}/{name}", process=self)

    def adopt(self, task: SimTask) -> None:
        """Takes a fresh task as one of its own (the loop calls this)."""
        tasks = self._tasks
        if len(tasks) >= self._prune_at:
            tasks[:] = [t for t in tasks if not t.done()]
            self._prune_at = 2 * len(tasks) + 32
        tasks.append(task)
        if not self.alive:
            self._drop_all()
        elif self.suspended:
            self._hold_all()

    def sleep_ns(self, ns: int) -> asyncio.Future[None]:
        """A future that completes in ``ns`` of this process's running time; a dead process's never does."""
        loop = self.loop
        future: asyncio.Future[None] = asyncio.Future(loop=loop)
        if self.alive:
            heappush(loop.heap, (loop.now_ns + ns if ns > 0 else loop.now_ns, next(loop.sequence), WAKE, future))
        return future

    async def gate(self) -> None:
        """Returns while the process is alive (a suspended one runs no code at all); a dead one never returns."""
        if not self.alive:
            await self.never()

    def never(self) -> asyncio.Future[Any]:
        """A future that nobody completes: what a dead process waits for."""
        return self.world.bury(asyncio.Future(loop=self.loop))

    def when_running(self, function: Callable[[], object]) -> None:
        """Calls ``function`` once the process runs: now, or when it is resumed; never if it dies before."""
        if self.suspended:
            self._wait_running.append(function)
        elif self.alive:
            function()

    def on_end(self, function: Callable[[], None]) -> Callable[[], None]:
        """Calls ``function`` when the process dies. Returns what takes it off again."""
        self._on_end.append(function)

        def off() -> None:
            if function in self._on_end:
                self._on_end.remove(function)

        return off

    # ------------------------------------------------------------ how it ends

    def crash(self) -> None:
        """Dies at once: ports cut, tasks never resumed, no ``finally``. Its running code stops at its next await of
        a port or of :meth:`never`. No-op when dead."""
        if not self.alive:
            return
        self.alive = False
        self.suspended = False
        self._drop_all()
        self._finish()

    def exited(self) -> None:
        """The process ended by itself: what is left of it is dropped like in a crash."""
        self.crash()

    def _finish(self) -> None:
        self._held.clear()
        self._wait_running.clear()
        calls, self._on_end = self._on_end, []
        for call in calls:
            call()
        self.world.changed()

    def _drop_all(self) -> None:
        """Takes every task off the future it waits for and out of the ready queue; the world keeps it unresumed."""
        mine = {t.number: t for t in self._tasks if not t.done()}
        self._tasks.clear()
        current = asyncio.current_task(self.loop) if self.loop.is_running() else None
        for handle in self.loop._ready:  # type: ignore[attr-defined]
            if _task_number(handle) in mine:
                handle._cancelled = True
        for entry in self.loop.heap:
            if entry[2] == TIMER and entry[3].owner is self and not entry[3]._cancelled:
                entry[3].cancel_quietly()
        for task in mine.values():
            _unhook(task)
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if task is not current:
                self.world.bury(task)
        if isinstance(current, SimTask) and current.number in mine:
            self.world.bury(current)

    # ------------------------------------------------------------ suspension

    def suspend(self, *, clock: bool = True) -> None:
        """Stands still from now on, its timers too. No-op when dead or suspended. ``clock``: the box's monotonic clock
        stands as well (the box sleeps); False: only this process does (it hangs)."""
        if not self.alive or self.suspended:
            return
        self.suspended = True
        if clock:
            self.clock.box.freeze()
        self._hold_all()
        self.world.changed()

    def resume(self) -> None:
        """Goes on where it stood; sleeps last as much longer as it was suspended."""
        if not self.alive or not self.suspended:
            return
        self.suspended = False
        self.clock.box.thaw()
        held, self._held = self._held, []
        for put_back in held:
            put_back()
        waiting, self._wait_running = self._wait_running, []
        for function in waiting:
            function()
        self.world.changed()

    def _hold_all(self) -> None:
        """Takes tasks off their futures and their timers off the heap, keeping what puts them back."""
        loop = self.loop
        mine = {t.number: t for t in self._tasks if not t.done()}
        waited: set[int] = set()
        for task in mine.values():
            future = task._fut_waiter  # type: ignore[attr-defined]
            hook = _unhook(task)
            if hook is not None:
                waited.add(id(future))
                self._held.append(partial(future.add_done_callback, hook[0], context=hook[1]))
        for handle in loop._ready:  # type: ignore[attr-defined]
            if not handle._cancelled and _task_number(handle) in mine:
                handle._cancelled = True
                again = SoonHandle(handle._callback, handle._args, handle._context)
                self._held.append(partial(loop._ready.append, again))  # type: ignore[attr-defined]
        now = loop.now_ns
        kept = []
        for entry in sorted(loop.heap):
            when, _, kind, thing = entry
            if (kind == WAKE and id(thing) in waited and not thing.done()) or (
                kind == TIMER and thing.owner is self and not thing._cancelled
            ):
                self._held.append(partial(self._put_back, when - now, kind, thing))
            else:
                kept.append(entry)
        loop.heap[:] = kept
        heapify(loop.heap)

    def _put_back(self, left_ns: int, kind: int, thing: Any) -> None:
        loop = self.loop
        when = loop.now_ns + left_ns
        if kind == TIMER:
            timer: Timer = thing
            if timer._cancelled:
                return
            timer.when_ns = when
        heappush(loop.heap, (when, next(loop.sequence), kind, thing))

    # ------------------------------------------------------------ its wall clock

    def step_wall(self, ns: int) -> None:
        self.clock.box.step(ns)

    def skew(self, ns: int, ppm: float = 0.0) -> None:
        self.clock.box.skew(ns, ppm)


def _unhook(task: SimTask) -> tuple[Callable[..., object], Any] | None:
    """Takes ``task`` off the future it waits for. Returns what hooks it on again; None when it waits for none."""
    future = task._fut_waiter  # type: ignore[attr-defined]
    if future is None:
        return None
    for callback, context in future._callbacks or ():
        if getattr(callback, "__self__", None) is task:
            future.remove_done_callback(callback)
            return callback, context
    return None


def _task_number(handle: Any) -> int:
    """The number of the task that ``handle`` would step; 0 for any other callback.

    The C task's step wrapper has no attribute that names its task, only a reference (gc sees it)."""
    callback = handle._callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, SimTask):
        return task.number
    if type(callback).__name__ == "TaskStepMethWrapper":
        for thing in gc.get_referents(callback):
            if isinstance(thing, SimTask):
                return thing.number
    return 0
