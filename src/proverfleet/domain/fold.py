"""The fold: one event after another makes the fleet. It applies facts and recorded decisions, and never makes any.

A table from kind to one small function. What an agent reports stands in ``fold_reports.py``, what the market says in
``fold_market.py``, decisions and outcomes in ``fold_decisions.py``; here are the clock, the operators and the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from proverfleet.domain import evidence, fold_decisions, fold_market, fold_reports, reputation
from proverfleet.domain.events import (
    AccountRead,
    Beat,
    Booted,
    Event,
    Offered,
    Ordered,
    SourceProbed,
    Worked,
)
from proverfleet.domain.fleet import NS, Fleet, ListEntry, Measured, Order, Rental
from proverfleet.domain.ids import IntentId, MachineId
from proverfleet.domain.policy import Policy

DAY_NS = 86_400 * NS
DEAF_BEATS = 3  # as many beats without a sign from outside are a gap
FORGET_DAYS = 30
RESULTS_KEPT = 100
SAMPLES_S = 660.0
STORAGE_USD_PER_GB_HOUR = 0.15 / 720  # vast-api.md section 3.4: storage is billed on its own while nothing runs
_EMPTY_USD = 0.01

_OFFLINE = ("offline",)
_PAUSED = ("exited", "stopped", "frozen")


class FoldError(ValueError):
    """An event that this fold does not know, or that cannot be: names its number and what was expected."""


def new_fleet() -> Fleet:
    """The fleet before its first event."""
    return Fleet()


def apply(fleet: Fleet, event: Event) -> None:
    """Folds one event in. FoldError on a kind that is not known: nothing is skipped silently."""
    step = _STEPS.get(type(event.body))
    if step is None:
        raise FoldError(f"event {event.seq}: the fold knows no {type(event.body).__name__}")
    fleet.seq = event.seq
    fleet.wall_ns = event.wall_ns
    step(fleet, event.body)


# ---------------------------------------------------------------- the clock


def _booted(fleet: Fleet, body: Booted) -> None:
    """Settings of a start count when they differ from the last start's; what operators ordered since stays else."""
    fleet.boot = body.boot
    fleet.fleet_id = body.fleet
    if body.policy != fleet.booted_policy or fleet.booted_target < 0:
        fleet.policy = Policy.of(body.policy)
        fleet.booted_policy = dict(body.policy)
    if body.target != fleet.booted_target:
        fleet.target = fleet.booted_target = body.target
    for rental in fleet.rentals.values():
        rental.destroy.in_flight = False  # its answer died with the process
    for extra in fleet.extras.values():
        extra.destroy.in_flight = False


def _beat(fleet: Fleet, body: Beat) -> None:
    step_ns = 0 if body.gap else body.step_ns
    fleet.beat, fleet.step_ns = body.n, step_ns
    fleet.inbox_ok, fleet.list_ok = body.inbox_ok, body.list_ok
    fleet.draw, fleet.ids = body.draw, body.ids
    fleet.deaf_beats = 0 if body.inbox_ok else fleet.deaf_beats + 1
    heard_ns = step_ns if body.inbox_ok else 0
    listed_ns = heard_ns if body.list_ok else 0
    fleet.heard_ns += heard_ns
    fleet.listed_ns += listed_ns
    gap = body.gap or fleet.deaf_beats >= DEAF_BEATS
    if gap:
        fleet.gap_heard_ns = fleet.heard_ns
    if fleet.credit_usd is not None and fleet.credit_usd <= _EMPTY_USD:
        fleet.credit_low_heard_ns = fleet.heard_ns
    day = fleet.wall_ns // DAY_NS
    if day != fleet.day:
        fleet.day, fleet.spent_today_usd = day, 0.0
        _forget(fleet)
    hours = body.step_ns / (3600 * NS)
    for rental in fleet.rentals.values():
        if rental.stage != "gone":
            _beat_of(fleet, rental, heard_ns, listed_ns, gap, hours)


def _beat_of(fleet: Fleet, rental: Rental, heard_ns: int, listed_ns: int, gap: bool, hours: float) -> None:
    """The beat for one rental: stamps what came since the last one, counts its time, and what it cost."""
    stage = rental.stage
    if rental.stage_at_beat == stage:
        step_ns = listed_ns if stage == "loading" else heard_ns
        if step_ns:
            rental.observed_ns[stage] = rental.observed_ns.get(stage, 0) + step_ns
    rental.stage_at_beat = stage
    if rental.progress_new:
        rental.progress_new = False
        rental.progress_heard_ns = fleet.heard_ns
        rental.unfed_ns = 0
    elif not fleet.work_waiting and stage in ("active", "draining"):
        rental.unfed_ns += heard_ns
    if rental.evidence_new:
        rental.evidence_new = False
        rental.evidence_heard_ns = fleet.heard_ns
    if rental.report_new:
        rental.report_new = False
        rental.report_heard_ns = fleet.heard_ns
    if rental.status_new:
        rental.status_new = False
        rental.status_moved_listed_ns = fleet.listed_ns
    if gap and rental.last is not None:
        rental.caught_up = False
    if stage != "requested" or rental.contract_id is not None:
        usd = _usd_per_hour(rental) * hours
        rental.cost_usd += usd
        fleet.spent_today_usd += usd
    if stage == "setup":
        _forecast(fleet, rental)


def _usd_per_hour(rental: Rental) -> float:
    """What it is billed now, as far as can be known: all while it runs, storage before and after, nothing offline."""
    row = rental.row
    status = row.actual_status if row is not None else None
    if status in _OFFLINE or rental.destroy.acknowledged:
        return 0.0
    if status == "running" or (rental.last is not None and status not in _PAUSED):
        price = row.price_usd_per_hour if row is not None else None
        return price if price is not None and price > 0 else rental.price_usd_per_hour
    return min(rental.price_usd_per_hour, rental.disk_gb * STORAGE_USD_PER_GB_HOUR)


def _forecast(fleet: Fleet, rental: Rental) -> None:
    """One sample of the bytes received, and since when the forecast has been above the cap."""
    last, samples = rental.last, rental.setup_samples
    if last is None or (samples and samples[-1][0] == fleet.heard_ns):
        return
    samples.append((fleet.heard_ns, max(last.bytes_received, samples[-1][1] if samples else 0)))
    oldest_ns = fleet.heard_ns - int(SAMPLES_S * NS)
    while len(samples) > 2 and samples[1][0] <= oldest_ns:
        del samples[0]
    usd = evidence.setup_forecast_usd(fleet, rental)
    if usd is None or usd <= fleet.policy.setup_cap_usd:
        rental.setup_over_cap_heard_ns = None
    elif rental.setup_over_cap_heard_ns is None:
        rental.setup_over_cap_heard_ns = fleet.heard_ns


def _forget(fleet: Fleet) -> None:
    """Once a day: rentals that ended 30 days ago, and strikes that weigh nothing any more."""
    old_ns = fleet.wall_ns - FORGET_DAYS * DAY_NS
    for intent in [i for i, r in fleet.rentals.items() if r.stage == "gone" and (r.ended_wall_ns or 0) < old_ns]:
        del fleet.rentals[intent]
    fleet.strikes = [s for s in fleet.strikes if s.wall_ns >= old_ns]
    fleet.orders = {k: o for k, o in fleet.orders.items() if o.intent is None or o.intent in fleet.rentals}


# ---------------------------------------------------------------- the account, the source, the consumer, a search


def _account(fleet: Fleet, body: AccountRead) -> None:
    fleet.credit_usd = body.credit_usd
    if body.credit_usd <= _EMPTY_USD:
        fleet.credit_low_heard_ns = fleet.heard_ns


def _source(fleet: Fleet, body: SourceProbed) -> None:
    fleet.source_ok, fleet.source_beat = body.ok, fleet.beat
    if not body.ok:
        fleet.source_bad_heard_ns = fleet.heard_ns


def _offered(fleet: Fleet, body: Offered) -> None:
    if body.failed:
        return  # what was offered before stays as old as it is
    fleet.offers, fleet.ordered_offers = body.best, body.ordered
    fleet.offers_beat = fleet.beat
    fleet.offers_tried.clear()


def _worked(fleet: Fleet, body: Worked) -> None:
    fleet.work_waiting = body.waiting
    for intent, accepted, rejected in body.changed:
        rental = fleet.rentals.get(intent)
        if rental is not None:
            _worked_of(rental, accepted, rejected)


def _worked_of(rental: Rental, accepted: int, rejected: int) -> None:
    """Counts are cumulative, so an older word changes nothing. The order within one word is not known: refused ones
    are taken to have come first, which condemns least."""
    good, bad = max(0, accepted - rental.work_accepted), max(0, rejected - rental.work_rejected)
    rental.work_accepted += good
    rental.work_rejected += bad
    if good:
        rental.progress_new = rental.evidence_new = True
        rental.progress_starved_s = rental.last.starved_s if rental.last is not None else 0.0
    if good or bad:
        rental.rejected_in_a_row = rental.rejected_in_a_row + bad if not good else 0
        rental.work_results += [False] * min(bad, RESULTS_KEPT) + [True] * min(good, RESULTS_KEPT)
        del rental.work_results[:-RESULTS_KEPT]
    last = rental.last
    if last is None or last.stage != "active" or not rental.report_new or rental.backlog:
        return  # only what is up to date can be compared with the consumer's count of now
    if rental.claimed_base < 0:
        rental.claimed_base = last.proofs_accepted
        rental.consumed_base = rental.work_accepted + rental.work_rejected
    rental.consumer_claimed = max(0, last.proofs_accepted - rental.claimed_base)
    rental.consumer_seen = rental.work_accepted + rental.work_rejected - rental.consumed_base


# ---------------------------------------------------------------- operators


def _ordered(fleet: Fleet, body: Ordered) -> None:
    order = _ORDERS.get(body.what)
    if order is None:
        raise FoldError(f"order {body.what!r} is not known; known are {', '.join(_ORDERS)}")
    order(fleet, body.args)


def _deploy(fleet: Fleet, args: dict[str, Any]) -> None:
    name = str(args["order"])
    fleet.orders[name] = Order(name, MachineId(int(args["machine_id"])), args.get("min_rate"), args.get("disk_gb"),
                               args.get("bid_usd_per_hour"))


def _kill(fleet: Fleet, args: dict[str, Any]) -> None:
    intent = IntentId(str(args["intent"]))
    rental = fleet.rentals.get(intent)
    if rental is not None and rental.live:
        fleet.kills_ordered.setdefault(intent, str(args.get("reason", "")))


def _list_machine(fleet: Fleet, args: dict[str, Any]) -> None:
    machine = MachineId(int(args["machine_id"]))
    until_s = args.get("until_s")
    until_ns = None if until_s is None else fleet.wall_ns + int(float(until_s) * NS)
    fleet.blacklist[machine] = ListEntry(machine, str(args.get("reason", "")), fleet.wall_ns, until_ns,
                                         bool(args.get("evict", False)), True)


def _unlist_machine(fleet: Fleet, args: dict[str, Any]) -> None:
    machine = MachineId(int(args["machine_id"]))
    fleet.blacklist.pop(machine, None)
    fleet.strikes = [s for s in fleet.strikes if s.machine_id != machine]


def _target(fleet: Fleet, args: dict[str, Any]) -> None:
    fleet.target = int(args["value"])


def _policy(fleet: Fleet, args: dict[str, Any]) -> None:
    changed = Policy.of(args["set"])
    fleet.policy = dataclasses.replace(fleet.policy, **{name: getattr(changed, name) for name in args["set"]})


def _freeze(fleet: Fleet, args: dict[str, Any]) -> None:
    on = bool(args["on"])
    if on and not fleet.frozen:
        fleet.frozen_heard_ns = fleet.heard_ns
    fleet.frozen = on


def _clear_systemic(fleet: Fleet, args: dict[str, Any]) -> None:
    fleet.brakes = {k: b for k, b in fleet.brakes.items() if b.name != "systemic"}
    fleet.failures.clear()  # else the same failures would put it on again at once


def _history(fleet: Fleet, args: dict[str, Any]) -> None:
    reputation.add_measure(fleet, Measured(
        MachineId(int(args["machine_id"])), str(args["gpu_name"]), int(args["num_gpus"]), str(args["image"]),
        float(args["rate_proofs_per_hour"]), 0.0, int(args["proofs"]), float(args["gpu_frac"]), fleet.wall_ns,
    ))


_ORDERS: dict[str, Callable[[Fleet, dict[str, Any]], None]] = {
    "deploy": _deploy, "kill": _kill, "blacklist": _list_machine, "unblacklist": _unlist_machine, "target": _target,
    "policy": _policy, "freeze": _freeze, "clear_systemic": _clear_systemic, "history": _history,
}

_STEPS: dict[type[Any], Callable[[Fleet, Any], None]] = {
    Booted: _booted, Beat: _beat, AccountRead: _account, SourceProbed: _source, Offered: _offered, Worked: _worked,
    Ordered: _ordered, **fold_market.STEPS, **fold_reports.STEPS, **fold_decisions.STEPS,
}
