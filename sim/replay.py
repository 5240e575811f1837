"""Reads a run's journal again: replay (decide beside the record), backtest (another policy), diff (two journals).

Replay folds the controller's stored events in their order and, after each beat, asks the same rules again. What they
say must be exactly what was stored next. Out of scope: what a crash or a full disk kept from the store; such a beat has
nothing to be compared with, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, get_args

import orjson

from proverfleet.controller.brain import Brain
from proverfleet.domain import codec, fold
from proverfleet.domain.events import Beat, Booted, Decision, Event, EventBody, Ordered
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.policy import Policy
from sim.journal import JournalError, RunFile
from sim.units import in_words

DECISIONS: tuple[type, ...] = get_args(Decision)
NS = 1_000_000_000


@dataclass(slots=True)
class Step:
    """One beat of the record: when (world s), what was decided and stored next, and whether the store may have been
    kept from it (a crash or a failed commit followed)."""

    number: int
    at_s: float
    recorded: list[EventBody]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that comes out otherwise. ``None`` on a side: nothing there."""

    beat: int
    at_s: float
    recorded: EventBody | None
    decided: EventBody | None

    def in_words(self) -> str:
        return (f"beat {self.beat} at {in_words(round(self.at_s, 3))}: recorded {body_in_words(self.recorded)}, "
                f"decided now {body_in_words(self.decided)}{_field_in_words(self.recorded, self.decided)}")


@dataclass(slots=True)
class Replay:
    """``fleet``: the fold of everything. ``unrecorded``: beats whose decisions never reached the store."""

    events: int = 0
    beats: int = 0
    decisions: int = 0
    unrecorded: int = 0
    rewound: int = 0
    first: Difference | None = None
    fleet: Fleet = field(default_factory=fold.new_fleet)


def body_in_words(body: EventBody | None) -> str:
    if body is None:
        return "nothing"
    data = codec.body_to_dict(body)
    named = ("intent", "contract_id", "machine_id", "name", "key", "verdict", "what", "outcome", "reason")
    shown = [f"{k} {data[k]!r}" for k in named if data.get(k) not in (None, "", [])]
    return f"{body.KIND} ({', '.join(shown)})" if shown else body.KIND


def _field_in_words(a: EventBody | None, b: EventBody | None) -> str:
    """Which field differs, where both are the same kind."""
    if a is None or b is None or type(a) is not type(b):
        return ""
    for f in fields(a):  # type: ignore[arg-type]  # every body is a dataclass
        x, y = getattr(a, f.name), getattr(b, f.name)
        if x != y:
            return f"; {f.name} was {x!r}, is {y!r}"
    return ""


# ---------------------------------------------------------------- the record


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored event with the world's time and the process that wrote it."""

    at_s: float
    by: str
    event: Event


def stored(file: RunFile) -> list[Stored]:
    """The controller's events in the order in which they were stored. JournalError names the line that is none."""
    out = []
    for number, line in enumerate(file.lines, 2):
        if line["src"] == "controller":
            data = {k: v for k, v in line.items() if k not in ("src", "t", "by")}
            try:
                event = codec.event_from_dict(data)
            except (codec.CodecError, KeyError, TypeError, ValueError) as error:
                raise JournalError(f"{file.path}, line {number}: no event of a controller ({error})") from None
            out.append(Stored(line["t"] / NS, line.get("by", "controller"), event))
    return out


class _Book:
    """One store's events, folded as they come; goes back when the store was replaced by an older one."""

    def __init__(self) -> None:
        self.fleet = fold.new_fleet()
        self.events: list[Event] = []
        self.rewound = 0

    def take(self, item: Stored) -> bool:
        """Folds the event; False: it is another store's (a second controller with books of its own)."""
        expected = self.events[-1].seq + 1 if self.events else item.event.seq
        if item.event.seq != expected:
            if item.by != "controller":
                return False
            if item.event.seq > expected:
                raise JournalError(f"event {expected} is missing (event {item.event.seq} follows): no replay")
            self.events = [e for e in self.events if e.seq < item.event.seq]
            self.fleet = fold.new_fleet()
            for event in self.events:
                fold.apply(self.fleet, event)
            self.rewound += 1
        self.events.append(item.event)
        fold.apply(self.fleet, item.event)
        return True


def _steps(items: list[Stored], book: _Book) -> Iterator[tuple[Step, Fleet]]:
    """Each beat with the fleet right after it, before its decisions are folded."""
    i = 0
    while i < len(items):
        item = items[i]
        i += 1
        if not book.take(item) or not isinstance(item.event.body, Beat):
            continue
        recorded: list[EventBody] = []
        while i + len(recorded) < len(items) and isinstance(items[i + len(recorded)].event.body, DECISIONS):
            recorded.append(items[i + len(recorded)].event.body)
        yield Step(item.event.body.n, item.at_s, recorded, _cut(items, i + len(recorded))), book.fleet


def _cut(items: list[Stored], after: int) -> bool:
    """Was the store kept from what this beat decided? A crash, a failed commit, or the end of the file followed."""
    for item in items[after:after + 2000]:
        body = item.event.body
        if isinstance(body, Booted):
            return True
        if isinstance(body, Beat):
            return not body.inbox_ok
    return True


# ---------------------------------------------------------------- replay and backtest


def replay(file: RunFile, brain: Brain) -> Replay:
    """Folds the journal and decides beside it, up to the first difference."""
    out, book, items = Replay(), _Book(), stored(file)
    for step, fleet in _steps(items, book):
        decided = list(brain.decide(fleet).decisions)
        out.beats += 1
        out.decisions += len(step.recorded)
        if decided and not step.recorded and step.cut:
            out.unrecorded += 1
            continue
        found = _first(step, decided)
        if found is not None and out.first is None:
            out.first = found
            break
    out.events, out.fleet, out.rewound = len(items), book.fleet, book.rewound
    return out


def _first(step: Step, decided: list[Any]) -> Difference | None:
    for i in range(max(len(step.recorded), len(decided))):
        was = step.recorded[i] if i < len(step.recorded) else None
        now = decided[i] if i < len(decided) else None
        if was != now and not (was is not None and now is not None and _same(was, now)):
            return Difference(step.number, step.at_s, was, now)
    return None


def _same(a: EventBody, b: EventBody) -> bool:
    """Equal once written and read again: a tuple and a list, 1 and 1.0 are the same line."""
    return type(a) is type(b) and orjson.dumps(codec.body_to_dict(a)) == orjson.dumps(codec.body_to_dict(b))


@dataclass(frozen=True, slots=True)
class Change:
    """Something that another policy decides at another time than the record, or never (None)."""

    what: str
    recorded_s: float | None
    decided_s: float | None
    text: str


def backtest(file: RunFile, brain: Brain, policy: Policy | None) -> tuple[Replay, list[Change]]:
    """Decides on the recorded facts under ``policy``. The facts stay as they were: what another decision would have
    led to, nobody can say; so each thing is listed once, at the first moment at which it would have been decided."""
    out, book, items = Replay(), _Policed(policy), stored(file)
    was: dict[str, tuple[float, str]] = {}
    now: dict[str, tuple[float, str]] = {}
    for step, fleet in _steps(items, book):
        out.beats += 1
        out.decisions += len(step.recorded)
        for bodies, into in ((step.recorded, was), (list(brain.decide(fleet).decisions), now)):
            for body in bodies:
                key = _what(body, fleet)
                if key:
                    into.setdefault(key, (step.at_s, body_in_words(body)))
    out.events, out.fleet, out.rewound = len(items), book.fleet, book.rewound
    changes = []
    for key in dict.fromkeys([*now, *was]):
        a, b = was.get(key), now.get(key)
        if a is None or b is None or abs(a[0] - b[0]) > 1e-9:
            changes.append(Change(key, a[0] if a else None, b[0] if b else None, (b or a or (0.0, ""))[1]))
    changes.sort(key=lambda c: min(t for t in (c.recorded_s, c.decided_s) if t is not None))
    return out, changes


class _Policed(_Book):
    """A book whose fleet goes by another policy than the record."""

    def __init__(self, policy: Policy | None) -> None:
        super().__init__()
        self._policy = policy

    def take(self, item: Stored) -> bool:
        taken = super().take(item)
        if taken and self._policy is not None and isinstance(item.event.body, Booted | Ordered):
            self.fleet.policy = self._policy
        return taken


def _what(body: EventBody, fleet: Fleet) -> str:
    """What a decision is about, in words that are the same under both policies; "" for what only informs."""
    data = codec.body_to_dict(body)
    if body.KIND == "rent":
        return f"rent machine {data['offer']['machine_id']}"
    if body.KIND in ("end", "directed", "judged", "repriced"):
        rental = fleet.rentals.get(data["intent"])
        where = f" on machine {rental.machine_id}" if rental is not None else ""
        name = data.get("verdict") or data.get("what") or data.get("outcome") or ""
        return f"{body.KIND} {name}{where} ({data['intent']})"
    if body.KIND == "blacklisted":
        return f"blacklist machine {data['machine_id']}"
    if body.KIND == "braked" and data["on"]:
        return f"brake {data['name']}"
    return ""


# ---------------------------------------------------------------- diff


def first_difference(a: RunFile, b: RunFile) -> tuple[int, dict[str, Any] | None, dict[str, Any] | None] | None:
    """(line number, line of a, line of b) of the first event that differs; None: the same events. Headers aside."""
    for i in range(max(len(a.lines), len(b.lines))):
        x = a.lines[i] if i < len(a.lines) else None
        y = b.lines[i] if i < len(b.lines) else None
        if x != y:
            return i + 2, x, y
    return None


def differing_keys(x: dict[str, Any], y: dict[str, Any], path: str = "") -> list[tuple[str, Any, Any]]:
    """Which keys differ, with both values, depth first."""
    out: list[tuple[str, Any, Any]] = []
    for key in dict.fromkeys([*x, *y]):
        u, v = x.get(key), y.get(key)
        if isinstance(u, dict) and isinstance(v, dict):
            out += differing_keys(u, v, f"{path}{key}.")
        elif u != v:
            out.append((f"{path}{key}", u, v))
    return out
