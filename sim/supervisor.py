"""What starts a program, and starts it again 5 s after it ended by itself (contracts.md section 1).

In scope: starts, exits with an error, crashes from outside, clean stops. Out of scope: giving up after many restarts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from sim.loop import NS
from sim.process import BoxClock, Process

if TYPE_CHECKING:
    from sim.world import World

AGAIN_S = 5.0
STOP_S = 10.0  # a clean stop that takes longer is ended


class Supervised:
    """One program over its processes. ``main(process)`` is its code; ``started`` and ``ended`` hear of each process.

    ``again``: start anew after it ended by itself: "failed" (only after an error) or "always"."""

    __slots__ = (
        "_again", "_box", "_ended", "_main", "_start_when_down", "_started", "_stopping", "_task", "_turn", "exits",
        "name", "process", "starts", "world",
    )

    def __init__(
        self,
        world: World,
        name: str,
        box: BoxClock,
        main: Callable[[Process], Coroutine[Any, Any, None]],
        *,
        started: Callable[[Process], None],
        ended: Callable[[Process, str], None],
        again: str = "always",
    ) -> None:
        self.world = world
        self.name = name
        self.process: Process | None = None
        self.starts = 0
        self.exits = 0
        self._box = box
        self._main = main
        self._started = started
        self._ended = ended
        self._again = again
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._start_when_down = False
        self._turn = 0  # a start that was scheduled in an earlier turn is void

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Starts it now; no-op while it runs. One that is being stopped starts again as soon as it is down."""
        if self.up:
            self._start_when_down = self._stopping
            return
        self._turn += 1
        process = self.process = Process(self.world, self.name, self._box)
        self.starts += 1
        self._started(process)
        task = self._task = process.spawn(self._main(process), "main")
        task.add_done_callback(lambda done: self._main_ended(process, done))
        self.world.changed()

    def start_in(self, seconds: float) -> None:
        """Starts it after ``seconds`` unless something else starts or ends it before."""
        self._turn += 1
        turn = self._turn
        loop = self.world.loop

        def go() -> None:
            if turn == self._turn:
                self.start()

        loop.at(loop.now_ns + round(seconds * NS), go)

    def crash(self) -> bool:
        """Dies at once, without a word; nobody starts it again by itself. False when it did not run."""
        self._turn += 1
        process = self.process
        if process is None or not process.alive:
            return False
        process.crash()
        self._down(process, "crash")
        return True

    def stop(self) -> bool:
        """Ends it in good order: its tasks are cancelled and may clean up for 10 s. False when it did not run."""
        self._turn += 1
        process = self.process
        if process is None or not process.alive:
            return False
        if process.suspended:
            return self.crash()
        self._stopping = True
        for task in process.tasks():
            task.cancel()
        loop = self.world.loop

        def finish() -> None:
            if process.alive:
                process.crash()
                self._down(process, "stop")

        loop.at(loop.now_ns + round(STOP_S * NS), finish)
        return True

    def _main_ended(self, process: Process, task: asyncio.Task[None]) -> None:
        if not process.alive:
            return
        error = None if task.cancelled() else task.exception()
        process.exited()
        how = "stop" if task.cancelled() else "exit" if error is None else "error"
        if error is not None:
            self.world.note_error(self.name, error)
        if how != "stop":
            self.exits += 1
        turn = self._turn
        self._down(process, how)
        if turn == self._turn and (how == "error" or (how == "exit" and self._again == "always")):
            self.start_in(AGAIN_S)

    def _down(self, process: Process, how: str) -> None:
        self._stopping = False
        start, self._start_when_down = self._start_when_down, False
        self._ended(process, how)
        if start:
            self.start()
