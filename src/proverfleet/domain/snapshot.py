"""The whole state of the fold as plain data, and back, exactly.

A controller starts from the newest snapshot that fits (see :func:`header`) and the journal's tail.
"""

from __future__ import annotations

import hashlib
from typing import Any

from proverfleet.domain.codec import CodecError, body_to_dict, reader
from proverfleet.domain.fleet import FOLD_VERSION, Fleet
from proverfleet.domain.policy import Policy


def header(policy: Policy) -> str:
    """Which snapshots fit: ``<fold version>:<hash of the policy that the controller starts with>``."""
    text = repr(sorted(body_to_dict(policy).items()))
    return f"{FOLD_VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def dump(fleet: Fleet) -> dict[str, Any]:
    """JSON-able; keys of dicts become text."""
    return body_to_dict(fleet)


def load(data: dict[str, Any]) -> Fleet:
    """The fleet that :func:`dump` saw. CodecError names the first field that does not fit."""
    fleet = reader(Fleet)(data, "snapshot")
    if not isinstance(fleet, Fleet):
        raise CodecError("snapshot: holds no fleet")
    return fleet
