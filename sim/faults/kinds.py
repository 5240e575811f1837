"""What a kind of fault is: its parameters, how long it lasts, whom it may be blamed on. Data only; no fault acts here.

A parameter whose default depends on the machine (half of its RAM, its price x 1.1) has the default None: the part that
applies the fault computes it. In scope: everything that a scenario file may say about a fault. Out of scope: scopes
(machine, host_id), times and marks, which are the same for every kind (sim/scenario.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BLAMES = ("machine", "us", "source", "market", "nobody")
MARKET_OPS = ("search", "create", "list", "get", "destroy", "label", "start", "stop", "logs", "user", "all")

NUMBER, COUNT, FLAG, TEXT, ANY, TABLE, DURATION, CARD = (
    "number", "whole number", "true or false", "text", "any value", "table", "duration", 'card number or "all"')
REQUIRED: Any = object()
"""The default of a parameter that must be given."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. ``type`` is one of the words above; ``allowed`` a closed list (empty: anything of the type);
    ``least`` and ``most`` bound numbers; ``says`` explains a default of None, which depends on the machine."""

    name: str
    default: Any
    type: str = TEXT
    unit: str = ""
    allowed: tuple[Any, ...] = ()
    least: float | None = 0.0
    most: float | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault. ``for_s``: default duration in s; None: the run; 0: a moment. ``per_call`` (printed as a
    dot): acts on calls or messages that happen while it lasts. ``times``: default limit; None: none."""

    name: str
    doc: str
    params: tuple[Param, ...]
    for_s: float | None
    times: int | None
    per_call: bool
    blame: str
    for_note: str = ""

    @property
    def family(self) -> str:
        return self.name.split(".")[0]

    @property
    def moment(self) -> bool:
        """Happens at once and has no duration."""
        return self.for_s == 0 and not self.per_call

    @property
    def may_be_always(self) -> bool:
        """Only what is the machine's own nature may stay on in the liveness phase."""
        return self.family in ("host", "prover")

    def param(self, name: str) -> Param | None:
        return next((p for p in self.params if p.name == name), None)

    def defaults(self) -> dict[str, Any]:
        """Every parameter with its default; required ones are left out."""
        return {p.name: p.default for p in self.params if p.default is not REQUIRED}


def number(name: str, default: float | None, unit: str = "", *, least: float | None = 0.0, most: float | None = None,
           says: str = "") -> Param:
    return Param(name, default, NUMBER, unit, (), least, most, says)


def count(name: str, default: Any, unit: str = "", *, least: float | None = 0.0, most: float | None = None) -> Param:
    return Param(name, default, COUNT, unit, (), least, most)


def choice(name: str, *allowed: Any, default: Any = None) -> Param:
    """One of ``allowed``; the first is the default unless another is named."""
    return Param(name, allowed[0] if default is None else default, TEXT, "", allowed)


def flag(name: str, default: bool) -> Param:
    return Param(name, default, FLAG)


def text(name: str, default: str | None = "", *, says: str = "") -> Param:
    return Param(name, default, TEXT, says=says)


def anything(name: str, default: Any = None, *, says: str = "") -> Param:
    return Param(name, default, ANY, says=says)


def card(name: str, default: int | str) -> Param:
    return Param(name, default, CARD)


S, M, H = 1.0, 60.0, 3600.0
RUN: float | None = None
MOMENT = 0.0


def lasting(name: str, doc: str, *params: Param, for_s: float | None, blame: str, times: int | None = 1,
            for_note: str = "") -> Kind:
    """Happens by itself and lasts ``for_s``."""
    return Kind(name, doc, params, for_s, times, False, blame, for_note)


def moment(name: str, doc: str, *params: Param, blame: str, times: int | None = 1) -> Kind:
    """Happens at once."""
    return Kind(name, doc, params, MOMENT, times, False, blame)


def on_calls(name: str, doc: str, *params: Param, for_s: float | None = RUN, blame: str,
             times: int | None = None, op: str | None = None) -> Kind:
    """Acts on calls or messages while it lasts; ``op``: the market call it acts on by default."""
    if op is not None:
        params = (*params, choice("op", *MARKET_OPS, default=op))
    return Kind(name, doc, params, for_s, times, True, blame)
