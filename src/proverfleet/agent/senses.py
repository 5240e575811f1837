"""The machine's sensors, kept away from everything else: a reading that fails or never returns costs only itself.

Readings are made in a task of their own. One that has not come back after three reports is given up and begun again.
"""

from __future__ import annotations

import asyncio

from proverfleet.agent.wake import Wake
from proverfleet.ports import Clock, Readings, Sensors

NS = 1_000_000_000
UNKNOWN = Readings(None, None, None, None, None, None)


class Senses:
    """``latest`` is what was read last. A reading older than three reports counts as unknown."""

    __slots__ = (
        "_asked", "_asked_mono_ns", "_clock", "_fresh_ns", "_read_mono_ns", "_reading", "_sensors", "_task", "latest",
    )

    def __init__(self, sensors: Sensors, clock: Clock, report_s: float) -> None:
        self._sensors = sensors
        self._clock = clock
        self._fresh_ns = int(3 * report_s * NS)
        self._asked = Wake()
        self._reading = False
        self._asked_mono_ns = 0
        self._read_mono_ns = 0
        self._task: asyncio.Task[None] | None = None
        self.latest = UNKNOWN

    def ask(self, now: int) -> None:
        """Starts a reading unless one is going on. Returns at once. ``now``: monotonic ns, as the caller read it."""
        if self._reading:
            if now - self._asked_mono_ns <= self._fresh_ns or self._task is None:
                return
            self._task.cancel()
            self._task = None
        if self._task is None:
            self._task = asyncio.create_task(self._read_for_ever(), name="senses")
        self._asked_mono_ns = now
        self._reading = True
        self._asked.ring()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def current(self, now: int) -> Readings:
        if self.latest is not UNKNOWN and now - self._read_mono_ns > self._fresh_ns:
            self.latest = UNKNOWN
        return self.latest

    def keep(self, readings: Readings) -> None:
        self.latest = readings
        self._read_mono_ns = self._clock.monotonic_ns()

    async def _read_for_ever(self) -> None:
        while True:
            if not self._reading:
                await self._asked.wait()
            try:
                self.keep(await self._sensors.read())
            except Exception:  # a driver may raise anything, and no reading is worth a rental
                self.latest = UNKNOWN
            self._reading = False

    async def under_load(self) -> Readings:
        """The arrival reading. A failure gives a reading in which nothing is known: it condemns nobody."""
        try:
            readings = await self._sensors.under_load()
        except Exception:  # as in _read_for_ever
            return UNKNOWN
        self.keep(readings)
        return readings
