"""What agents report. Reports are lost, repeated, late and out of order: counters are cumulative, so the highest value
counts, nothing late moves a rental backwards, and nothing at all revives one that has ended (rules.md INV-5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proverfleet.domain import completions, rate
from proverfleet.domain.events import HelloRefused, Reported
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.fold_stage import enter
from proverfleet.domain.ids import IntentId
from proverfleet.domain.lifecycle import OF_AGENT_STAGE
from proverfleet.domain.report import Report

_PROOF_UNITS = 10  # partitions a proof (cuzk-model.md section 3)
_SRS_UNIT = 1 << 20
_ACKS_KEPT = 64
_UNHEARD_NS = 200 * 1_000_000_000
_BOOTS_KEPT = 16
_FAILED_KEPT = 3


def _reported(fleet: Fleet, body: Reported) -> None:
    report = body.report
    rental = fleet.rentals.get(report.rental)
    if rental is None or rental.stage == "gone":
        return  # the answer tells the agent that it is over
    rental.evidence_new = True
    if not _newest(rental, report):
        _acknowledge(rental, report)
        _raise_highs(rental, report)
        return
    before = rental.last
    rental.last = report
    rental.report_new = True
    rental.backlog = report.backlog
    if report.backlog == 0:
        rental.caught_up = True
    _acknowledge(rental, report)
    _raise_highs(rental, report)
    if rental.stage == "destroying":
        return
    stage = OF_AGENT_STAGE.get(report.stage)
    if stage is not None and stage != rental.stage:
        enter(fleet, rental, stage)
    _count_failures(rental, before, report)
    _note_exit(rental, report)
    if report.stage == "active" and (before is None or before.stage != "active"):
        fleet.slot_failures.pop(rental.slot, None)
        fleet.slot_wait_until_heard_ns.pop(rental.slot, None)
    if before is not None and report.mono_ns - before.mono_ns > _UNHEARD_NS:
        # Its agent stood still while the prover went on: what it counts now the consumer may have seen long ago.
        rental.claimed_base = -1
        rental.consumer_claimed = rental.consumer_seen = 0
    if completions.record(rental, report, fleet.policy) and report.stage == "active":
        _show_rate(fleet, rental)


def _show_rate(fleet: Fleet, rental: Rental) -> None:
    """The rate that people see, once a few proofs carry it."""
    plain = rate.unsuspected(rental, fleet.policy)
    if plain is None:
        seen = rate.active(rental, fleet.policy)
        if seen.rate is None:
            return
        plain = (seen.rate, seen.proofs)
    if plain[1] >= rate.RATE_SHOWN_FROM:
        rental.rate_proofs_per_hour = plain[0]


def _newest(rental: Rental, report: Report) -> bool:
    """Is this later than all that was seen? ``seq`` rises over all boots of a rental; an agent whose disk was wiped
    starts again at a low one, under a boot id that was never seen."""
    seen = rental.seq_by_boot.get(report.boot)
    if seen is None:
        if rental.last is not None and report.seq <= rental.seq_seen:
            _start_anew(rental, report)
        rental.seq_by_boot[report.boot] = report.seq
        while len(rental.seq_by_boot) > _BOOTS_KEPT:
            del rental.seq_by_boot[next(iter(rental.seq_by_boot))]
        rental.seq_seen = max(rental.seq_seen, report.seq)
        return True
    if report.seq <= seen:
        return False
    rental.seq_by_boot[report.boot] = report.seq
    current = rental.last is not None and rental.last.boot == report.boot
    if not current and report.seq <= rental.seq_seen:
        return False
    rental.seq_seen = max(rental.seq_seen, report.seq)
    return True


def _start_anew(rental: Rental, report: Report) -> None:
    """The agent lost its own counts: its new ones are the base, and are no progress by themselves."""
    last = rental.last
    assert last is not None
    if report.proofs_accepted < last.proofs_accepted or _setup(report) < rental.setup_high:
        rental.setup_high, rental.work_high = _setup(report), _work(report)
        rental.setup_samples.clear()
        rental.progress_starved_s = report.starved_s
        rental.claimed_base = -1
        rental.consumer_claimed = rental.consumer_seen = 0
        completions.forget(rental)


def _setup(report: Report) -> int:
    return report.bytes_received + report.bytes_hashed


def _work(report: Report) -> int:
    """Units of work since the rental began: MiB of the SRS, partitions, ten for an accepted proof."""
    return report.srs_bytes // _SRS_UNIT + report.partitions + _PROOF_UNITS * report.proofs_accepted


def _raise_highs(rental: Rental, report: Report) -> None:
    """Progress is a counter above all that was seen; a late report may carry one too."""
    setup, work = _setup(report), _work(report)
    if setup <= rental.setup_high and work <= rental.work_high:
        return
    rental.setup_high, rental.work_high = max(setup, rental.setup_high), max(work, rental.work_high)
    rental.progress_new = True
    rental.progress_starved_s = max(rental.progress_starved_s, report.starved_s)
    rental.progress_restarts = report.restarts_agent + report.restarts_prover + report.restarts_container


def _acknowledge(rental: Rental, report: Report) -> None:
    if not report.acks or not rental.directives:
        return
    done = [d[0] for d in rental.directives if d[0] in report.acks]
    if done:
        rental.directives = [d for d in rental.directives if d[0] not in done]
        rental.acked += done
        del rental.acked[:-_ACKS_KEPT]


def _count_failures(rental: Rental, before: Report | None, report: Report) -> None:
    """Running numbers of the newest proofs that the self-check refused."""
    old = before.proofs_failed if before is not None else 0
    new = report.proofs_failed - old
    if new > 0:
        total = report.proofs_accepted + report.proofs_failed
        rental.failed_at += [total - i for i in range(min(new, _FAILED_KEPT) - 1, -1, -1)]
        del rental.failed_at[:-_FAILED_KEPT]


def _note_exit(rental: Rental, report: Report) -> None:
    """An end of prover, bench or fetch that was not reported before; it is repeated until the attempt changes."""
    exit_ = report.exit
    if exit_ is None:
        return
    key = f"{report.attempt}/{report.restarts_prover}/{exit_.what}/{exit_.code}/{exit_.signal}"
    if key == rental.exit_key:
        return
    rental.exit_key = key
    rental.exits_seen += 1
    if exit_.oom_kill and report.p is not None:
        rental.oom_at_p = report.p if rental.oom_at_p == 0 else min(rental.oom_at_p, report.p)


def _hello_refused(fleet: Fleet, body: HelloRefused) -> None:
    """Somebody reported under this rental's name and was refused: an agent lives there, whatever it is worth."""
    rental = fleet.rentals.get(IntentId(body.claimed))
    if rental is not None and rental.live:
        rental.hello_refused = rental.evidence_new = True


STEPS: dict[type[Any], Callable[[Fleet, Any], None]] = {Reported: _reported, HelloRefused: _hello_refused}
