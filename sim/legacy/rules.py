"""The old manager's monitor, row by row (its section 4 in the inventory): each row with its threshold and its reason.

What is kept on purpose: ages on the wall clock that know nothing of progress; an error that is a rate of 0; a listing
that is believed whatever it lacks; one kill that is written down before anything was destroyed.
Out of scope: contracts of others (a fleet holds only what carries its own mark, so rows 0 and 1 reach no further).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proverfleet.domain.events import End, Extra, Gone, RowFact
from proverfleet.domain.fleet import NS, Fleet, Orphan, Rental
from proverfleet.domain.ids import ContractId

RULE = "legacy"
MIN_RATE_PROOFS_PER_HOUR = 50.0
READABLE = ("trusted", "empty", "shrunken", "stale")
"""What the old client could read it believed; only a failed call, or bytes that it could not read, ended the pass."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Ages in s. The benchmark's was 1200 when the field case M1121 happened, and 2700 afterwards."""

    unregistered_s: float = 900.0
    setup_s: float = 5400.0
    benchmark_s: float = 2700.0


def min_rate(explicit: float | None) -> tuple[float, str]:
    """The number that came with the deploy, else 50 whatever the hardware and the price are."""
    if explicit is not None and explicit > 0:
        return explicit, f"explicit in the deploy order: {explicit:g} proofs/h"
    return MIN_RATE_PROOFS_PER_HOUR, f"{MIN_RATE_PROOFS_PER_HOUR:g} proofs/h, hard-coded in the old manager"


# ---------------------------------------------------------------- what it sees


def visible(fleet: Fleet) -> Mapping[ContractId, RowFact] | None:
    """The listing as it believed it. None: the call failed, and the whole pass with it."""
    if fleet.list_trust not in READABLE:
        return None
    return {} if fleet.list_trust == "empty" else fleet.rows


def registered(rental: Rental) -> bool:
    """Only an agent's registration makes a row in its table; before it a contract is merely "loading"."""
    return rental.live and rental.last is not None


def age_s(fleet: Fleet, rental: Rental, stage: str) -> float | None:
    """Wall-clock s since the rental entered ``stage``; None: it never did (an unreadable date: the row is skipped)."""
    since = rental.stage_wall_ns.get(stage)
    return None if since is None else (fleet.wall_ns - since) / NS


def benched(rental: Rental) -> bool:
    """Has it reported a benchmark's end, with whatever rate?"""
    return rental.judged != "" or (rental.last is not None and rental.last.bench_rate_proofs_per_hour is not None)


# ---------------------------------------------------------------- the rows


def bad_machine(fleet: Fleet, rental: Rental) -> End | None:
    """Row 0: everything on a listed machine, at once, whatever it does. Entries never expire."""
    entry = fleet.blacklist.get(rental.machine_id) if rental.machine_id is not None else None
    if entry is None or not rental.live:
        return None
    return _end(rental, "operator", "evicted", f"machine {rental.machine_id} is on the bad list: {entry.reason}")


def unregistered(fleet: Fleet, orphan: Orphan, limits: Limits) -> Extra | None:
    """Row 1: a labelled contract without a live row, older than 15 min. What the manager itself created had no label,
    so a rental that never registers is never ended for it. Row 0 reaches such a contract too."""
    machine = orphan.row.machine_id
    if machine is not None and machine in fleet.blacklist:
        reason = f"machine {machine} is on the bad list: {fleet.blacklist[machine].reason}"
        return Extra(RULE, orphan.contract_id, "operator", reason)
    if (fleet.listed_ns - orphan.since_listed_ns) / NS <= limits.unregistered_s:
        return None
    reason = f"labelled, and not registered after {limits.unregistered_s / 60:.0f} min"
    return Extra(RULE, orphan.contract_id, "never_started", reason)


def setup_age(fleet: Fleet, rental: Rental, limits: Limits) -> End | None:
    """Row 2: 90 min from registration to the end of the fetch, whatever came in meanwhile."""
    age = age_s(fleet, rental, "setup")
    if not registered(rental) or rental.stage != "setup" or age is None or age <= limits.setup_s:
        return None
    reason = f"parameters not there {limits.setup_s / 60:.0f} min after registration"
    return _end(rental, "stalled", "no_progress", reason)


def benchmark_age(fleet: Fleet, rental: Rental, limits: Limits) -> End | None:
    """Row 3: 45 min (20 in the field case) from the end of the fetch to a rate, whatever was proved meanwhile."""
    age = age_s(fleet, rental, "benchmark")
    if not registered(rental) or rental.stage != "benchmark" or benched(rental):
        return None
    if age is None or age <= limits.benchmark_s:
        return None
    return _end(rental, "slow", "rate", f"no rate {limits.benchmark_s / 60:.0f} min after the parameters")


def slow_benchmark(rental: Rental) -> End | None:
    """Row 4, and the handler of the benchmark's message: below ``min_rate``, in whatever state the row is."""
    rate = rental.last.bench_rate_proofs_per_hour if rental.last is not None else None
    if not registered(rental) or rate is None or rate >= rental.min_rate:
        return None
    return _end(rental, "slow", "rate", f"bench_rate {rate:.1f} below min_rate {rental.min_rate:.1f}")


def disappeared(rental: Rental, seen: Mapping[ContractId, RowFact]) -> tuple[End, Gone] | None:
    """Row 5: not in this one listing: over, in the table. Nothing is destroyed, nothing is looked up twice."""
    if not registered(rental) or rental.contract_id is None or rental.contract_id in seen:
        return None
    end = _end(rental, "lost", "absent", "disappeared from the listing")
    return end, Gone(RULE, rental.contract_id, rental.intent, end.reason)


def closed(rental: Rental, seen: Mapping[ContractId, RowFact]) -> Gone | None:
    """A killed row is over once its one destroy call was made (or could not be, for want of a listed contract):
    whether it worked is never looked at."""
    if rental.stage != "destroying" or rental.destroy.in_flight:
        return None
    if rental.contract_id is None or (rental.contract_id not in seen and rental.destroy.attempts == 0):
        return Gone(RULE, rental.contract_id, rental.intent, "disappeared")
    if rental.destroy.attempts == 0:
        return None
    return Gone(RULE, rental.contract_id, rental.intent, "killed: destroyed once, not verified")


def _end(rental: Rental, verdict: str, cause: str, reason: str) -> End:
    last = rental.last
    rate = last.bench_rate_proofs_per_hour if last is not None else None
    return End(RULE, rental.intent, verdict, cause, reason, "machine" if verdict == "slow" else "nobody",
               {"stage": rental.stage, "rate": rate, "min_rate": rental.min_rate})
