"""Where agents' reports arrive. A report is stored before it is answered: an agent may forget what was answered.

Nothing here judges a report: late and repeated ones are facts too, and the fold knows what is new in them.
"""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import fields, replace

from proverfleet.controller.credentials import same, sign
from proverfleet.controller.journal import Journal
from proverfleet.controller.redact import Redactor
from proverfleet.domain.events import HelloRefused, Reported
from proverfleet.domain.ids import FleetId, IntentId
from proverfleet.domain.report import Answer, Directive, ExitFact, Report
from proverfleet.errors import StoreError, StoreLocked
from proverfleet.ports import Point

RING = 40
LOG_TAIL_CHARS_MAX = 500
CLAIM_CHARS_MAX = 32
REFUSALS_PER_BEAT_MAX = 50

_NAMES = [f.name for f in fields(Report)]
assert _NAMES[:2] == ["rental", "token"]
_AFTER_TOKEN = operator.attrgetter(*_NAMES[2:])
_COMPLETIONS = _NAMES.index("last_completions") - 2
_NOTHING = Answer()
_OVER = Answer(over=True)


class Inbox:
    """``receive(report)`` for every way in which a report can arrive; before the boot it refuses.

    ``heard``: something arrived from outside since the last beat, and was stored if it was ours.
    """

    __slots__ = (
        "_ends", "_fleet_id", "_group", "_journal", "_key", "_newest", "_point", "_redact", "_refused", "_rings",
        "_tokens", "heard",
    )

    def __init__(self, key: str, redact: Redactor, point: Point, *, group: bool = False) -> None:
        self._key = key
        self._redact = redact
        self._point = point
        self._group = group
        self._journal: Journal | None = None
        self._fleet_id = FleetId("")
        self._tokens: dict[IntentId, str] = {}
        self._refused: dict[str, None] = {}
        self._rings: dict[IntentId, deque[Report]] = {}
        self._newest: dict[IntentId, tuple[str, int, int]] = {}  # boot, seq and last completion of the newest stored
        self._ends: dict[IntentId, tuple[ExitFact, ExitFact]] = {}  # the last exit, as it came and without secrets
        self.heard = False

    def open(self, journal: Journal, fleet_id: FleetId) -> None:
        """From now on reports are accepted."""
        self._journal = journal
        self._fleet_id = fleet_id
        self._tokens.clear()
        self._newest.clear()

    def close(self) -> None:
        """From now on none is: another controller leads."""
        self._journal = None

    async def receive(self, report: Report) -> Answer:
        """Stores a report and answers it. Raises StoreError: nothing was stored, the agent has to send it again."""
        await self._point("report.received")
        journal = self._journal
        if journal is None:
            raise StoreLocked("the controller is starting, or another one leads")
        intent = report.rental
        rental = journal.fleet.rentals.get(intent)
        if rental is None or not self._signed(intent, report.token):
            return await self._refuse(journal, report, "unknown rental" if rental is None else "wrong token")
        kept = self._kept(report)
        try:
            if self._group:
                await journal.commit_with_others(Reported(kept))
            else:
                await journal.commit((Reported(kept),))
        except StoreError:
            self.heard = False  # what was refused for our own trouble was not heard: no age may grow on it
            raise
        self.heard = True
        self._remember(kept)
        await self._point("report.committed")
        if not rental.live:
            return _OVER
        if not rental.directives:
            return _NOTHING
        return Answer(tuple(Directive(i, what, args) for i, what, args in rental.directives))

    def last_reports(self, intent: IntentId) -> list[Report]:
        """The newest reports of a rental, oldest first, at most 40; empty after a restart of the controller."""
        return list(self._rings.get(intent, ()))

    def forget(self, intent: IntentId) -> None:
        """The rental is gone."""
        for kept in (self._rings, self._tokens, self._newest, self._ends):
            kept.pop(intent, None)

    def beat(self) -> bool:
        """Was anything heard since the last beat? Starts a new count."""
        heard, self.heard = self.heard, False
        self._refused.clear()
        return heard

    def _signed(self, intent: IntentId, token: str) -> bool:
        known = self._tokens.get(intent)
        if known is None:
            known = self._tokens[intent] = sign(self._key, self._fleet_id, intent)
        return same(token, known)

    async def _refuse(self, journal: Journal, report: Report, why: str) -> Answer:
        """Somebody whom we do not accept. That an agent is alive somewhere is a fact all the same; one a beat and
        claimant is enough. Never answered with ``over``: an agent of ours whose rental a restored database has
        forgotten must go on working, and the orphan rule adopts it."""
        claimed = str(report.rental)[:CLAIM_CHARS_MAX]
        if why == "unknown rental" and not same(report.token, sign(self._key, self._fleet_id, report.rental)):
            why = "unknown rental, wrong token"
        key = f"{claimed} {why}"
        if key not in self._refused and len(self._refused) < REFUSALS_PER_BEAT_MAX:
            await journal.commit((HelloRefused(self._redact(claimed, CLAIM_CHARS_MAX), why),))
            self._refused[key] = None
        self.heard = True
        return _NOTHING

    def _remember(self, kept: Report) -> None:
        intent = kept.rental
        ring = self._rings.get(intent)
        if ring is None:
            ring = self._rings[intent] = deque(maxlen=RING)
        ring.append(kept)
        newest = self._newest.get(intent)
        if newest is None or newest[0] != kept.boot or newest[1] < kept.seq:
            done = kept.last_completions
            before = newest[2] if newest is not None and newest[0] == kept.boot else -1
            self._newest[intent] = (kept.boot, kept.seq, done[-1][0] if done else before)

    def _kept(self, report: Report) -> Report:
        """The copy that is stored: no token, no secret in a text, and of the completions only those that the report
        before did not bring (they are most of a report's bytes). Built by position: replace() costs twice as much."""
        rest = list(_AFTER_TOKEN(report))
        intent, done = report.rental, report.last_completions
        newest = self._newest.get(intent)
        if done and newest is not None and newest[0] == report.boot and newest[1] < report.seq:
            known, new = newest[2], len(done)
            while new and done[new - 1][0] > known:
                new -= 1
            rest[_COMPLETIONS] = done[new:]
        kept = Report(intent, "", *rest)
        if report.exit is None and report.params_error is None:
            return kept
        error = report.params_error
        return replace(
            kept,
            exit=None if report.exit is None else self._end(intent, report.exit),
            params_error=None if error is None else self._redact(error, LOG_TAIL_CHARS_MAX),
        )

    def _end(self, intent: IntentId, end: ExitFact) -> ExitFact:
        """An exit as it is stored. The same one comes with every report of its attempt, and redacting is slow."""
        known = self._ends.get(intent)
        if known is not None and known[0] == end:
            return known[1]
        kept = replace(end, log_tail=self._redact(end.log_tail, LOG_TAIL_CHARS_MAX))
        self._ends[intent] = (end, kept)
        return kept
