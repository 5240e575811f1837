"""How many partitions a machine may prove at once (rules.md section 2; memory model: cuzk-model.md section 5).

Peak memory is ``70 + 27.6 p`` GiB while the GPU is the brake and ``70 + 20 p`` while the CPU is. A tenth of the
limit is kept for the slow creep (+1 % a proof, at most +10 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BASE_GIB = 70.0
PER_PARTITION_GPU_BOUND_GIB = 27.6
PER_PARTITION_CPU_BOUND_GIB = 20.0
BUDGET_PER_PARTITION_GIB = 14
USABLE_SHARE = 0.9
P_MAX = 18
SMALLER = 0.6


@dataclass(frozen=True, slots=True)
class Sizing:
    """One size. ``daemon`` "old": ``partition_workers = p``; "current": a memory budget and a synthesis cap."""

    p: int
    concurrency: int
    daemon: str = "current"

    @property
    def total_budget_gib(self) -> int:
        """The budget for a current daemon: never the limit itself, which would admit too many partitions."""
        return int(BASE_GIB) + BUDGET_PER_PARTITION_GIB * self.p


def partitions_for(limit_gib: float, *, cpu_bound: bool = False) -> int:
    """Partitions at once under ``limit_gib`` (the smallest cgroup limit): 1 … 18."""
    per = PER_PARTITION_CPU_BOUND_GIB if cpu_bound else PER_PARTITION_GPU_BOUND_GIB
    return max(1, min(P_MAX, math.floor((USABLE_SHARE * limit_gib - BASE_GIB) / per)))


def partitions_for_seen(limit_gib: float, p: int, rss_gib: float | None) -> int:
    """As :func:`partitions_for`, with what a partition was seen to take at ``p``: ``rss_gib`` at the end of a batch,
    between 20 and 27.6 GiB a partition. None: it may be the CPU that is the brake, so 20."""
    per = PER_PARTITION_CPU_BOUND_GIB
    if rss_gib is not None and p > 0:
        per = min(PER_PARTITION_GPU_BOUND_GIB, max(per, (rss_gib - BASE_GIB) / p))
    return max(1, min(P_MAX, math.floor((USABLE_SHARE * limit_gib - BASE_GIB) / per)))


def smaller(p: int) -> int:
    """One size down after an out-of-memory: ``p x 0.6`` rounded down, at least 1."""
    return max(1, math.floor(p * SMALLER))


def concurrency_for(p: int) -> int:
    """Proofs in flight that keep ``p`` partitions busy (10 partitions a proof), at least 2."""
    return max(2, math.ceil(p / 10) + 1)
