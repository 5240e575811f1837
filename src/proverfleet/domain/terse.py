"""Reports as the journal has them: without the fields that stand at their usual value.

Reports are nearly all of a journal, and more than a quarter of one is zeros, nulls and empty lists. What is left out
is put back before a line is read, so nothing is lost. The usual values are part of the format: whoever changes one (a
default of ``Report`` is one too) raises ``Reported.V`` and writes a lift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from proverfleet.domain.report import Report

_ZEROS: dict[str, Any] = {
    "token": "", "backlog": 0, "attempt": 0, "proofs_failed": 0, "starved_s": 0.0, "restarts_agent": 0,
    "restarts_prover": 0, "restarts_container": 0,
}
"""Usual values of fields that whoever makes a report has to give."""

_NAMES = tuple(f.name for f in fields(Report))
_VALUES = attrgetter(*_NAMES)
_USUAL = tuple(_ZEROS.get(f.name, f.default) for f in fields(Report))  # MISSING equals no value


def shortened(report: Report) -> dict[str, Any]:
    """Its fields without the usual ones, values as they are."""
    # On the path of every report: one pass, and cards stay as they are.
    return {
        name: value for name, value, usual in zip(_NAMES, _VALUES(report), _USUAL, strict=True) if value != usual
    }


def filled(data: Any) -> Any:
    """What :func:`shortened` left out and a reader must find. Defaults of the dataclass are the reader's own affair."""
    return {**_ZEROS, **data} if isinstance(data, Mapping) else data
