"""The agents' credentials: signed, so that a controller with a restored database still knows its agents."""

from __future__ import annotations

import hmac

from proverfleet.domain.ids import FleetId, IntentId

TOKEN_CHARS = 40


def sign(key: str, fleet: FleetId, intent: IntentId) -> str:
    """The token of ``intent`` in ``fleet``: HMAC-SHA-256 over both, 160 bits as hex. The contract is not named in it:
    the token travels in the create call, before the contract has an id."""
    return hmac.digest(key.encode(), f"pf.{fleet}.{intent}".encode(), "sha256").hex()[:TOKEN_CHARS]


def same(a: str, b: str) -> bool:
    """Compares without telling by its time how far they agree; False for anything that is no ASCII text."""
    return isinstance(a, str) and a.isascii() and hmac.compare_digest(a, b)
