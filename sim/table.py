"""Reads TOML tables strictly: every key is taken once with its type, and what is left over is an error that names the
key and the nearest valid one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from sim import units

T = TypeVar("T")

NUMBER_MAX, NUMBER_MIN = 1e12, 1e-9
"""The largest number that a file may hold and, but for 0, the smallest: beyond them the model's arithmetic ends."""


class ScenarioError(ValueError):
    """One line: the file, the place in it, what is wrong, what to do."""


def shown(value: Any) -> str:
    """A value as the file would write it, short."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(name: str, known: Iterable[str]) -> str:
    """``did you mean "x"?``, or the whole list where nothing is near."""
    options = list(known)
    near = difflib.get_close_matches(name, options, 1, 0.5)
    return f'did you mean "{near[0]}"?' if near else f"known: {', '.join(options)}"


class Table:
    """One TOML table on its way to a dataclass. ``where`` is its place in the file: ``[fleet]``, ``[[fault]] 2``."""

    def __init__(self, data: Any, where: str, file: str) -> None:
        self.where, self.file = where, file
        if not isinstance(data, dict):
            self.fail(f"must be a table, not {shown(data)}")
        self._data: dict[str, Any] = data
        self._known: list[str] = []

    def fail(self, text: str) -> NoReturn:
        place = f"{self.where}: " if self.where else ""
        raise ScenarioError(f"{self.file}: {place}{text}".replace("\n", " "))

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def raw(self, name: str, default: Any = None) -> Any:
        self._known.append(name)
        return self._data.get(name, default)

    def table(self, name: str) -> Table:
        return Table(self.raw(name, {}), f"[{name}]", self.file)

    def tables(self, name: str, where: str = "") -> list[Table]:
        rows = self.raw(name, [])
        if not isinstance(rows, list):
            self.fail(f"{name} must be a list of tables; write [[{where or name}]]")
        return [Table(row, f"{where or f'[[{name}]]'} {i}", self.file) for i, row in enumerate(rows, 1)]

    def finish(self, more: Iterable[str] = ()) -> None:
        """ScenarioError for the first key that nobody took."""
        known = [*dict.fromkeys([*self._known, *more])]
        for name in self._data:
            if name not in known:
                self.fail(f'unknown key "{name}"; {nearest(name, known)}')

    # ------------------------------------------------------------ typed keys

    def text(self, name: str, default: str | None = None, allowed: tuple[str, ...] = ()) -> str:
        value = self.raw(name, default)
        if not isinstance(value, str) or not value:
            self.fail(f"{name} is missing; it must be text" if value is None
                      else f"{name} must be text, not {shown(value)}")
        if allowed and value not in allowed:
            self.fail(f'{name} = "{value}" is not one of {", ".join(allowed)}; {nearest(value, allowed)}')
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.raw(name, default)
        if not isinstance(value, bool):
            self.fail(f"{name} must be true or false, not {shown(value)}")
        return value

    def number(self, name: str, default: float | None, *, least: float | None = 0.0, above: float | None = None,
               most: float | None = None) -> float:
        """A number, or a range of two in quotes. ``default`` None: must be there."""
        value = self.raw(name, default)
        if value is None:
            self.fail(f"{name} is missing; it must be a number")
        return self.as_number(name, value, least=least, above=above, most=most)

    def as_number(self, name: str, value: Any, *, least: float | None = 0.0, above: float | None = None,
                  most: float | None = None) -> float:
        if isinstance(value, str):
            value = self._try(name, units.number, value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            self.fail(f"{name} must be a number, not {shown(value)}")
        ends = (value.lo, value.hi) if isinstance(value, units.Range) else (value, value)
        for end in ends:
            if end and not NUMBER_MIN <= abs(end) <= NUMBER_MAX:
                self.fail(f"{name} = {shown(value)} must be 0, or from {NUMBER_MIN:g} to {NUMBER_MAX:g}")
        if above is not None and ends[0] <= above:
            self.fail(f"{name} = {shown(value)} must be above {above:g}")
        if least is not None and ends[0] < least:
            self.fail(f"{name} = {shown(value)} must be at least {least:g}")
        if most is not None and ends[1] > most:
            self.fail(f"{name} = {shown(value)} must be at most {most:g}")
        return value if isinstance(value, units.Range) else float(value)

    def count(self, name: str, default: int | None, *, least: int = 0, most: float | None = None) -> int:
        value = self.raw(name, default)
        if value is None:
            self.fail(f"{name} is missing; it must be a whole number")
        return self.as_count(name, value, least=least, most=most)

    def fixed(self, name: str, default: int | None, *, least: int = 0, most: float | None = None) -> int:
        """A count that no seed may draw, because other parts of the file refer to it."""
        value = self.count(name, default, least=least, most=most)
        if isinstance(value, units.Range):
            self.fail(f"{name} = {shown(self.raw(name))} may not be a range; write one whole number")
        return value

    def as_count(self, name: str, value: Any, *, least: float | None = 0, most: float | None = None) -> int:
        if isinstance(value, str):
            value = self._try(name, units.number, value)
        if isinstance(value, bool) or not isinstance(value, int | units.Range) or (
                isinstance(value, units.Range) and not value.whole):
            self.fail(f"{name} must be a whole number, not {shown(value)}")
        self.as_number(name, value, least=least, most=most)
        return value  # type: ignore[return-value]  # a whole Range stands for an int until it is drawn

    def duration(self, name: str, default: str) -> float:
        return self.as_duration(name, self.raw(name, default))

    def as_duration(self, name: str, value: Any) -> float:
        """Seconds from text with units."""
        if not isinstance(value, str):
            self.fail(f'{name} = {shown(value)} has no unit; write it like "25m", "2h58m30s" or "90s"')
        return self._try(name, units.duration, value)

    def moment(self, name: str, default: str) -> tuple[str, float]:
        value = self.raw(name, default)
        if not isinstance(value, str):
            self.fail(f'{name} = {shown(value)} has no unit; write it like "25m" or "batch+120s"')
        return self._try(name, units.moment, value)

    def words(self, name: str) -> str:
        """Text that may be empty or absent."""
        value = self.raw(name, "")
        if not isinstance(value, str):
            self.fail(f"{name} must be text, not {shown(value)}")
        return value

    def texts(self, name: str) -> list[str]:
        value = self.raw(name, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            self.fail(f"{name} must be a list of texts, not {shown(value)}")
        return list(value)

    def _try(self, name: str, read: Callable[[str], T], value: str) -> T:
        try:
            return read(value)
        except ValueError as error:
            self.fail(f"{name} = {error}" if str(error).startswith('"') else f"{name} {error}")
