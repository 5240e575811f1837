"""One life of the prover's daemon, computed lazily: what it did by time t is worked out when somebody looks.

Between change points everything is constant: bytes of the SRS a second, nominal seconds of proving a second
(``speed``), and what becomes of a proof. One random draw per proof: its interval times a lognormal factor of mean 1 and
sigma noise / sqrt(10), since a proof is ten partitions. A full pipeline gives a proof every ``interval_s``, the first
one after ``fill_s``. Partitions within a proof are counted evenly.
Out of scope: the order in which partitions of several proofs interleave; memory besides the curve of sim/model.py.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from math import ceil, exp, sqrt
from typing import Protocol

from proverfleet.ports import Completion
from sim.model import BASE_GIB, PARTITIONS, SRS_BYTES, MemoryCurve

NS = 1_000_000_000
WARM_UP, BATCH, WORK, NOTHING = "warm_up", "batch", "work", ""
FAIL_S = 5.0  # between two proofs that fail at once
ENDLESS = 1 << 60
COMPLETIONS_KEPT = 32


@dataclass(frozen=True, slots=True)
class Pace:
    """Nominal seconds of this size on this machine: from proof to proof, and from empty to the first one."""

    interval_s: float
    fill_s: float


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with proofs now: which share, how long each takes (None: as usual), whether the daemon sees it."""

    share: float
    s_per_proof: float | None
    seen: bool


class Sink(Protocol):
    """Who hears what the daemon did, with the exact time of each."""

    def proof(self, at: int, mode: str, valid: bool, failed: bool) -> None: ...
    def ended(self, at: int, mode: str) -> None: ...
    def turned(self, at: int) -> None:
        """Something that truth's spans depend on changed at ``at`` (SRS loaded, ran out of work)."""
        ...


class Daemon:
    """``advance(now)`` first, then read or change it: every change of a rate is made at a moment already reached."""

    __slots__ = (
        "accepted", "at", "busy_ns", "completions", "concurrency", "curve", "dice", "done", "draining", "failed",
        "failing", "fed", "frozen", "left", "memory_s", "mode", "mono_offset", "need", "need_whole", "noise", "p",
        "pace", "partitions_done", "sink", "speed", "srs_left", "srs_per_s", "starved_ns", "wrong", "wrong_dice",
    )

    def __init__(self, now: int, p: int, concurrency: int, pace: Pace, curve: MemoryCurve, noise: float,
                 dice: random.Random, wrong_dice: random.Random, sink: Sink) -> None:
        self.at = now
        self.p = p
        self.concurrency = concurrency
        self.pace = pace
        self.curve = curve
        self.noise = noise / sqrt(PARTITIONS)
        self.dice = dice
        self.wrong_dice = wrong_dice
        self.sink = sink
        self.srs_left = float(SRS_BYTES)
        self.srs_per_s = 0.0
        self.speed = 0.0
        self.frozen = False
        self.failing = ""
        self.wrong: Wrong | None = None
        self.mode = NOTHING
        self.fed = True
        self.draining = False
        self.done = False
        self.left = 0
        self.need = self.need_whole = 0.0
        self.memory_s = 0.0
        self.partitions_done = 0
        self.accepted = self.failed = 0
        self.busy_ns = self.starved_ns = 0
        self.mono_offset = 0
        self.completions: deque[Completion] = deque(maxlen=COMPLETIONS_KEPT)

    # ------------------------------------------------------------ what it is doing

    @property
    def loading(self) -> bool:
        return self.srs_left > 0.0

    @property
    def proving(self) -> bool:
        """Proofs are in flight (also while the SRS that they wait for is loading)."""
        return self.left > 0

    @property
    def moving(self) -> bool:
        """Units of work are being finished: SRS bytes or partitions."""
        if self.srs_left > 0.0:
            return self.srs_per_s > 0.0
        return self.left > 0 and self.speed > 0.0 and not self.failing

    @property
    def starved(self) -> bool:
        return self.mode == WORK and self.left == 0

    @property
    def in_flight(self) -> int:
        """Proofs begun and not finished."""
        return min(self.left, self.concurrency, -(-self.p // PARTITIONS))

    @property
    def srs_bytes(self) -> int:
        return SRS_BYTES - ceil(self.srs_left)

    @property
    def partitions(self) -> int:
        if self.need_whole <= 0.0 or self.failing:
            return self.partitions_done
        return self.partitions_done + int(PARTITIONS * (1.0 - self.need / self.need_whole))

    @property
    def rss_gib(self) -> float:
        if self.srs_left > 0.0:
            return BASE_GIB * (1.0 - self.srs_left / SRS_BYTES)
        return self.curve.rss(self.memory_s)

    # ------------------------------------------------------------ orders

    def run(self, mode: str, count: int = ENDLESS, first_s: float | None = None) -> None:
        """Begins ``count`` proofs; ``first_s``: nominal seconds of the first one (default: the filling)."""
        self.mode = mode
        self.done = self.draining = False
        self.left = count if self.fed or mode != WORK else 0
        self._next(self.pace.fill_s if first_s is None else first_s)

    def abandon(self) -> None:
        """What is in flight is dropped; the daemon lives (its benchmark went away)."""
        self.mode, self.left, self.need, self.need_whole = NOTHING, 0, 0.0, 0.0

    def feed(self, fed: bool) -> None:
        """Is work waiting? Without it what is in flight is finished and nothing begun."""
        if fed == self.fed:
            return
        self.fed = fed
        if self.mode != WORK or self.draining:
            return
        if not fed:
            self.left = self.in_flight
        else:
            if self.left == 0:
                self._next(self.pace.fill_s)
            self.left = ENDLESS

    def drain(self) -> None:
        """Takes no new task. Ends at once when nothing is in flight."""
        if self.mode != WORK or self.draining:
            return
        self.draining = True
        self.left = self.in_flight
        if self.left == 0:
            self._end(self.at)

    def fail(self, why: str) -> None:
        """Each proof fails at once from now on ("": no longer)."""
        if bool(why) != bool(self.failing):
            self.failing = why
            if self.left > 0:
                self._next(FAIL_S if why else self.pace.fill_s)
        self.failing = why

    # ------------------------------------------------------------ time

    def advance(self, now: int) -> None:
        """Does everything up to ``now``."""
        at = self.at
        if now <= at:
            return
        self.at = now
        if self.srs_left > 0.0:
            start, at = at, self._load(at, now)
            if self.left > 0 and not self.frozen:
                self.busy_ns += at - start
            if self.srs_left > 0.0:
                return
        while self.left > 0 and at < now:
            at = self._prove(at, now)
        if self.mode == WORK and at < now and not self.frozen:
            self.starved_ns += now - at

    def _load(self, at: int, now: int) -> int:
        """Reads the SRS. Returns when it stopped: loaded, or ``now``."""
        if self.srs_per_s <= 0.0:
            return now
        until = at + ceil(self.srs_left / self.srs_per_s * NS)
        if until > now:
            self.srs_left -= self.srs_per_s * (now - at) / NS
            return now
        self.srs_left = 0.0
        self.sink.turned(until)
        return until

    def _prove(self, at: int, now: int) -> int:
        """Works on the proof at hand. Returns when it was finished, or ``now``."""
        speed, span = self.speed, now - at
        if speed <= 0.0:
            if not self.frozen:
                self.busy_ns += span
            return now
        took = ceil(self.need / speed * NS)
        if took > span:
            self.busy_ns += span
            done = span / NS * speed
            self.need -= done
            if not self.failing:
                self.memory_s += done
            return now
        self.busy_ns += took
        if not self.failing:
            self.memory_s += self.need
        self._finish(at + took)
        return at + took

    def _finish(self, at: int) -> None:
        """One proof is finished at ``at``."""
        wrong, mode = self.wrong, self.mode
        failed = bool(self.failing)
        valid = not failed and (wrong is None or self.wrong_dice.random() >= wrong.share)
        if failed:
            self.failed += 1
        else:
            self.partitions_done += PARTITIONS
            if valid or (wrong is not None and not wrong.seen):
                self.accepted += 1
                self.completions.append(Completion(self.accepted, at + self.mono_offset))
            else:
                self.failed += 1
        if self.left < ENDLESS:
            self.left -= 1
        self.sink.proof(at, mode, valid, failed)
        if self.left > 0:
            interval = self.pace.interval_s
            if wrong is not None and wrong.s_per_proof is not None:
                interval = wrong.s_per_proof
            self._next(FAIL_S if self.failing else interval)
        else:
            self.need = self.need_whole = 0.0
            if mode != WORK or self.draining:
                self._end(at)
            else:
                self.sink.turned(at)

    def _end(self, at: int) -> None:
        mode, self.mode, self.done = self.mode, NOTHING, True
        self.sink.ended(at, mode)

    def _next(self, seconds: float) -> None:
        sigma = self.noise
        if sigma > 0.0 and not self.failing:
            seconds *= exp(self.dice.gauss(0.0, sigma) - sigma * sigma / 2.0)
        self.need = self.need_whole = seconds

    def reaches(self, memory_s: float) -> int | None:
        """When the daemon will have been busy for ``memory_s``, as things stand; None: not at all."""
        if self.left <= 0 or (self.speed <= 0.0 or self.failing):
            return None
        at = self.at
        if self.srs_left > 0.0:
            if self.srs_per_s <= 0.0:
                return None
            at += ceil(self.srs_left / self.srs_per_s * NS)
        return at + max(0, ceil((memory_s - self.memory_s) / self.speed * NS))

    def loads_until(self, gib: float) -> int | None:
        """When the load of the SRS will have brought the memory to ``gib`` (< 70); None: not at all."""
        if self.srs_left <= 0.0 or self.srs_per_s <= 0.0:
            return None
        left = self.srs_left - SRS_BYTES * (1.0 - gib / BASE_GIB)
        return self.at + max(0, ceil(left / self.srs_per_s * NS))
