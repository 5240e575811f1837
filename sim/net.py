"""The network between processes: one latency per port request, drawn from a stream of (caller, method, target).

A request is one draw, half of it on the way there and half back. What is served at the other end runs on the other
end: a caller that gives up, is suspended or dies does not stop it, so "done, but the reply was lost" exists.
Out of scope: bandwidth, packet loss on an otherwise good line, reordering (agent.reorder is the link's own).
"""

from __future__ import annotations

import asyncio
import random
import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from heapq import heappush
from typing import TYPE_CHECKING, Any, TypeVar

from proverfleet.errors import LinkDown, PortError
from sim.loop import CALL, NS

if TYPE_CHECKING:
    from sim.process import Process
    from sim.world import World

T = TypeVar("T")
TAIL_SHARE = 0.001  # of requests fall into the long tail, up to TAIL_S
TAIL_S = 3.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Uniform between ``low_s`` and ``high_s`` for the way there and back; one in a thousand up to 3 s."""

    low_s: float
    high_s: float


MARKET = Latency(0.080, 0.400)
LINK = Latency(0.020, 0.150)
PROBE = Latency(0.050, 0.300)


def _refused() -> Exception:
    return LinkDown("connection refused")


def _reset() -> Exception:
    return LinkDown("connection reset")


class Net:
    """All requests between processes pass here; reachability is asked, never stored."""

    __slots__ = ("_dice", "_streams", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self._streams = world.streams
        self._dice: dict[tuple[str, str, object], random.Random] = {}

    # ------------------------------------------------------------ reachability

    def controller_reachable(self) -> bool:
        """May packets pass between the controller's computer and the rest of the world?"""
        return self.world.faults.active("controller.offline") is None

    def controller_hears(self) -> bool:
        """Does the controller run, not suspended, with a packet from outside able to reach it?"""
        process = self.world.controller
        return process is not None and process.alive and not process.suspended and self.controller_reachable()

    # ------------------------------------------------------------ requests

    def latency_ns(self, process: Process, method: str, target: object, latency: Latency = MARKET) -> int:
        """Draws the latency (there and back) of this caller's next request of that kind to that target, in ns."""
        key = (process.name, method, target)
        dice = self._dice.get(key)
        if dice is None:
            dice = self._dice[key] = self._streams.fresh(f"net:{process.name}:{method}:{target}")
        u = dice.random()
        if u < TAIL_SHARE:
            return int((latency.high_s + (TAIL_S - latency.high_s) * u / TAIL_SHARE) * NS)
        return int((latency.low_s + (latency.high_s - latency.low_s) * u) * NS)

    def call(
        self,
        process: Process,
        method: str,
        target: object,
        serve: Callable[[], Coroutine[Any, Any, T]],
        *,
        latency: Latency = MARKET,
        extra_ns: int = 0,
        callee: Process | None = None,
        path: Callable[[], bool] | None = None,
        refused: Callable[[], Exception] = _refused,
        reset: Callable[[], Exception] = _reset,
        deadline_ns: int | None = None,
        late: Callable[[], Exception] = _reset,
    ) -> asyncio.Future[T]:
        """``await net.call(…)``: a request of ``process``, served by ``serve()`` on the other end, and its reply.

        ``callee``: the process that serves (None: the world itself). Dead when the request arrives: ``refused()``;
        dying while it serves: ``reset()``; suspended: the request waits. ``path``: asked when the request and the
        reply arrive; False loses that message silently (give a ``deadline_ns`` with its error ``late()``).
        ``extra_ns``: added to the drawn latency. Errors of ``serve`` reach the caller after the latency; one that is
        no PortError is a bug and ends the run. A dead caller gets no answer, and a request of one never leaves.
        """
        loop = process.loop
        reply: asyncio.Future[T] = asyncio.Future(loop=loop)
        if not process.alive:
            return process.never()
        way_ns = self.latency_ns(process, method, target, latency) + extra_ns
        request = _Request(process, callee, serve, reply, way_ns - way_ns // 2, path, refused, reset)
        heappush(loop.heap, (loop.now_ns + way_ns // 2, next(loop.sequence), CALL, request.arrive))
        if deadline_ns is not None:
            request.arm = lambda at=loop.now_ns + deadline_ns: loop.at(at, lambda: _fail(process, reply, late()))
            if path is not None or way_ns >= deadline_ns:
                request.arm()
                request.arm = None
        return reply


class _Request:
    """One request on its way. ``arrive`` and ``answer`` are called by the loop, outside any task."""

    __slots__ = ("_off", "_result", "arm", "back_ns", "callee", "path", "process", "refused", "reply", "reset", "serve")

    def __init__(
        self,
        process: Process,
        callee: Process | None,
        serve: Callable[[], Coroutine[Any, Any, Any]],
        reply: asyncio.Future[Any],
        back_ns: int,
        path: Callable[[], bool] | None,
        refused: Callable[[], Exception],
        reset: Callable[[], Exception],
    ) -> None:
        self.process = process
        self.callee = callee
        self.serve = serve
        self.reply = reply
        self.back_ns = back_ns
        self.path = path
        self.refused = refused
        self.reset = reset
        self._result: tuple[Any, BaseException | None] = (None, None)
        self._off: Callable[[], None] | None = None
        self.arm: Callable[[], None] | None = None  # sets the deadline, where the answer is not certain to be in time

    def arrive(self) -> None:
        """The request is there: serve it. What it does without waiting is done here and now, without a task."""
        callee = self.callee
        if self.path is not None and not self.path():
            return
        if callee is not None:
            if not callee.alive:
                self._send_back(None, self.refused())
                return
            if callee.suspended:
                self._may_be_late()
                callee.when_running(self.arrive)
                return
        loop = self.process.loop
        coro = self.serve()
        loop.serving = callee
        try:
            blocked = coro.send(None)
        except StopIteration as stop:
            self._send_back(stop.value, None)
        except Exception as exc:
            self._send_back(None, exc)
        else:
            self._may_be_late()
            task = loop.create_task(_go_on(coro, blocked), process=callee)
            task.add_done_callback(self._served)
            if callee is not None:
                self._off = callee.on_end(self._callee_died)
        finally:
            loop.serving = None

    def _may_be_late(self) -> None:
        if self.arm is not None:
            self.arm()
            self.arm = None

    def _served(self, task: asyncio.Task[Any]) -> None:
        if self._off is not None:
            self._off()
        if task.cancelled():
            self._send_back(None, self.reset())
            return
        exc = task.exception()
        self._send_back(None if exc is not None else task.result(), exc)

    def _callee_died(self) -> None:
        self._send_back(None, self.reset())

    def _send_back(self, value: Any, exc: BaseException | None) -> None:
        loop = self.process.loop
        if exc is not None and not isinstance(exc, PortError):
            loop.fail(f"serving a request of {self.process.name}", exc)
        self._result = (value, exc)
        heappush(loop.heap, (loop.now_ns + self.back_ns, next(loop.sequence), CALL, self.answer))

    def answer(self) -> None:
        """The reply is there."""
        if self.reply.done() or not self.process.alive or (self.path is not None and not self.path()):
            return
        value, exc = self._result
        if exc is None:
            self.reply.set_result(value)
        else:
            _fail(self.process, self.reply, exc)


def _fail(process: Process, reply: asyncio.Future[Any], exc: BaseException) -> None:
    if process.alive and not reply.done():
        reply.set_exception(exc)
        reply._log_traceback = False  # a caller that died meanwhile never looks


async def _go_on(coro: Coroutine[Any, Any, T], blocked: Any) -> T:
    """Goes on, as a task, with a coroutine that was begun by hand and yielded ``blocked``."""
    result: T = await _steps(coro, blocked)
    return result


@types.coroutine
def _steps(coro: Coroutine[Any, Any, Any], blocked: Any) -> Generator[Any, Any, Any]:
    while True:
        try:
            sent = yield blocked
        except GeneratorExit:
            coro.close()
            raise
        except BaseException as exc:
            try:
                blocked = coro.throw(exc)
            except StopIteration as stop:
                return stop.value
        else:
            try:
                blocked = coro.send(sent)
            except StopIteration as stop:
                return stop.value
