"""SimPy on the virtual loop: its events stand in the loop's own heap, so timers and the physical world share one order.

Out of scope: SimPy's priorities. An interrupt or a fresh process takes its turn by (time in ns, sequence number) like
everything else, which is what makes the order of one instant a single list (reference/simulation.md section 3.1).
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Any, NoReturn

import simpy
from simpy.core import BoundClass
from simpy.events import AllOf, AnyOf, Event, EventPriority, Process, Timeout

if TYPE_CHECKING:
    from sim.loop import VirtualLoop

SIMPY = 3  # the kind of a heap entry that holds a SimPy event (see sim/loop.py)


class VirtualEnvironment(simpy.Environment):
    """``env.timeout(delay_ns)`` with integer ns. The loop steps it; ``run`` and ``step`` are not for callers."""

    if not TYPE_CHECKING:
        # SimPy binds these early only when they stand in the class itself; without that each call costs a lookup.
        process = BoundClass(Process)
        timeout = BoundClass(Timeout)
        event = BoundClass(Event)
        all_of = BoundClass(AllOf)
        any_of = BoundClass(AnyOf)

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._heap = loop.heap
        self._queue = []
        self._eid = loop.sequence
        self._active_proc = None
        BoundClass.bind_early(self)

    @property
    def now(self) -> int:
        """Virtual ns since the start."""
        return self._loop.now_ns

    if not TYPE_CHECKING:
        _now = now

    def schedule(self, event: Event, priority: EventPriority = EventPriority(1), delay: float = 0) -> None:
        """Puts ``event`` ``delay`` ns ahead. TypeError unless ``delay`` is an int: float time would drift."""
        if delay.__class__ is not int:
            raise TypeError(f"a SimPy delay must be integer ns, not {delay!r}")
        heappush(self._heap, (self._loop.now_ns + delay, next(self._eid), SIMPY, event))

    def peek(self) -> float:
        """The time of the next entry of either kind; infinity when there is none."""
        return self._heap[0][0] if self._heap else float("inf")

    def step(self) -> NoReturn:
        raise RuntimeError("the loop steps the environment: use VirtualLoop.run_until")

    def run(self, until: Any = None) -> NoReturn:
        raise RuntimeError("the loop runs the environment: use VirtualLoop.run_until")


def fire(event: Event) -> None:
    """Runs an event's callbacks. A failure that nobody defused is raised as it is, not as SimPy's copy of it."""
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
    if not event._ok and not event.defused:
        failure: BaseException = event._value
        raise failure
