"""Recorded decisions, calls and their outcomes, applied. Nothing here asks whether a decision was right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proverfleet.domain.events import (
    Adopted,
    Alerted,
    Blacklisted,
    Braked,
    CreateAnswered,
    CreateSent,
    DestroyAnswered,
    DestroySent,
    Directed,
    End,
    Extra,
    Gone,
    Judged,
    Marked,
    PostMortemSaved,
    Rent,
    Repriced,
    Resolved,
    Restart,
    StartAnswered,
    Struck,
)
from proverfleet.domain.fleet import (
    NS,
    BrakeState,
    DestroyState,
    ExtraContract,
    Failure,
    Fleet,
    ListEntry,
    Measured,
    Rental,
    Strike,
)
from proverfleet.domain.fold_stage import enter
from proverfleet.domain.ids import ContractId, IntentId
from proverfleet.domain.reputation import add_measure

FAILURES_KEPT_NS = 86_400 * NS
_TRIED_KEPT = 200
_STRIKES_KEPT = 1000

# Ends that say something of the machine or of us; the others (orders, money, market, lease) say nothing.
FAILED = ("slow", "crashed", "out_of_memory", "stalled", "never_started", "silent", "unfit", "invalid", "lost")
# … and the ends after which a slot need not wait: nothing was wrong with what was rented.
_NO_BACKOFF = ("not_needed", "operator", "budget", "duplicate")


def doubt(fleet: Fleet, rental: Rental) -> None:
    """From now on the intent may have a contract that nobody has told us of."""
    rental.in_doubt = True
    rental.doubt_heard_ns, rental.doubt_listings = fleet.heard_ns, 0


# ---------------------------------------------------------------- renting


def _rent(fleet: Fleet, body: Rent) -> None:
    offer = body.offer
    rental = Rental(
        body.intent, body.slot, body.order, offer.machine_id, offer.host_id, offer.gpu_name, offer.num_gpus,
        offer.gpu_ram_mb, offer.gpu_frac, offer.cpu_ram_mb, offer.price_usd_per_hour, body.bid_usd_per_hour,
        body.min_rate, body.min_rate_from, body.min_rate_from.startswith(("explicit", "policy")), fleet.image,
        disk_gb=body.disk_gb, priced_usd_per_hour=offer.price_usd_per_hour, cpu_cores=offer.cpu_cores,
    )
    _add(fleet, rental)
    fleet.offers_tried.append(offer.offer_id)
    del fleet.offers_tried[:-_TRIED_KEPT]
    order = fleet.orders.get(body.order)
    if order is not None:
        order.intent = body.intent
    if "canary" in body.rule:
        for brake in fleet.brakes.values():
            if brake.name == "systemic":
                brake.canary_heard_ns = fleet.heard_ns


def _add(fleet: Fleet, rental: Rental) -> None:
    stage = rental.stage
    rental.stage_wall_ns[stage] = fleet.wall_ns
    rental.stage_heard_ns[stage] = fleet.heard_ns
    rental.stage_listed_ns[stage] = fleet.listed_ns
    rental.progress_new = rental.evidence_new = True
    rental.progress_heard_ns = rental.evidence_heard_ns = fleet.heard_ns
    fleet.rentals[rental.intent] = rental


def _adopted(fleet: Fleet, body: Adopted) -> None:
    """Becomes a rental in `loading`; its agent's first report moves it to where it really is."""
    orphan = fleet.orphans.pop(body.contract_id, None)
    if body.intent in fleet.rentals:
        return  # decided ends are never revived
    price = body.price_usd_per_hour or 0.0
    rental = Rental(
        body.intent, -1, "", body.machine_id, body.host_id, "", 1, 0, 1.0, 0, price, None, body.min_rate,
        body.min_rate_from, body.min_rate_from.startswith(("explicit", "policy")), fleet.image,
        contract_id=body.contract_id, stage="loading", adopted=True, create_sent=True, priced_usd_per_hour=price,
        row=orphan.row if orphan is not None else None,
    )
    _add(fleet, rental)
    fleet.by_contract[body.contract_id] = body.intent


def _create_sent(fleet: Fleet, body: CreateSent) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is not None:
        rental.create_sent = True


def _create_answered(fleet: Fleet, body: CreateAnswered) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is None or rental.stage == "gone":
        return
    if body.contract_id is not None:
        _bind(fleet, rental, body.contract_id)
    elif body.outcome == "refused":
        rental.refused, rental.create_sent = body.code or "refused", False
    else:
        doubt(fleet, rental)


def _bind(fleet: Fleet, rental: Rental, contract: ContractId) -> None:
    """The intent's contract is known: it is on the books from here on, also where its rental is to end."""
    if rental.contract_id is not None and rental.contract_id != contract:
        return  # the second of one intent: the duplicate rule sees it in the listing
    rental.contract_id, rental.in_doubt = contract, False
    fleet.by_contract[contract] = rental.intent
    fleet.orphans.pop(contract, None)
    if rental.stage == "requested":
        enter(fleet, rental, "loading")
    rental.evidence_new = True


def _resolved(fleet: Fleet, body: Resolved) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is None or rental.stage == "gone":
        return
    if body.contract_id is not None:
        _bind(fleet, rental, body.contract_id)
    else:
        rental.in_doubt = rental.create_sent = False
        rental.refused = rental.refused or "lost"


# ---------------------------------------------------------------- ending


def _end(fleet: Fleet, body: End) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is None or not rental.live:
        return  # the first reason stays
    stage = rental.stage
    rental.verdict, rental.cause, rental.reason = body.verdict, body.cause, body.reason
    rental.blame, rental.evidence = body.blame, dict(body.evidence)
    rental.decided_wall_ns = fleet.wall_ns
    fleet.kills_ordered.pop(body.intent, None)
    never_earned = "active" not in rental.stage_wall_ns
    if body.verdict in FAILED and body.cause not in ("create_refused", "create_lost"):
        fleet.failures = [f for f in fleet.failures if fleet.heard_ns - f.heard_ns < FAILURES_KEPT_NS]
        fleet.failures.append(Failure(
            str(body.evidence.get("fingerprint", f"{stage}|{body.cause}")), rental.machine_id, rental.host_id,
            rental.intent, rental.gpu_name, rental.image, fleet.heard_ns, rental.slot, never_earned))
    if never_earned and body.verdict not in _NO_BACKOFF:
        _back_off(fleet, rental.slot)
    if not never_earned and rental.rate_proofs_per_hour is not None:
        _measure(fleet, rental, rental.rate_proofs_per_hour, max(1, len(rental.completed)), _spread(rental))
    enter(fleet, rental, "destroying")


def _back_off(fleet: Fleet, slot: int) -> None:
    """After ``failed_starts_per_slot`` failed starts each further one makes the slot wait longer."""
    if slot < 0:
        return
    failed = fleet.slot_failures.get(slot, 0) + 1
    fleet.slot_failures[slot] = failed
    waits = fleet.policy.start_backoff_s
    over = failed - fleet.policy.failed_starts_per_slot
    if over >= 0 and waits:
        wait_s = waits[min(over, len(waits) - 1)]
        fleet.slot_wait_until_heard_ns[slot] = fleet.heard_ns + int(wait_s * NS)


def _extra(fleet: Fleet, body: Extra) -> None:
    row = fleet.rows.get(body.contract_id)
    orphan = fleet.orphans.pop(body.contract_id, None)
    if body.contract_id in fleet.extras:
        return
    intent = orphan.intent if orphan is not None else fleet.by_contract.get(body.contract_id)
    if intent is None and row is not None and row.label is not None:
        intent = IntentId(row.label.rpartition(".")[2])
    fleet.extras[body.contract_id] = ExtraContract(body.contract_id, intent or IntentId(""), body.verdict, body.reason)


def _gone(fleet: Fleet, body: Gone) -> None:
    contract, intent = body.contract_id, body.intent
    if contract is not None:
        fleet.extras.pop(contract, None)
        intent = intent or fleet.by_contract.get(contract)
    rental = fleet.rentals.get(intent) if intent is not None else None
    if rental is None or (contract is not None and rental.contract_id not in (None, contract)):
        return
    if not enter(fleet, rental, "gone"):
        return
    rental.ended_wall_ns = fleet.wall_ns
    rental.in_doubt = rental.stopped = rental.suspect = rental.draining = False
    fleet.kills_ordered.pop(rental.intent, None)
    for record in (rental.completed, rental.setup_samples, rental.work_results, rental.directives, rental.rate_freezes):
        record.clear()
    rental.seq_by_boot.clear()
    if rental.contract_id is not None:
        fleet.by_contract.pop(rental.contract_id, None)


def _destroy_of(fleet: Fleet, contract: ContractId) -> DestroyState | None:
    extra = fleet.extras.get(contract)
    if extra is not None:
        return extra.destroy
    intent = fleet.by_contract.get(contract)
    return fleet.rentals[intent].destroy if intent is not None and intent in fleet.rentals else None


def _destroy_sent(fleet: Fleet, body: DestroySent) -> None:
    destroy = _destroy_of(fleet, body.contract_id)
    if destroy is not None:
        destroy.attempts, destroy.sent_heard_ns, destroy.in_flight = body.attempt, fleet.heard_ns, True


def _destroy_answered(fleet: Fleet, body: DestroyAnswered) -> None:
    """Acknowledged is not absent: the reads and listings that prove it count from here."""
    destroy = _destroy_of(fleet, body.contract_id)
    if destroy is None:
        return
    destroy.in_flight = False
    if body.outcome in ("ok", "unknown_contract"):
        if not destroy.acknowledged:
            destroy.acknowledged, destroy.absent_reads, destroy.absent_listings = True, 0, 0
    else:
        destroy.last_error = body.why or body.outcome


def _post_mortem(fleet: Fleet, body: PostMortemSaved) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is not None:
        rental.post_mortem = True


# ---------------------------------------------------------------- judging and ordering


def _judged(fleet: Fleet, body: Judged) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is None:
        return
    rental.judged = body.outcome
    if body.rate_proofs_per_hour is not None:
        rental.rate_proofs_per_hour = body.rate_proofs_per_hour
        _measure(fleet, rental, body.rate_proofs_per_hour, body.proofs, _spread(rental))


def _spread(rental: Rental) -> float:
    """The relative standard error of the rate on record, from the scatter of its intervals; 5 % where there is none."""
    done = rental.completed
    if len(done) < 2:
        return 0.05
    proofs, busy_s = done[-1].proofs_sum - done[0].proofs_sum, done[-1].busy_sum_s - done[0].busy_sum_s
    if proofs < 2 or busy_s <= 0:
        return 0.05
    variance = max(0.0, (done[-1].square_sum - done[0].square_sum) / proofs - (busy_s / proofs) ** 2)
    return float(variance**0.5 * proofs / busy_s / proofs**0.5)


def _measure(fleet: Fleet, rental: Rental, rate: float, proofs: int, spread: float) -> None:
    if rental.machine_id is not None and rental.gpu_name and rate > 0:
        add_measure(fleet, Measured(rental.machine_id, rental.gpu_name, rental.num_gpus, rental.image, rate, spread,
                                    proofs, rental.gpu_frac, fleet.wall_ns))


def _directed(fleet: Fleet, body: Directed) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is None or not rental.live or any(d[0] == body.id for d in rental.directives):
        return
    rental.directives.append((body.id, body.what, dict(body.args)))
    last = rental.last
    if body.what == "retry":
        oom = last is not None and last.exit is not None and (last.exit.oom_kill or last.exit.gpu_oom)
        if body.args.get("after", "oom" if oom else "crash") == "oom":
            rental.oom_retries += 1
        else:
            rental.crash_retries += 1
    elif body.what == "restart_prover":
        rental.restarted_in_place_attempt = last.attempt if last is not None else 0
    elif body.what == "resize" and last is not None and last.p is not None:
        rental.too_slow_at.append(last.p)
    elif body.what == "drain" and rental.drain_heard_ns is None:
        rental.drain_heard_ns = fleet.heard_ns


def _marked(fleet: Fleet, body: Marked) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is None or rental.stage == "gone":
        return
    if body.name == "suspect":
        rental.suspect = body.on
    elif body.name == "stopped":
        rental.stopped = body.on
    elif body.name == "probation":
        rental.probation = body.on
    elif body.name == "in_doubt":
        if body.on:
            doubt(fleet, rental)
        else:
            rental.in_doubt = False
    elif body.name == "draining":
        rental.draining = body.on
        if body.on:
            rental.drain_heard_ns = rental.drain_heard_ns if rental.drain_heard_ns is not None else fleet.heard_ns
            enter(fleet, rental, "draining")
    else:
        raise ValueError(f"mark {body.name!r} is not known")


def _repriced(fleet: Fleet, body: Repriced) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is not None:
        rental.price_usd_per_hour = rental.priced_usd_per_hour = body.price_usd_per_hour
        rental.min_rate, rental.min_rate_from = body.min_rate, body.min_rate_from


def _struck(fleet: Fleet, body: Struck) -> None:
    fleet.strikes.append(Strike(body.machine_id, body.intent, body.hard, body.fingerprint, fleet.wall_ns))
    del fleet.strikes[:-_STRIKES_KEPT]


def _blacklisted(fleet: Fleet, body: Blacklisted) -> None:
    if not body.on:
        fleet.blacklist.pop(body.machine_id, None)
        return
    known = fleet.blacklist.get(body.machine_id)
    if known is not None and known.by_operator and known.until_wall_ns is None:
        return  # an operator's entry without an end is not shortened
    fleet.blacklist[body.machine_id] = ListEntry(
        body.machine_id, body.reason, fleet.wall_ns, body.until_wall_ns, body.evict, False)


def _braked(fleet: Fleet, body: Braked) -> None:
    key = f"{body.name}:{body.key}"
    if not body.on:
        fleet.brakes.pop(key, None)
    elif key in fleet.brakes:
        fleet.brakes[key].reason, fleet.brakes[key].detail = body.reason, dict(body.detail)
    else:
        fleet.brakes[key] = BrakeState(body.name, body.key, body.reason, dict(body.detail), fleet.heard_ns,
                                       fleet.wall_ns, fleet.heard_ns)


def _alerted(fleet: Fleet, body: Alerted) -> None:
    key = f"{body.name}:{body.key}"
    if body.on:
        fleet.alerts.setdefault(key, fleet.heard_ns)
    else:
        fleet.alerts.pop(key, None)


def _restart(fleet: Fleet, body: Restart) -> None:
    rental = fleet.rentals.get(body.intent)
    if rental is not None:
        rental.restart_asked_beat = fleet.beat


def _start_answered(fleet: Fleet, body: StartAnswered) -> None:
    """The listing tells whether it really runs again; the answer alone changes nothing."""


STEPS: dict[type[Any], Callable[[Fleet, Any], None]] = {
    Rent: _rent, Adopted: _adopted, CreateSent: _create_sent, CreateAnswered: _create_answered, Resolved: _resolved,
    End: _end, Extra: _extra, Gone: _gone, DestroySent: _destroy_sent, DestroyAnswered: _destroy_answered,
    StartAnswered: _start_answered, PostMortemSaved: _post_mortem, Judged: _judged, Directed: _directed,
    Marked: _marked, Repriced: _repriced, Struck: _struck, Blacklisted: _blacklisted, Braked: _braked,
    Alerted: _alerted, Restart: _restart,
}
