"""What one beat decides: the ordered list of rules, and the one place that merges what they say.

``decide`` reads the fleet right after the beat was folded and changes nothing: its decisions become events, which the
fold applies. Order matters in three ways only: creates in doubt are settled first (everything else needs to know
which contract is whose); for one rental the first rule that ends it wins; what is rented is decided last, with
everything else known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proverfleet.domain import brakes, systemic
from proverfleet.domain.events import Decision, End, Plan
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.ids import ContractId
from proverfleet.domain.pending import Pending, pending_for
from proverfleet.domain.rules import (
    active,
    arrival,
    benchmark,
    blacklist,
    budget,
    capacity,
    crash,
    drain,
    duplicate,
    gone,
    invalid,
    loading,
    lost,
    market_end,
    never_started,
    operator,
    orphan,
    repair,
    reprice,
    resolve,
    restart,
    setup,
    silent,
    stall,
)

Said = Decision | Sequence[Decision] | None
Rule = Callable[[Fleet, Rental, Pending], Said]

_FIRST: tuple[Rule, ...] = (operator.check, lost.check, market_end.check, blacklist.evict)
_LAST: tuple[Rule, ...] = (silent.check, reprice.check, restart.check)
_AGENT: tuple[Rule, ...] = (arrival.check, invalid.check, crash.check)

RULES: dict[str, tuple[Rule, ...]] = {
    "requested": (operator.check,),
    "loading": (*_FIRST, orphan.check, loading.check, never_started.check, stall.check, *_LAST),
    "setup": (*_FIRST, *_AGENT, setup.check, stall.check, *_LAST),
    "benchmark": (*_FIRST, *_AGENT, benchmark.check, stall.check, *_LAST),
    "active": (*_FIRST, *_AGENT, benchmark.check, active.check, stall.check, repair.check, *_LAST),
    "draining": (*_FIRST, drain.finish, *_LAST),
}


def decide(fleet: Fleet) -> Plan:
    """Everything that this beat decides, in order, and what it wants to know before the next. Pure; does not change
    ``fleet``; linear in the rentals that are not gone."""
    pending = pending_for(fleet)
    _settle(fleet, pending)
    pending.take(*duplicate.check(fleet, pending), *orphan.adopt(fleet, pending))
    for rental in pending.live:
        _judge(fleet, rental, pending)
    pending.take(*systemic.check(fleet, pending))
    for rental, end in pending.candidates:
        _end(fleet, rental, end, pending)
    _leave(fleet, budget.check(fleet, pending), pending)
    _leave(fleet, drain.check(fleet, pending), pending)
    pending.take(*blacklist.strikes(fleet, pending))
    pending.take(*gone.check(fleet, pending))
    pending.take(*capacity.check(fleet, pending))
    pending.take(*brakes.signals(fleet, pending))
    return Plan(tuple(pending.decisions), pending.asks())


def _settle(fleet: Fleet, pending: Pending) -> None:
    """Creates that were refused or are in doubt: by label, before anything else is judged."""
    open_ = [r for r in pending.open if r.contract_id is None and (r.in_doubt or r.refused)]
    by_label: dict[str, list[ContractId]] = resolve.labels(fleet) if open_ else {}
    for rental in open_:
        pending.take(*resolve.check(fleet, rental, pending, by_label))


def _judge(fleet: Fleet, rental: Rental, pending: Pending) -> None:
    """Asks the rules of its stage in order; the first end stops them and waits for the brakes."""
    if rental.intent in pending.ended:
        return
    for rule in RULES[rental.stage]:
        said = rule(fleet, rental, pending)
        if said is None:
            continue
        for decision in said if isinstance(said, Sequence) else (said,):
            if isinstance(decision, End):
                pending.candidates.append((rental, decision))
                return
            pending.take(decision)


def _leave(fleet: Fleet, said: Sequence[Decision], pending: Pending) -> None:
    """What has to go because there are too many: its ends pass the brakes like all others."""
    for decision in said:
        if isinstance(decision, End):
            _end(fleet, fleet.rentals[decision.intent], decision, pending)
        else:
            pending.take(decision)


def _end(fleet: Fleet, rental: Rental, end: End, pending: Pending) -> None:
    """An end goes when no brake holds it; else it is asked for again in the next beat."""
    if rental.intent in pending.ended:
        return
    verdict = brakes.hold(fleet, pending, rental, end)
    if isinstance(verdict, str):
        pending.held[verdict] = pending.held.get(verdict, 0) + 1
    else:
        pending.take(verdict)
