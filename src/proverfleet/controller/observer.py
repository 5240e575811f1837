"""What a listing is worth, and what of it becomes an event.

A listing is trusted when it is whole and does not contradict what is known by id. Contradictions are settled by reads
of the contracts in question: a listing that says less, or more, than the market says by id is a lie or an old copy, and
changes no state (INV-3; incidents I-001, I-002, I-031).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from proverfleet.controller.calls import Listing
from proverfleet.controller.redact import Redactor
from proverfleet.domain.events import Listed, RowFact
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.ids import ContractId, parse_mark
from proverfleet.errors import Malformed
from proverfleet.ports import Row

STATUS_CHARS_MAX = 200
LABEL_CHARS_MAX = 80
WORD_CHARS_MAX = 40
CONFIRM_MAX = 20
SHRINK_SHARE = 0.1
LEFT_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Weighed:
    """A listing on the scales. ``doubtful``: contracts to read by id before it is believed, at most 20."""

    listing: Listing
    facts: dict[ContractId, RowFact]
    missing: tuple[ContractId, ...]
    back: tuple[ContractId, ...]
    kind: str  # what it is called if the reads contradict it: empty | shrunken | stale
    doubtful: tuple[ContractId, ...]


class Observer:
    """Remembers what left the listings, so that a copy of the past is noticed when it comes back."""

    __slots__ = ("_facts", "_left", "_redact")

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._facts: dict[ContractId, tuple[Row, RowFact]] = {}
        self._left: dict[ContractId, None] = {}

    def weigh(self, fleet: Fleet, listing: Listing) -> Weighed:
        """Which contracts have to be read by id before this listing is believed?"""
        if not listing.whole:
            return Weighed(listing, {}, (), (), "", ())
        facts = self._ours(fleet, listing.rows)
        expected = expected_contracts(fleet)
        if expected and not listing.rows:
            missing, kind = expected, "empty"
        else:
            missing = [c for c in expected if c not in facts and c in fleet.rows]
            kind = "shrunken" if len(missing) > shrink_limit(len(expected)) else "stale"
        back = [c for c in facts if c not in fleet.rows and (c in self._left or _is_gone(fleet, c))]
        doubtful = tuple((missing + back)[:CONFIRM_MAX])
        return Weighed(listing, facts, tuple(missing), tuple(back), kind, doubtful)

    def conclude(self, fleet: Fleet, weighed: Weighed, present: Mapping[ContractId, bool]) -> Listed:
        """The event. ``present``: what the reads by id said (a read that failed is not in it)."""
        listing = weighed.listing
        if not listing.whole:
            return _untrusted(listing, _trust_of(listing), listing.why)
        there = [c for c in weighed.missing if present.get(c) is True]
        unknown = [c for c in weighed.missing if c not in present]
        if len(there) > listing.skipped:
            # A row that cannot be read may be one of ours; more absences than such rows have no excuse.
            return _untrusted(listing, weighed.kind, f"without {_ids(there)}, which exist by id")
        if unknown and weighed.kind in ("empty", "shrunken"):
            return _untrusted(listing, weighed.kind, f"without {_ids(unknown)}, and no read by id confirms it")
        ghosts = [c for c in weighed.back if present.get(c) is not True]
        if ghosts:
            return _untrusted(listing, "stale", f"with {_ids(ghosts)}, which had left it")
        keep = dict.fromkeys(there + (unknown if listing.skipped else []))
        return self._trusted(fleet, weighed, keep)

    def _trusted(self, fleet: Fleet, weighed: Weighed, keep: Mapping[ContractId, None]) -> Listed:
        facts, known = weighed.facts, fleet.rows
        in_order = sorted(facts)
        changed = tuple(facts[c] for c in in_order if known.get(c) != facts[c])
        gone = tuple(sorted(c for c in known if c not in facts and c not in keep))
        for contract_id in gone:
            self._left[contract_id] = None
            self._facts.pop(contract_id, None)
        for contract_id in weighed.back:
            self._left.pop(contract_id, None)
        while len(self._left) > LEFT_KEPT:
            del self._left[next(iter(self._left))]
        listing = weighed.listing
        total = listing.total if listing.total is not None else len(listing.rows)
        digest = hashlib.blake2b(orjson.dumps([facts[c] for c in in_order]), digest_size=8).hexdigest()
        return Listed("trusted", total, listing.skipped, changed, gone, digest)

    def _ours(self, fleet: Fleet, rows: tuple[Row, ...]) -> dict[ContractId, RowFact]:
        """The rows that are ours: by our exact mark, or by an id that we know (its label may be anything)."""
        out: dict[ContractId, RowFact] = {}
        for row in rows:
            contract_id = row.contract_id
            if not any(contract_id in known for known in (fleet.by_contract, fleet.rows, fleet.extras)):
                found = parse_mark(row.label)
                if found is None or found[0] != fleet.fleet_id:
                    continue  # not ours: neither touched nor stored
            cached = self._facts.get(contract_id)
            if cached is not None and cached[0] == row:
                out[contract_id] = cached[1]
            else:
                fact = self.fact(row)
                self._facts[contract_id] = (row, fact)
                out[contract_id] = fact
        return out

    def fact(self, row: Row) -> RowFact:
        """A row as it is kept: odd values as text or None, texts cut and without secrets."""
        label = _text(row.label)
        status = _text(row.status_msg)
        return RowFact(
            contract_id=row.contract_id,
            machine_id=row.machine_id,
            host_id=row.host_id,
            label=None if label is None else self._redact(label[:LABEL_CHARS_MAX], LABEL_CHARS_MAX),
            actual_status=self._word(row.actual_status),
            intended_status=self._word(row.intended_status),
            cur_state=self._word(row.cur_state),
            status_msg=None if status is None else self._redact(status[:STATUS_CHARS_MAX], STATUS_CHARS_MAX),
            price_usd_per_hour=_number(row.price_usd_per_hour),
            gpu_util=_number(row.gpu_util),
            disk_usage_gb=_number(row.disk_usage_gb),
        )

    def _word(self, value: object) -> str | None:
        text = _text(value)
        return None if text is None else self._redact(text[:WORD_CHARS_MAX], WORD_CHARS_MAX)


def expected_contracts(fleet: Fleet) -> list[ContractId]:
    """Contracts that a listing should show: ours, without those whose destroy the market has acknowledged."""
    out = [r.contract_id for r in fleet.rentals.values()
           if r.contract_id is not None and r.stage != "gone" and not r.destroy.acknowledged]
    out += [e.contract_id for e in fleet.extras.values() if not e.destroy.acknowledged]
    return out


def shrink_limit(owned: int) -> int:
    """So many contracts may vanish between two listings without its being called shrunken."""
    return max(1, math.floor(SHRINK_SHARE * owned))


def _is_gone(fleet: Fleet, contract_id: ContractId) -> bool:
    intent = fleet.by_contract.get(contract_id)
    rental = fleet.rentals.get(intent) if intent is not None else None
    return rental is not None and rental.stage == "gone"


def _untrusted(listing: Listing, trust: str, why: str) -> Listed:
    total = listing.total if listing.total is not None else len(listing.rows)
    return Listed(trust, total, listing.skipped, (), (), "", why[:STATUS_CHARS_MAX])


def _trust_of(listing: Listing) -> str:
    if listing.error is None:
        return "partial"
    return "malformed" if isinstance(listing.error, Malformed) else "failed"


def _ids(contracts: list[ContractId]) -> str:
    return ", ".join(str(c) for c in contracts[:5]) + (" …" if len(contracts) > 5 else "")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    return f"<{type(value).__name__}>"  # a structure where a text belongs: what is in it may be anything


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
