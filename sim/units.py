"""Durations, ranges and stage marks as a scenario file writes them: "2h58m30s", "4h..4h2m", "batch+620s"."""

from __future__ import annotations

import difflib
import random
import re
from decimal import Decimal

MARKS = ("requested", "created", "running", "registered", "params", "warmup", "batch", "active", "draining",
         "destroying", "gone")
UNITS = {"d": Decimal(86400), "h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-zµ]*)")
SECONDS_MAX = 1e8  # three years: far beyond any run, and exact in ns


class Range(float):
    """A number that the seed draws before the run. Until then it is a float: the middle of ``lo`` … ``hi``."""

    lo: float
    hi: float
    whole: bool

    def __new__(cls, lo: float, hi: float, whole: bool = False) -> Range:
        value = super().__new__(cls, (lo + hi) / 2)
        value.lo, value.hi, value.whole = lo, hi, whole
        return value

    def __reduce__(self) -> tuple[type[Range], tuple[float, float, bool]]:
        return Range, (self.lo, self.hi, self.whole)

    def draw(self, stream: random.Random) -> float:
        """Uniform in [lo, hi]; whole numbers stay whole. Times come out on the ms, so that a file can hold them."""
        if self.whole:
            return stream.randint(int(self.lo), int(self.hi))
        return round(stream.uniform(self.lo, self.hi), 3 if self.hi > 10 else 6)


def seconds(text: str) -> float:
    """``"2h58m30s"`` → 10710.0. ValueError says what is wrong and how to write it."""
    body = text.strip()
    total, at = Decimal(0), 0
    if not body:
        raise ValueError('is empty; write a duration like "25m", "2h58m30s" or "90s"')
    while at < len(body):
        found = _PART.match(body, at)
        if not found:
            raise ValueError(f'"{text}" is no duration; write it like "25m", "2h58m30s" or "90s"')
        if found[2] not in UNITS:
            what = f'unknown unit "{found[2]}"' if found[2] else "no unit"
            raise ValueError(f'"{text}" has {what}; units are d, h, m, s and ms, as in "2h58m30s"')
        total += Decimal(found[1]) * UNITS[found[2]]
        at = found.end()
    if total > SECONDS_MAX:
        raise ValueError(f'"{text}" is longer than any run; write at most {SECONDS_MAX / 3600:.0f}h')
    return float(total)


def duration(text: str) -> float:
    """A duration in s or a range of two, ``"4h..4h2m"``, which comes back as a :class:`Range`."""
    lo, dots, hi = text.partition("..")
    if not dots:
        return seconds(text)
    a, b = seconds(lo), seconds(hi)
    if a > b:
        raise ValueError(f'"{text}" runs backwards; write the smaller end first')
    return Range(a, b)


def moment(text: str) -> tuple[str, float]:
    """``at``: ``("", s since the start)`` or ``(mark, s after that mark began)``."""
    name, plus, offset = text.strip().partition("+")
    name = name.strip()
    if name in MARKS:
        return name, duration(offset) if plus else 0.0
    if plus or (name and name.isalpha()):
        near = difflib.get_close_matches(name, MARKS, 1, 0.5)
        mend = f'did you mean "{near[0]}"?' if near else f"marks are {', '.join(MARKS)}"
        raise ValueError(f'"{text}" names no stage mark; {mend}')
    return "", duration(name)


def number(text: str) -> float:
    """A range of numbers, ``"20..60"``. ValueError for anything else: a plain number is written without quotes."""
    lo, dots, hi = text.partition("..")
    try:
        a, b = float(lo), float(hi)
    except ValueError:
        a, b, dots = 0.0, 0.0, ""
    if not dots:
        raise ValueError(f'"{text}" is no number; write it without quotes, or as a range like "20..60"')
    if a > b:
        raise ValueError(f'"{text}" runs backwards; write the smaller end first')
    return Range(a, b, whole="." not in lo and "." not in hi)


def in_words(value: float) -> str:
    """The shortest text that :func:`duration` reads back to the same value."""
    if isinstance(value, Range):
        return f"{in_words(value.lo)}..{in_words(value.hi)}"
    left = Decimal(repr(float(value)))
    out = ""
    for unit, size in (("h", 3600), ("m", 60)):
        count = int(left // size)
        if count:
            out += f"{count}{unit}"
            left -= count * size
    if left or not out:
        out += f"{left.normalize():f}s"
    return out


def at_in_words(mark: str, at_s: float) -> str:
    return f"{mark}+{in_words(at_s)}" if mark else in_words(at_s)
