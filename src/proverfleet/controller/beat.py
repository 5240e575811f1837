"""The beat: ask, store what came, decide, store what was decided, do it. Once every ``beat_s``, whatever happens.

A beat starts at least every 120 s: asking ends after ``gather_s``, and nothing else in a beat waits for the world. One
that cannot store its facts decides nothing; one that cannot store its decisions does nothing.
"""

from __future__ import annotations

from typing import Protocol

import orjson

from proverfleet.controller.actuator import Actuator
from proverfleet.controller.brain import Brain
from proverfleet.controller.gather import Answers, Gatherer
from proverfleet.controller.inbox import Inbox
from proverfleet.controller.journal import Journal
from proverfleet.controller.tasks import Say
from proverfleet.domain import snapshot
from proverfleet.domain.events import Asks, Beat
from proverfleet.errors import StoreError, StoreFenced
from proverfleet.ports import ControllerPorts
from proverfleet.settings import ControllerSettings

NS = 1_000_000_000
GAP_BEATS = 3
IDS_A_BEAT = 16
ID_DIGITS = 12
WAIT_MIN_S = 1.0


class Tally(Protocol):
    """Where beats are counted."""

    beats: int
    beats_failed: int
    beat_max_s: float


class Beats:
    """The loop of one boot."""

    __slots__ = (
        "_actuator", "_asks", "_brain", "_counts", "_failed", "_gatherer", "_header", "_inbox", "_journal", "_last_ns",
        "_n", "_ports", "_say", "_settings",
    )

    def __init__(
        self,
        ports: ControllerPorts,
        journal: Journal,
        inbox: Inbox,
        gatherer: Gatherer,
        actuator: Actuator,
        brain: Brain,
        settings: ControllerSettings,
        counts: Tally,
        say: Say,
        header: str,
    ) -> None:
        self._ports = ports
        self._journal = journal
        self._inbox = inbox
        self._gatherer = gatherer
        self._actuator = actuator
        self._brain = brain
        self._settings = settings
        self._counts = counts
        self._say = say
        self._header = header
        self._asks = Asks()
        self._last_ns: int | None = None  # of the last beat that was stored; None: none yet in this boot
        self._failed = False  # since the last beat that was stored, one was not
        self._n = journal.fleet.beat

    async def run(self) -> StoreFenced:
        """Beats until the store says that somebody else writes in it; returns that."""
        clock = self._ports.clock
        while True:
            began_ns = clock.monotonic_ns()
            try:
                await self._ports.point("beat.begin")
                await self.beat(began_ns)
            except StoreFenced as exc:
                return exc
            except StoreError as exc:
                self._failed = True
                self._lost("beat_not_stored", exc)
            except Exception as exc:  # whatever it was, supervision goes on
                self._lost("beat_failed", exc)
            took_s = (clock.monotonic_ns() - began_ns) / NS
            self._counts.beat_max_s = max(self._counts.beat_max_s, took_s)
            await clock.sleep(max(WAIT_MIN_S, self._journal.fleet.policy.beat_s - took_s))

    def _lost(self, name: str, exc: Exception) -> None:
        self._counts.beats_failed += 1
        self._gatherer.forget_work()
        self._say(name, f"{type(exc).__name__}: {exc}")

    async def beat(self, began_ns: int) -> None:
        """One beat. Raises StoreError: nothing was decided, or nothing of it will be done."""
        journal, ports = self._journal, self._ports
        self._counts.beats += 1
        answers = await self._gatherer.gather(
            journal.fleet, self._asks, self._inbox.heard, self._counts.beats, self._settings.gather_s
        )
        await ports.point("beat.listed")
        beat = self._beat_event(began_ns, answers)
        async with journal.turn:
            # Two transactions with nothing in between. Decisions rest on facts, and nothing is believed that is not
            # stored; so the facts are stored before anybody decides, and the decisions before anybody acts. A crash
            # or a full disk between the two leaves a beat that decided nothing; it is never decided afterwards.
            await journal.write([*answers.facts(), beat])
            self._last_ns, self._failed, self._n = began_ns, False, beat.n
            await ports.point("beat.recorded")
            plan = self._brain.decide(journal.fleet)
            self._asks = plan.asks
            await ports.point("beat.decided")
            broken: Exception | None = None
            try:
                await journal.write(plan.decisions)
            except StoreError:
                raise
            except Exception as exc:  # stored, but the fold could not take one of them: the others are to be done
                broken = exc
        await ports.point("beat.committed")
        self._actuator.act(plan.decisions)
        await ports.point("beat.acted")
        if broken is not None:
            raise broken
        if journal.since_snapshot >= self._settings.snapshot_every:
            await self._snapshot()

    def _beat_event(self, began_ns: int, answers: Answers) -> Beat:
        first = self._last_ns is None
        step_ns = 0 if self._last_ns is None else began_ns - self._last_ns
        beat_ns = int(self._journal.fleet.policy.beat_s * NS)
        heard = self._inbox.beat()
        entropy = self._ports.entropy
        return Beat(
            n=self._n + 1,
            step_ns=step_ns,
            gap=first or step_ns > GAP_BEATS * beat_ns,
            # While beats could not be stored, reports could not either: that time is not one in which we heard.
            inbox_ok=(heard or answers.address_ok) and not self._failed,
            list_ok=answers.listed.trust == "trusted",
            draw=entropy.random(),
            ids=tuple(entropy.hex(ID_DIGITS) for _ in range(IDS_A_BEAT)),
        )

    async def _snapshot(self) -> None:
        """Stores the fold's state, so that a start needs only the tail. It may fail: the next beat tries again."""
        journal = self._journal
        seq, data = journal.seq, orjson.dumps(snapshot.dump(journal.fleet))
        try:
            await self._ports.store.save_snapshot(seq, self._header, data)
        except StoreError as exc:
            self._say("snapshot_not_saved", f"{type(exc).__name__}: {exc}")
            return
        journal.since_snapshot = 0
        await self._ports.point("snapshot.saved")
