"""Events as plain data and back: one line of the journal is ``{"seq", "wall_ns", "kind", "v", …the body's fields}``.

Each kind carries a version. An older line is lifted, version by version, by the small pure functions in ``LIFTS``, so
that a journal of any released version still folds; unknown fields of a newer one are refused, never guessed. Readers
for each class are built once, from its type hints. A line of the world's stream (``src = "world"``) is refused: what
only the simulation knows must never reach the fold.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from proverfleet.domain import events, terse
from proverfleet.domain.events import Event, EventBody, Reported

Read = Callable[[Any, str], Any]


class CodecError(ValueError):
    """A line that is no event of ours; says which line, which field, what was wrong and what was expected."""


def _bodies() -> dict[str, type[EventBody]]:
    found = [c for c in vars(events).values() if isinstance(c, type) and issubclass(c, EventBody) and c.KIND]
    return {c.KIND: c for c in found}


KINDS: dict[str, type[EventBody]] = _bodies()

LIFTS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {
    ("reported", 1): lambda fields: fields,  # every field was written
}
"""(kind, version) → what turns the fields of that version into those of the next."""


def body_to_dict(body: Any) -> dict[str, Any]:
    """The fields of any dataclass of the domain as JSON-able data (tuples become lists, keys become text)."""
    return {name: _plain(getattr(body, name)) for name in _names(type(body))}


def event_to_dict(event: Event) -> dict[str, Any]:
    """One journal line as data."""
    body = event.body
    fields = {"report": _plain(terse.shortened(body.report))} if isinstance(body, Reported) else body_to_dict(body)
    return {"seq": event.seq, "wall_ns": event.wall_ns, "kind": body.KIND, "v": body.V, **fields}


def event_from_dict(line: Mapping[str, Any]) -> Event:
    """The event of one line. CodecError names what is wrong with it."""
    if line.get("src") == "world":
        raise CodecError(f"line {line.get('seq', '?')}: an event of the world's stream is no event of the journal")
    seq, wall_ns, kind, version = line.get("seq"), line.get("wall_ns"), line.get("kind"), line.get("v")
    for name, value in (("seq", seq), ("wall_ns", wall_ns), ("v", version)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise CodecError(f"line {seq!r}: {name} must be a whole number, not {value!r}")
    assert isinstance(seq, int) and isinstance(wall_ns, int) and isinstance(version, int)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise CodecError(f"line {seq}: unknown kind {kind!r}")
    fields = {name: value for name, value in line.items() if name not in ("seq", "wall_ns", "kind", "v", "src")}
    if version > cls.V:
        raise CodecError(f"line {seq}: {kind} has version {version}, this program knows up to {cls.V}: upgrade it")
    while version < cls.V:
        lift = LIFTS.get((cls.KIND, version))
        if lift is None:
            raise CodecError(f"line {seq}: {kind} version {version} cannot be lifted to {cls.V}: no lift is known")
        fields, version = lift(fields), version + 1
    if cls is Reported and "report" in fields:
        fields["report"] = terse.filled(fields["report"])
    body: EventBody = reader(cls)(fields, f"line {seq}: {kind}")
    return Event(seq, wall_ns, body)


# ---------------------------------------------------------------- writing

_NAMES: dict[type[Any], tuple[str, ...]] = {}


def _names(cls: type[Any]) -> tuple[str, ...]:
    names = _NAMES.get(cls)
    if names is None:
        names = _NAMES[cls] = tuple(f.name for f in dataclasses.fields(cls))
    return names


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value):
        return body_to_dict(value)
    raise CodecError(f"a value of type {type(value).__name__} has no place in an event")


# ---------------------------------------------------------------- reading

_READERS: dict[Any, Read] = {}


def reader(hint: Any) -> Read:
    """What turns plain data into a value of this type (a dataclass, container, union or scalar); built once."""
    found = _READERS.get(hint)
    if found is None:
        found = _READERS[hint] = _build(hint)
    return found


def _build(hint: Any) -> Read:
    if isinstance(hint, typing.NewType):
        return reader(hint.__supertype__)
    if hint is Any:
        return lambda value, where: value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [reader(a) for a in args if a is not type(None)]
        if len(inner) != 1:
            raise CodecError(f"no reader for the union {hint}")
        return _optional(inner[0])
    if origin is tuple:
        return _tuple(args)
    if origin is list:
        return _list(reader(args[0]))
    if origin is dict:
        return _dict(args[0], reader(args[1]))
    return _scalar(hint)


def _dataclass(cls: type[Any]) -> Read:
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    reads = {f.name: reader(hints[f.name]) for f in fields}
    needed = {f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: must be an object, not {value!r}")
        got = {}
        for name, raw in value.items():
            one = reads.get(name)
            if one is None:
                raise CodecError(f"{where}: unknown field {name!r}")
            got[name] = one(raw, f"{where}.{name}")
        if missing := needed - got.keys():
            raise CodecError(f"{where}: field {min(missing)!r} is missing")
        return cls(**got)

    return read


def _optional(inner: Read) -> Read:
    return lambda value, where: None if value is None else inner(value, where)


def _tuple(args: tuple[Any, ...]) -> Read:
    if len(args) == 2 and args[1] is Ellipsis:
        each = _list(reader(args[0]))
        return lambda value, where: tuple(each(value, where))
    reads = [reader(a) for a in args]

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(reads):
            raise CodecError(f"{where}: must be a list of {len(reads)}, not {value!r}")
        return tuple(one(v, where) for one, v in zip(reads, value, strict=True))

    return read


def _list(each: Read) -> Read:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list | tuple):
            raise CodecError(f"{where}: must be a list, not {value!r}")
        return [each(v, where) for v in value]

    return read


def _dict(key: Any, each: Read) -> Read:
    while isinstance(key, typing.NewType):
        key = key.__supertype__

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: must be an object, not {value!r}")
        try:
            return {key(k): each(v, f"{where}.{k}") for k, v in value.items()}
        except ValueError as error:
            if isinstance(error, CodecError):
                raise
            raise CodecError(f"{where}: a key is no {key.__name__}") from error

    return read


def _scalar(hint: Any) -> Read:
    if hint is float:
        def read_float(value: Any, where: str) -> Any:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise CodecError(f"{where}: must be a number, not {value!r}")
            return float(value)

        return read_float
    if hint not in (int, str, bool):
        raise CodecError(f"no reader for {hint!r}")

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
            raise CodecError(f"{where}: must be {hint.__name__}, not {value!r}")
        return value

    return read
