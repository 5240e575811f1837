"""Errors that are part of a port. Each has one decided outcome, given beside its class.

PortError
├── MarketError
│   ├── Unreachable       no answer; a create is in doubt, everything else may be repeated
│   ├── TimedOut          deadline passed; a create is in doubt
│   ├── ServerError       5xx; a create is in doubt
│   ├── Malformed         an answer that is none; a create is in doubt
│   ├── RateLimited       not done; wait ``retry_after_s`` (None: back off)
│   ├── AuthBroken        not done; says nothing about any contract
│   ├── NotAllowed        not done; the key may not do this
│   ├── RouteGone         not done; the endpoint is retired
│   ├── NotFound          the market does not know this contract
│   └── Refused           not done, with a reason code (no_such_ask, insufficient_credit, invalid_args …)
├── LinkDown              agent → controller: nothing arrived, or no answer came
├── ProbeFailed           controller → machine: no answer
├── ProverError           the daemon could not be started or asked
└── StoreError
    ├── StoreLocked       nothing was written; try again
    ├── StoreFull         nothing was written; the disk is full
    └── StoreFenced       nothing was written; the journal is not where we left it (another writer, a backup)
"""

from __future__ import annotations


class PortError(Exception):
    """Base of every error that a port may raise."""


class MarketError(PortError):
    """Base of the market's errors; ``in_doubt`` says whether a create may have been done."""

    in_doubt = False


class Unreachable(MarketError):
    in_doubt = True


class TimedOut(MarketError):
    in_doubt = True


class ServerError(MarketError):
    in_doubt = True

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(f"HTTP {status} {text}".strip())
        self.status = status


class Malformed(MarketError):
    in_doubt = True


class RateLimited(MarketError):
    def __init__(self, retry_after_s: float | None = None) -> None:
        super().__init__("rate limited" if retry_after_s is None else f"rate limited, wait {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


class AuthBroken(MarketError):
    pass


class NotAllowed(MarketError):
    pass


class RouteGone(MarketError):
    pass


class NotFound(MarketError):
    pass


class Refused(MarketError):
    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code}: {text}" if text else code)
        self.code = code


class LinkDown(PortError):
    pass


class ProbeFailed(PortError):
    pass


class ProverError(PortError):
    pass


class StoreError(PortError):
    pass


class StoreLocked(StoreError):
    pass


class StoreFull(StoreError):
    pass


class StoreFenced(StoreError):
    """``found``: the last sequence number in the store; ``expected``: the one that we had written last."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(f"the journal ends at {found}, not at {expected}, where we left it")
        self.expected = expected
        self.found = found
