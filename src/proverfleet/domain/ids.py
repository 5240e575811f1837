"""Identifiers. Each is a type of its own, so that mypy refuses a host where a machine belongs.

``MachineId`` is one physical box; ``HostId`` is an operator account that owns many boxes. Mixing the two would
blacklist or praise the wrong machines (field case M1475, point 5).
"""

from __future__ import annotations

import re
from typing import NewType

MachineId = NewType("MachineId", int)
HostId = NewType("HostId", int)
OfferId = NewType("OfferId", int)
ContractId = NewType("ContractId", int)
IntentId = NewType("IntentId", str)
FleetId = NewType("FleetId", str)

_MARK = re.compile(r"pf\.([0-9a-z]{4,32})\.([0-9a-z]{4,32})")


def mark(fleet: FleetId, intent: IntentId) -> str:
    """The label that goes into the create call: ``pf.<fleet>.<intent>``."""
    return f"pf.{fleet}.{intent}"


def parse_mark(label: object) -> tuple[FleetId, IntentId] | None:
    """Fleet and intent of an exact mark; None for anything else (null, look-alikes, other types)."""
    if not isinstance(label, str):
        return None
    found = _MARK.fullmatch(label)
    return (FleetId(found[1]), IntentId(found[2])) if found else None
