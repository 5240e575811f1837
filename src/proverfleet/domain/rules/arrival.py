"""What the agent finds on arrival ends a rental only where no size on it can reach `min_rate`, by bounds that are
generous on purpose: a reading that failed condemns nobody (I-051), and a doubtful machine is measured instead.

Cases: no card (I-020), a container limit far below the offer (I-052), a link at x1 under load (I-054), a disk that
cannot hold the parameters, a card in use without us. Bounds: cuzk-model.md section 5 (reference CPU 29 s a partition;
kernels by card; 23.6 GiB over the link for each partition; 10 partitions a proof).
"""

from __future__ import annotations

from dataclasses import dataclass

from proverfleet.domain.events import End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, end
from proverfleet.domain.report import GpuFact, Report

RULE = "arrival"

PARTITIONS = 10
LEAST_LIMIT_GIB = 90.0  # 70 + one partition at 20: below it not even one fits
CPU_S_PER_PARTITION = 29.0 * 0.8  # a fifth faster than any CPU class of the model
LINK_GIB_PER_PARTITION = 23.6
LEAST_VRAM_MB = 9_000  # 8 GB cards fail; 12 GB take the small path
KERNEL_S = (  # seconds of kernels a partition, by a word of the card's name; the fastest that the model knows
    ("5090", 1.0), ("H100", 1.1), ("H200", 1.1), ("4090", 1.3), ("A100", 1.6), ("5070", 1.8), ("PRO 4000", 2.5),
    ("3090", 2.8), ("3080", 3.2), ("V100", 4.0),
)
BEGUN_BYTES = 1_000_000_000
GENEROUS = 1.25


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that this finding lets the machine reach, in proofs per hour, and what was found."""

    rate: float
    cause: str
    text: str


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    last = rental.last
    if last is None or not last.facts_read or last.proofs_accepted > 0 or rental.judged:
        return None
    bounds = [b for b in (_cards(last, rental), _memory(last), _link(last, rental), _disk(last)) if b is not None]
    if not bounds:
        return None
    worst = min(bounds, key=lambda b: b.rate)
    if worst.rate >= rental.min_rate:
        return None
    ours = worst.cause == "disk_below_offer" and fleet.policy.disk_gb < 200
    reason = f"{worst.text}: at most {worst.rate:.1f} proofs/h, min_rate {rental.min_rate:g} ({rental.min_rate_from})"
    return end(rental, RULE, "unfit", worst.cause, reason, "us" if ours else "machine",
               best_proofs_per_hour=worst.rate, limit_gib=last.limit_gib, disk_free_gb=last.disk_free_gb,
               cards=None if last.gpus is None else len(last.gpus), pcie_gb_per_s=last.pcie_gb_per_s)


def _cards(last: Report, rental: Rental) -> Bound | None:
    """Cards by uuid. An unknown card is given the fastest kernels; a card that others use counts for what is left."""
    if last.gpus is None:
        return None
    cards = list({g.uuid: g for g in last.gpus}.values())
    if not cards:
        return Bound(0.0, "no_gpu", f"no card where {rental.num_gpus} were rented")
    total = sum(_card_rate(g) * (1.0 - (g.foreign_load or 0.0)) for g in cards)
    if len(cards) < rental.num_gpus:
        return Bound(total, "gpu_missing", f"{len(cards)} of {rental.num_gpus} cards are there")
    if any((g.foreign_load or 0.0) >= 0.5 for g in cards):
        return Bound(total, "ghost_gpu", f"others use the card ({max(g.foreign_load or 0.0 for g in cards):.0%})")
    names = ", ".join(sorted({g.name or "unknown" for g in cards}))
    return Bound(total, "gpu_other", f"cards found: {names}; rented: {rental.num_gpus}x {rental.gpu_name}")


def _card_rate(card: GpuFact) -> float:
    if card.memory_mb is not None and 0 < card.memory_mb < LEAST_VRAM_MB:
        return 0.0
    name = (card.name or "").upper()
    kernel_s = next((s for word, s in KERNEL_S if word in name), KERNEL_S[0][1])
    return GENEROUS * 3600.0 / (PARTITIONS * kernel_s)


def _memory(last: Report) -> Bound | None:
    """Syntheses that fit by the CPU-bound peak (20 GiB each), each as fast as alone on the best CPU."""
    limit = last.limit_gib
    if limit is None or not 0 < limit < float("inf"):
        return None
    if limit < LEAST_LIMIT_GIB:
        text = f"memory limit {limit:.0f} GiB, {LEAST_LIMIT_GIB:.0f} needed for one partition"
        return Bound(0.0, "ram_below_offer", text)
    p = int((limit - 70.0) // 20.0)
    rate = 3600.0 * p / (PARTITIONS * CPU_S_PER_PARTITION)
    return Bound(rate, "ram_below_offer", f"memory limit {limit:.0f} GiB: {p} partitions at once at most")


def _link(last: Report, rental: Rental) -> Bound | None:
    speed = last.pcie_gb_per_s
    if speed is None or speed <= 0:
        return None
    cards = len(last.gpus) if last.gpus else rental.num_gpus
    rate = GENEROUS * cards * 3600.0 / (PARTITIONS * LINK_GIB_PER_PARTITION / speed)
    return Bound(rate, "pcie_slow", f"link to the card carries {speed:.2f} GB/s under load")


def _disk(last: Report) -> Bound | None:
    """Room for the parameters, judged before the fetch. A disk that fills up later is `setup`'s affair."""
    if last.disk_free_gb is None or last.bytes_total <= 0 or last.bytes_received >= BEGUN_BYTES:
        return None
    missing_gb = max(0, last.bytes_total - last.bytes_received) / 1e9
    if last.disk_free_gb >= missing_gb:
        return None
    text = f"{last.disk_free_gb:.0f} GB free, {missing_gb:.0f} GB of parameters still to come"
    return Bound(0.0, "disk_below_offer", text)
