"""What the market and the probes say of contracts. Only a trusted listing counts rows; an untrusted or failed reading
changes nothing but the note that it was one (rules.md INV-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proverfleet.domain.events import ContractRead, Listed, LogsRead, Probed, RowFact
from proverfleet.domain.fleet import DestroyState, Fleet, Orphan, Rental
from proverfleet.domain.ids import ContractId, FleetId, IntentId, mark, parse_mark

_PROBES_APART = 5  # beats
_STOPPED = ("stopped", "frozen")
_BAD_STATUS = ("exited", "stopped", "error")
# Substrings of vast-api.md section 3.2 by which a status text says that the container cannot start.
_BAD_TEXT = ("error response from daemon", "failed to pull image", "no space left on device", "manifest unknown",
             "unauthorized", "unexpected eof", "oci runtime create failed")
_PROOF_UNITS = 10  # partitions a proof (cuzk-model.md section 3)


def _listed(fleet: Fleet, body: Listed) -> None:
    fleet.list_trust = body.trust
    if body.trust != "trusted":
        return
    changed: set[ContractId] = set()
    for row in body.changed:
        fleet.rows[row.contract_id] = row
        changed.add(row.contract_id)
    for contract in body.gone:
        fleet.rows.pop(contract, None)
    labels: set[str] | None = None
    for rental in fleet.rentals.values():
        if rental.stage == "gone":
            continue
        if rental.contract_id is not None:
            _listed_of(fleet, rental, rental.contract_id, rental.contract_id in changed)
        elif rental.in_doubt:
            if labels is None:
                labels = {r.label for r in fleet.rows.values() if r.label is not None}
            if mark(FleetId(fleet.fleet_id), rental.intent) in labels:
                rental.doubt_listings = 0
            else:
                rental.doubt_listings += 1
    for extra in fleet.extras.values():
        _absence(extra.destroy, extra.contract_id not in fleet.rows)
    _orphans(fleet)


def _listed_of(fleet: Fleet, rental: Rental, contract: ContractId, changed: bool) -> None:
    row = fleet.rows.get(contract)
    _absence(rental.destroy, row is None)
    if row is None:
        if rental.absent_listings == 0:
            rental.absent_since_listed_ns = fleet.listed_ns
        rental.absent_listings += 1
        return
    rental.absent_listings, rental.absent_by_id = 0, False
    if changed or rental.row is None:
        _moved(rental, row)
    rental.row = row
    if rental.machine_id is None:
        rental.machine_id, rental.host_id = row.machine_id, row.host_id
    status = row.actual_status
    rental.running_listed_ns = _since(fleet, rental.running_listed_ns, status == "running")
    rental.offline_listed_ns = _since(fleet, rental.offline_listed_ns, status == "offline")
    if not _bad(row) or (changed and rental.status_new):  # a pull that moves has not failed, whatever the status says
        rental.bad_status_beats = 0
    else:
        rental.bad_status_beats += 1
    stopped = row.intended_status in _STOPPED
    rental.market_stopped_listings = rental.market_stopped_listings + 1 if stopped else 0


def _since(fleet: Fleet, since_listed_ns: int | None, so: bool) -> int | None:
    if not so:
        return None
    return fleet.listed_ns if since_listed_ns is None else since_listed_ns


def _bad(row: RowFact) -> bool:
    """Does the market say that the container ended by itself or cannot start? (A stop is another matter.)"""
    return row.actual_status in _BAD_STATUS or _bad_text(row)


def _bad_text(row: RowFact) -> bool:
    text = (row.status_msg or "").lower()
    return any(t in text for t in _BAD_TEXT)


def _moved(rental: Rental, row: RowFact) -> None:
    """A changed column is evidence; a changed text or growing disk use while loading is a layer that came.

    The first text alone is no movement: what never moves has the longer limit.
    """
    old = rental.row
    if old is None:
        rental.evidence_new = True
        return
    text = row.status_msg != old.status_msg and bool(row.status_msg) and bool(old.status_msg)
    text = text and not _bad_text(row) and "exited" not in (row.status_msg or "")
    grew = (row.disk_usage_gb or 0.0) > max(0.0, old.disk_usage_gb or 0.0)
    if text or grew or row.gpu_util != old.gpu_util or row.actual_status != old.actual_status:
        rental.evidence_new = True
    if rental.stage == "loading" and (text or grew):
        rental.status_moved = rental.status_new = True
        rental.progress_new = True


def _absence(destroy: DestroyState, absent: bool) -> None:
    """Counts trusted listings without the contract since its destroy was acknowledged."""
    if not absent:
        destroy.absent_listings = 0
    elif destroy.acknowledged:
        destroy.absent_listings += 1


def _orphans(fleet: Fleet) -> None:
    """Marked contracts in the listing that no rental has ever known. One of a rental's own second contracts, or of an
    ended rental, is the duplicate rule's affair and stands in ``fleet.rows``."""
    found: dict[ContractId, Orphan] = {}
    for contract, row in fleet.rows.items():
        if contract in fleet.by_contract or contract in fleet.extras:
            continue
        marked = parse_mark(row.label)
        if marked is None or marked[0] != fleet.fleet_id or marked[1] in fleet.rentals:
            continue
        known = fleet.orphans.get(contract)
        since_ns = fleet.listed_ns if known is None else known.since_listed_ns
        found[contract] = Orphan(contract, marked[1], since_ns, row)
    fleet.orphans = found


# ---------------------------------------------------------------- reads by id, logs, probes


def rental_of(fleet: Fleet, contract: ContractId) -> Rental | None:
    """The rental whose contract this is, unless it is gone."""
    intent: IntentId | None = fleet.by_contract.get(contract)
    rental = fleet.rentals.get(intent) if intent is not None else None
    return rental if rental is not None and rental.stage != "gone" else None


def _contract_read(fleet: Fleet, body: ContractRead) -> None:
    if body.outcome == "failed":
        return
    absent = body.outcome == "absent"
    extra, rental = fleet.extras.get(body.contract_id), rental_of(fleet, body.contract_id)
    for destroy in (extra.destroy if extra else None, rental.destroy if rental else None):
        if destroy is not None and not absent:
            destroy.absent_reads = 0
        elif destroy is not None and destroy.acknowledged:
            destroy.absent_reads += 1
    if rental is None:
        return
    rental.absent_by_id = absent
    if not absent:
        rental.by_id_ok_beat = fleet.beat
        if body.row is not None:
            _moved(rental, body.row)
            rental.row = body.row


def _logs_read(fleet: Fleet, body: LogsRead) -> None:
    """A log that moved is evidence, and movement while the image is pulled."""
    rental = rental_of(fleet, body.contract_id)
    if rental is None or not body.digest or body.digest == rental.logs_digest:
        return
    first = not rental.logs_digest
    rental.logs_digest = body.digest
    if first:
        return
    rental.evidence_new = True
    if rental.stage == "loading":
        rental.status_moved = rental.status_new = rental.progress_new = True


def _probed(fleet: Fleet, body: Probed) -> None:
    """Counters are the daemon's own since its start, so only a rise under the same start is progress, and only since a
    probe of the last beats: what rose since an old one may have been reported long ago."""
    rental = rental_of(fleet, body.contract_id)
    if rental is None:
        return
    recent = rental.probe_beat >= 0 and fleet.beat - rental.probe_beat <= _PROBES_APART
    rental.probe_outcome, rental.probe_beat, rental.probe_heard_ns = body.outcome, fleet.beat, fleet.heard_ns
    if body.outcome not in ("answers", "no_agent"):
        return
    if body.outcome == "answers":
        rental.evidence_new = True
    if body.daemon_start_s is not None:
        units = (body.partitions or 0) + _PROOF_UNITS * (body.proofs or 0)
        if recent and body.daemon_start_s == rental.probe_key and units > rental.probe_units:
            rental.evidence_new = rental.progress_new = True
        rental.probe_key, rental.probe_units = body.daemon_start_s, units
    if body.bytes_on_disk is not None:
        if recent and rental.stage == "setup" and 0 < rental.probe_bytes < body.bytes_on_disk:
            rental.evidence_new = rental.progress_new = True
        rental.probe_bytes = body.bytes_on_disk


STEPS: dict[type[Any], Callable[[Fleet, Any], None]] = {
    Listed: _listed, ContractRead: _contract_read, LogsRead: _logs_read, Probed: _probed,
}
