"""What one beat has decided and asked so far. Later rules see it; the fleet itself stays as the fold left it.

Also the words in which all rules speak: how an :class:`End` is written, what a failure's fingerprint is, and how a
directive's id says what it was for (``retry.<attempt>.<salt>``), so that no rule has to remember what it ordered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from proverfleet.domain import evidence
from proverfleet.domain.events import Asks, Decision, Directed, End, Extra, Rent
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.ids import ContractId, IntentId, MachineId
from proverfleet.domain.sizing import concurrency_for

FRESH_BEATS = 3
"""A probe, a by-id read or a report of the last three beats is fresh."""


@dataclass(slots=True)
class Pending:
    """``ended`` and ``extra`` name what this beat ends; ``rented`` what it rents; ``candidates`` the ends that rules
    ask for, before the brakes have looked at them. The rest are questions for the shell."""

    fleet: Fleet
    open: list[Rental]
    live: list[Rental]
    settled: bool
    decisions: list[Decision] = field(default_factory=list)
    candidates: list[tuple[Rental, End]] = field(default_factory=list)
    ended: dict[IntentId, End] = field(default_factory=dict)
    extra: dict[ContractId, Extra] = field(default_factory=dict)
    rented: list[Rent] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    ids_used: int = 0
    probes: dict[ContractId, None] = field(default_factory=dict)
    logs: dict[ContractId, None] = field(default_factory=dict)
    contracts: dict[ContractId, None] = field(default_factory=dict)
    machines: dict[MachineId, None] = field(default_factory=dict)
    source: bool = False
    search: bool = False

    def take(self, *decisions: Decision) -> None:
        """Decided: goes into the plan, and later rules of this beat see it."""
        for decision in decisions:
            self.decisions.append(decision)
            if isinstance(decision, End):
                self.ended.setdefault(decision.intent, decision)
            elif isinstance(decision, Extra):
                self.extra.setdefault(decision.contract_id, decision)
            elif isinstance(decision, Rent):
                self.rented.append(decision)

    def fresh_id(self) -> str | None:
        """The next of the beat's random ids, for an intent; None when they are used up (the next beat brings more)."""
        if self.ids_used >= len(self.fleet.ids):
            return None
        self.ids_used += 1
        return self.fleet.ids[self.ids_used - 1]

    def ask(self, rental: Rental, *, probe: bool = False, logs: bool = False, read: bool = False) -> None:
        """Wants to know more about the rental's contract before the next beat."""
        if rental.contract_id is None:
            return
        if probe:
            self.probes[rental.contract_id] = None
        if logs:
            self.logs[rental.contract_id] = None
        if read:
            self.contracts[rental.contract_id] = None

    def asks(self) -> Asks:
        return Asks(tuple(self.contracts), tuple(self.probes), tuple(self.logs), self.source, self.search,
                    tuple(self.machines))


def pending_for(fleet: Fleet) -> Pending:
    """An empty one for this beat: one pass over the rentals, whatever the number of rules."""
    open_ = [r for r in fleet.rentals.values() if r.stage != "gone"]
    return Pending(fleet, open_, [r for r in open_ if r.stage != "destroying"], evidence.settled(fleet))


# ---------------------------------------------------------------- the words of a decision


def end(rental: Rental, rule: str, verdict: str, cause: str, reason: str, blame: str, **numbers: Any) -> End:
    """An end with its evidence: the rule's own numbers, and where the rental stood (stage, attempt, size, rate)."""
    last = rental.last
    facts: dict[str, Any] = {"stage": rental.stage, **numbers}
    if last is not None:
        facts.update(attempt=last.attempt, p=last.p, proofs_accepted=last.proofs_accepted)
    facts["min_rate"] = rental.min_rate
    facts["fingerprint"] = fingerprint(rental, cause)
    return End(rule, rental.intent, verdict, cause, reason, blame, facts)


def fingerprint(rental: Rental, cause: str) -> str:
    """(stage, exit code or signal, cause word, failing file or source, image, sizing class) in one line.

    Never ids, times, addresses or free text: two machines that fail alike must give the same line.
    """
    last = rental.last
    exit_ = last.exit if last is not None and last.waiting == "retry" else None
    how = "-"
    if exit_ is not None:
        how = f"signal {exit_.signal}" if exit_.signal else f"exit {exit_.code}"
    what = exit_.what if exit_ is not None else ("params" if rental.stage == "setup" else "-")
    p = last.p if last is not None else None
    size = "-" if p is None else "small" if p <= 2 else "medium" if p <= 7 else "large"
    return f"{rental.stage}|{how}|{cause}|{what}|{rental.image}|{size}"


def directed(pending: Pending, rental: Rental, rule: str, what: str, args: dict[str, Any],
             reason: str) -> Directed | None:
    """A directive whose id says what it is for. None while one of the same kind waits or was done in this attempt."""
    attempt = rental.last.attempt if rental.last is not None else 0
    if was_directed(rental, what, attempt) or not pending.fleet.ids:
        return None
    id_ = f"{what}.{attempt}.{pending.fleet.ids[0]}{len(pending.decisions)}"
    return Directed(rule, rental.intent, id_, what, args, reason)


def was_directed(rental: Rental, what: str, attempt: int | str) -> bool:
    """Was this ordered in this attempt (or under this key), waiting or done?"""
    prefix = f"{what}.{attempt}."
    return any(d[0].startswith(prefix) for d in rental.directives) or any(a.startswith(prefix) for a in rental.acked)


def sized(p: int) -> dict[str, Any]:
    """Arguments of a retry or resize: the size, and the proofs in flight that keep it busy."""
    return {"p": p, "concurrency": concurrency_for(p)}


def memory_gib(rental: Rental) -> float | None:
    """The memory that its prover may use, GiB: the agent's reading; where there is no limit, what was offered."""
    last = rental.last
    if last is not None and last.limit_gib is not None and math.isfinite(last.limit_gib):
        return last.limit_gib if last.limit_gib > 0 else None
    return rental.cpu_ram_mb / 1024 if rental.cpu_ram_mb > 0 else None


# ---------------------------------------------------------------- what counts as fresh


def reports_fresh(fleet: Fleet, rental: Rental) -> bool:
    """Is the agent heard, and has it nothing older left to say?"""
    limit = FRESH_BEATS * fleet.policy.beat_s
    return rental.last is not None and rental.last.backlog == 0 and evidence.report_age_s(fleet, rental) <= limit


def probe_fresh(fleet: Fleet, rental: Rental) -> bool:
    """Was a probe answered (or did it fail) within the last three beats?"""
    return rental.probe_beat >= 0 and fleet.beat - rental.probe_beat <= FRESH_BEATS


def channel_silent(fleet: Fleet, rental: Rental) -> bool:
    """No channel at all has moved for three beats: nobody speaks up against what the market says."""
    return evidence.silence_age_s(fleet, rental) > FRESH_BEATS * fleet.policy.beat_s


def minutes(seconds: float) -> str:
    """A duration as an operator reads it."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
