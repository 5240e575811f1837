"""What is known of a machine: measured rates by configuration and image, strikes, and the list (rules.md section 3).

Everything is keyed by ``machine_id``; a host (an operator account) is never listed (field case M1475, point 5). A rate
ages: the newest measures weigh most and none counts for ever, since machines get neighbours, drivers and dust.
"""

from __future__ import annotations

import math

from proverfleet.domain.events import Struck
from proverfleet.domain.fleet import NS, Fleet, Measured
from proverfleet.domain.ids import HostId, MachineId
from proverfleet.domain.market_facts import Offer
from proverfleet.domain.sizing import BASE_GIB, P_MAX, partitions_for

DAY_NS = 86_400 * NS
KEPT_MEASURES = 8
HOST_MACHINES = 3

# Hard: one is enough (what is there cannot prove, or proves wrongly). Soft: it may have been bad luck.
_HARD_VERDICTS = ("unfit", "invalid")
_SOFT_VERDICTS = ("slow", "crashed", "stalled", "never_started")

# Cards whose kernels take this many seconds a partition, and CPU classes with their slowdown against the reference
# host; both from cuzk-model.md section 5. The longest name that is part of the offer's own wins.
_CARD_S: dict[str, float] = {
    "5090": 1.0, "4090": 1.3, "5080": 1.6, "5070 TI": 1.8, "PRO 6000": 1.0, "PRO 5000": 1.6, "PRO 4500": 2.1,
    "PRO 4000": 2.5, "3090": 2.8, "3080": 3.2, "A100": 1.6, "H100": 1.1, "H200": 1.1, "V100": 4.0, "4080": 1.7,
    "4070 TI": 2.2, "4070": 2.6, "L40": 1.5, "A6000": 2.4, "6000ADA": 1.4, "A5000": 2.9, "A40": 2.5, "L4": 3.5,
}
_CARD_OTHER_S = 3.2
_CPU_FACTOR: tuple[tuple[str, float], ...] = (
    ("EPYC 9", 1.1), ("7995WX", 1.0), ("7985WX", 1.0), ("7975WX", 1.1), ("RYZEN 9 9", 0.95), ("RYZEN 9 7", 1.1),
    ("EPYC 7", 1.9), ("5995WX", 1.6), ("5975WX", 1.6), ("5965WX", 1.6), ("3990X", 2.0), ("3970X", 2.0), ("3960X", 2.0),
    ("RYZEN 9 5", 1.6), ("RYZEN 9 3", 2.0), ("E5-", 3.2), ("GOLD 63", 1.8), ("PLATINUM 83", 1.8), ("SILVER 43", 1.9),
    ("XEON", 2.4),
)
_CPU_OTHER = 1.8
_HTOD_GIB_PER_PARTITION = 23.6
_PINNED_SHARE = 0.9
_PCIE_USUAL_GB_PER_S = 20.0
_LOAD = 1.3
_CONTENTION = 0.06


def strike_of(verdict: str, cause: str, blame: str = "machine") -> str:
    """"hard", "soft" or "" for an end. Only what the machine is to blame for strikes: out of memory at a size of ours,
    create refusals, market ends and common causes never do."""
    if blame != "machine":
        return ""
    if verdict in _HARD_VERDICTS or cause == "corrupt_params":
        return "hard"
    return "soft" if verdict in _SOFT_VERDICTS else ""


def strike_weight(fleet: Fleet, machine_id: MachineId) -> float:
    """The strikes against a machine, each halved every ``strike_half_life_days``."""
    half_life_ns = fleet.policy.strike_half_life_days * DAY_NS
    ages = [max(0, fleet.wall_ns - s.wall_ns) for s in fleet.strikes if s.machine_id == machine_id]
    return sum(math.exp2(-age / half_life_ns) for age in ages) if half_life_ns > 0 else 0.0


def must_list(fleet: Fleet, struck: Struck) -> str:
    """Why this strike puts its machine on the list; "" when it does not (yet).

    A hard one always; a soft one when it is at least the second within 24 h, each from another rental. A machine
    whose entry ran out gets one canary: its next soft strike, while the old ones still weigh, lists it again.
    """
    if struck.hard:
        return f"hard strike: {struck.reason}"
    since_ns = fleet.wall_ns - int(fleet.policy.soft_window_s * NS)
    intents = {s.intent for s in fleet.strikes if s.machine_id == struck.machine_id and s.wall_ns >= since_ns}
    intents.add(struck.intent)
    if len(intents) >= fleet.policy.soft_strikes:
        return f"{len(intents)} strikes within {fleet.policy.soft_window_s / 3600:g} h: {struck.reason}"
    if canary(fleet, struck.machine_id):
        return f"the canary after its last entry failed: {struck.reason}"
    return ""


def is_listed(fleet: Fleet, machine_id: MachineId) -> bool:
    """Is the machine on the list now? An entry that ran out is none (the wall clock only ends entries)."""
    entry = fleet.blacklist.get(machine_id)
    return entry is not None and (entry.until_wall_ns is None or fleet.wall_ns < entry.until_wall_ns)


def canary(fleet: Fleet, machine_id: MachineId) -> bool:
    """Did an entry of this machine run out, so that its next rental is a trial?"""
    entry = fleet.blacklist.get(machine_id)
    return entry is not None and not is_listed(fleet, machine_id)


def host_avoided(fleet: Fleet, host_id: HostId) -> bool:
    """Did three machines of this host fail within 24 h? Its affair: avoided for new rentals, never listed."""
    since_ns = fleet.heard_ns - int(fleet.policy.host_avoid_s * NS)
    failed = {f.machine_id for f in fleet.failures if f.host_id == host_id and f.heard_ns >= since_ns}
    return len(failed) >= HOST_MACHINES


# ---------------------------------------------------------------- rates


def add_measure(fleet: Fleet, measured: Measured) -> None:
    """Keeps a measured rate; the oldest ones of a machine make room."""
    kept = fleet.measured.setdefault(measured.machine_id, [])
    kept.append(measured)
    del kept[:-KEPT_MEASURES]


def history(fleet: Fleet, machine_id: MachineId, gpu_name: str, num_gpus: int, image: str) -> Measured | None:
    """What the machine reaches in this configuration and image, weighted to the newest measures (half-life as strikes).

    ``spread`` is the relative uncertainty: the measures' own, and how far they lie apart. None: never measured.
    """
    own = [m for m in fleet.measured.get(machine_id, ())
           if m.gpu_name == gpu_name and m.num_gpus == num_gpus and m.image == image]
    if not own:
        return None
    half_life_ns = max(1.0, fleet.policy.strike_half_life_days * DAY_NS)
    newest = own[-1]
    weights = [math.exp2(-max(0, newest.wall_ns - m.wall_ns) / half_life_ns) * max(1, m.proofs) for m in own]
    total = sum(weights)
    rate = sum(w * m.rate_proofs_per_hour for w, m in zip(weights, own, strict=True)) / total
    apart = math.sqrt(sum(w * (m.rate_proofs_per_hour - rate) ** 2 for w, m in zip(weights, own, strict=True)) / total)
    spread = max(apart / rate if rate > 0 else 0.0, newest.spread)
    return Measured(machine_id, gpu_name, num_gpus, image, rate, spread, sum(m.proofs for m in own), newest.gpu_frac,
                    newest.wall_ns)


def expected_rate(fleet: Fleet, offer: Offer) -> tuple[float, str]:
    """Proofs/h that the offer should reach, and whence: "history" of this machine, else "table" by card and CPU."""
    known = history(fleet, offer.machine_id, offer.gpu_name, offer.num_gpus, fleet.image)
    if known is not None:
        return known.rate_proofs_per_hour, "history"
    return table_rate(offer), "table"


def table_rate(offer: Offer) -> float:
    """The steady rate of the host model (cuzk-model.md section 5, steps 1 to 4) from the offer's words, proofs/h."""
    gib = offer.cpu_ram_mb / 1024
    p = partitions_for(gib) if gib > BASE_GIB else 1
    synthesis_s = 29.0 * cpu_factor(offer.cpu_name) * (1 + _CONTENTION * (min(p, P_MAX) - 1))
    cores = offer.cpu_cores_effective
    if cores > 0 and p > cores / 4:
        synthesis_s *= 1 + 0.05 * (p - cores / 4)
    pcie = offer.pcie_gb_per_s if offer.pcie_gb_per_s > 0 else _PCIE_USUAL_GB_PER_S
    gpu_s = card_s(offer.gpu_name) * _LOAD + _HTOD_GIB_PER_PARTITION / (_PINNED_SHARE * pcie)
    return 3600.0 / max(10 * synthesis_s / p, 10 * gpu_s / max(1, offer.num_gpus))


def card_s(gpu_name: str) -> float:
    """Kernel seconds a partition of a card, by the longest known part of its name."""
    name = gpu_name.upper().replace("_", " ")
    found = [key for key in _CARD_S if key in name]
    return _CARD_S[max(found, key=lambda k: (len(k), k))] if found else _CARD_OTHER_S


def cpu_factor(cpu_name: str) -> float:
    """Slowdown of a CPU against the reference host (1 = Threadripper PRO 7995WX), by class; 1.8 where unknown."""
    name = cpu_name.upper()
    if "EPYC 7" in name and len(name.split("EPYC ")[1]) >= 4:
        generation = name.split("EPYC ")[1][3]
        return {"1": 2.6, "2": 2.1, "3": 1.65}.get(generation, 1.9)
    return next((factor for part, factor in _CPU_FACTOR if part in name), _CPU_OTHER)
