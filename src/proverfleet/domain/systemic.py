"""The systemic brake: the same failure on several machines of several hosts is our fault, or the source's, not theirs.

Protects INV-7 and the fleet (field case M1475, point 4: a broken script would kill and blacklist every new machine;
I-061: a new build that needs more memory than a card has). While it is on: no rental for that image and card class
but one canary every 30 min, no blame, no kill; what fails under it is held for an hour and then ends as `systemic`.
One success of a rental that was made under it, two hours without another such failure, or an operator ends it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proverfleet.domain.events import Braked, End, OfferFact, Rent
from proverfleet.domain.fleet import NS, BrakeState, Fleet, Rental
from proverfleet.domain.ids import MachineId
from proverfleet.domain.lifecycle import rank
from proverfleet.domain.pending import Pending

NAME = "systemic"
COMMON = (
    "disk_full", "gpu_lost", "gpu_hang", "gpu_error", "kernel_oom", "gpu_oom", "exit_code", "signal", "bench_error",
    "prover_error", "image_error", "loading_stuck", "no_agent", "agent_silent", "no_progress", "corrupt_params",
)
"""Cause words that may be common to many. A rate, a card that is missing and wrong proofs are a machine's own."""


@dataclass(slots=True)
class Spread:
    """Where one fingerprint was seen: machines with their hosts and card classes."""

    machines: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    image: str = ""

    def add(self, machine: int | None, host: int | None, card: str, image: str) -> None:
        if machine is not None:
            self.machines[machine] = (host, card)
            self.image = image

    @property
    def cards(self) -> list[str]:
        return sorted({card for _, card in self.machines.values()})


def brakes_on(fleet: Fleet) -> dict[str, BrakeState]:
    """Systemic brakes that are on, by fingerprint."""
    return {b.key: b for b in fleet.brakes.values() if b.name == NAME}


def check(fleet: Fleet, pending: Pending) -> list[Braked]:
    """Brakes that go on or off in this beat, seen from the failures of the last two hours and from the ends that rules
    ask for now."""
    out: list[Braked] = []
    on = brakes_on(fleet)
    spreads = _spreads(fleet, pending)
    for key in sorted(spreads):
        spread = spreads[key]
        if key in on or not _common(fleet, pending, key, spread):
            continue
        hosts = {host for host, _ in spread.machines.values()}
        reason = f"{key} on {len(spread.machines)} machines of {len(hosts)} hosts within " \
                 f"{fleet.policy.systemic_window_s / 3600:g} h"
        detail = {"image": spread.image, "cards": spread.cards, "machines": sorted(spread.machines)}
        out.append(Braked(NAME, key, True, reason, detail))
    for key, brake in on.items():
        why = _over(fleet, pending, brake, spreads.get(key))
        if why:
            out.append(Braked(NAME, key, False, why))
    return out


def held(fleet: Fleet, pending: Pending, rental: Rental, end: End) -> End | str | None:
    """What becomes of an end under the brakes: None goes as it is, a text holds it, an End replaces it."""
    key = str(end.evidence.get("fingerprint", ""))
    if end.cause not in COMMON or key not in covered(fleet, pending):
        return None
    held_s = (fleet.heard_ns - rental.progress_heard_ns) / NS
    if held_s < fleet.policy.systemic_hold_s:
        return f"systemic: {key}"
    reason = f"held {held_s / 60:.0f} min under a common cause ({key}), nobody is to blame: {end.reason}"
    return End(end.rule, end.intent, NAME, NAME, reason, "nobody", {**end.evidence, "verdict_held": end.verdict})


def covered(fleet: Fleet, pending: Pending) -> dict[str, None]:
    """Fingerprints under a brake, with what this beat has decided."""
    keys = dict.fromkeys(brakes_on(fleet))
    for decision in pending.decisions:
        if isinstance(decision, Braked) and decision.name == NAME:
            if decision.on:
                keys[decision.key] = None
            else:
                keys.pop(decision.key, None)
    return keys


def allows(fleet: Fleet, pending: Pending, offer: OfferFact, made: list[Rent]) -> bool:
    """May this card class be rented? Under a brake only one canary every 30 min."""
    for brake in brakes_on(fleet).values():
        if not _covers(brake, offer.gpu_name, fleet.image):
            continue
        if any(_covers(brake, r.offer.gpu_name, fleet.image) for r in made):
            return False
        last_ns = _last_try_ns(fleet, brake)
        if fleet.heard_ns - last_ns < int(fleet.policy.systemic_canary_s * NS):
            return False
    return not any(isinstance(d, Braked) and d.name == NAME and d.on and offer.gpu_name in d.detail.get("cards", ())
                   for d in pending.decisions)


def _covers(brake: BrakeState, card: str, image: str) -> bool:
    """The image on its card classes; on two classes or more, or before a card was ever used, the image as a whole."""
    cards = brake.detail.get("cards", [])
    if brake.detail.get("image", image) != image:
        return False
    return card in cards or len(cards) > 1 or brake.key.startswith("loading|")


def _last_try_ns(fleet: Fleet, brake: BrakeState) -> int:
    """When the newest rental under this brake was asked for (observed time); when it went on where there is none."""
    last = max(brake.since_heard_ns, brake.canary_heard_ns)
    for rental in reversed(fleet.rentals.values()):
        asked = rental.stage_heard_ns.get("requested", 0)
        if asked <= last:
            break
        if _covers(brake, rental.gpu_name, rental.image):
            return asked
    return last


def suspected(fleet: Fleet, key: str, machine: MachineId) -> bool:
    """Did a machine of another host fail alike within 24 h, and has nothing got past that stage since?

    Too little for a brake, and enough not to list a machine for it (INV-7)."""
    if _word(key) not in COMMON:
        return False
    since = fleet.heard_ns - int(fleet.policy.soft_window_s * NS)
    own = {f.host_id for f in fleet.failures if f.machine_id == machine}
    own |= {r.host_id for r in fleet.rentals.values() if r.machine_id == machine}
    others = [f for f in fleet.failures if f.fingerprint == key and f.heard_ns >= since and f.host_id not in own]
    if not others:
        return False
    first, stage = min(f.heard_ns for f in others), key.split("|", 1)[0]
    return not any(t >= first and rank(stage) < rank(s) < rank("draining") for r in fleet.rentals.values()
                   for s, t in r.stage_heard_ns.items() if r.image == others[0].image)


def _word(key: str) -> str:
    """The cause word of a fingerprint."""
    parts = key.split("|")
    return parts[2] if len(parts) > 2 else ""


def _spreads(fleet: Fleet, pending: Pending) -> dict[str, Spread]:
    """Failures of the last two hours, the ends that rules ask for, and exits that wait for a retry, by fingerprint."""
    out: dict[str, Spread] = {}
    since = fleet.heard_ns - int(fleet.policy.systemic_window_s * NS)
    for failure in fleet.failures:
        if failure.heard_ns >= since and _word(failure.fingerprint) in COMMON:
            out.setdefault(failure.fingerprint, Spread()).add(
                failure.machine_id, failure.host_id, failure.card, failure.image)
    for rental, end in pending.candidates:
        if end.cause in COMMON:
            out.setdefault(str(end.evidence["fingerprint"]), Spread()).add(
                rental.machine_id, rental.host_id, rental.gpu_name, rental.image)
    return out


def _common(fleet: Fleet, pending: Pending, key: str, spread: Spread) -> bool:
    """On enough machines and hosts, and on half of the machines that were in that stage lately with that image and
    card."""
    policy = fleet.policy
    hosts = {host for host, _ in spread.machines.values()}
    if len(spread.machines) < policy.systemic_machines or len(hosts) < policy.systemic_hosts:
        return False
    stage = key.split("|", 1)[0]
    cards = spread.cards
    tried = dict.fromkeys(spread.machines)
    since = fleet.heard_ns - int(policy.systemic_window_s * NS)
    for rental in pending.open:
        if rental.machine_id is not None and rental.gpu_name in cards and rental.image == spread.image and (
                _was_in(rental, stage, since)):
            tried[rental.machine_id] = None
    return len(spread.machines) >= policy.systemic_share * len(tried)


def _was_in(rental: Rental, stage: str, since_ns: int) -> bool:
    """Was the rental in this stage at any time since then?"""
    if stage not in rental.stage_heard_ns:
        return False
    left = [t for s, t in rental.stage_heard_ns.items() if rank(s) > rank(stage)]
    return not left or min(left) >= since_ns


def _over(fleet: Fleet, pending: Pending, brake: BrakeState, spread: Spread | None) -> str:
    stage = brake.key.split("|", 1)[0]
    for rental in pending.live:
        if rental.stage_heard_ns.get("requested", 0) <= brake.since_heard_ns:
            continue
        if not _covers(brake, rental.gpu_name, rental.image):
            continue
        if rank(rental.stage) > rank(stage) or rental.judged == "passed":
            return f"rental {rental.intent} on machine {rental.machine_id} got past {stage}"
    if spread is None and fleet.heard_ns - brake.since_heard_ns >= int(fleet.policy.systemic_window_s * NS):
        return f"no such failure for {fleet.policy.systemic_window_s / 3600:g} h"
    return ""
