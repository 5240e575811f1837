"""cuzk's time and memory as pure functions (reference/cuzk-model.md section 5). Seconds, GiB, proofs/h.

Symbols of that section: p partitions at once, k CPU slowdown against the reference host, c contention, t_s seconds of
one synthesis, t_g seconds of one partition on a card, G cards, N proofs, u how far the cards are the brake.

A pinned rate (``rate_proofs_per_hour`` of a machine) is what the best size that fits reaches. Smaller sizes give what
the model's ratio says times PIN_HEADROOM, never more than the pin: in the published rows the plateau begins at p = 10,
where the CPU's own curve stands at 3/4 of its value at p = 16. A pin stretches the time of proofs only; memory follows
the machine's own k, c and t_g, and so does the moment of an out-of-memory (field case M1475: 620 s).
Out of scope: other proof kinds than PoRep-32G, gw, the pacer, eviction.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from sim.spec import MachineSpec

PARTITIONS = 10
P_MAX = 18
SYNTHESIS_S = 29.0
BASE_GIB = 70.0
SRS_GIB = 44.0
SRS_BYTES = int(SRS_GIB * (1 << 30))
PER_PARTITION_GIB = 20.0
PER_PARTITION_QUEUED_GIB = 7.6
CREEP = 0.01  # of the peak, per proof after the first batch
CREEP_PROOFS = 10
BATCH_PROOFS = 12
HTOD_GB = 23.6  # host to device, per partition
PINNED_SHARE = 0.9
UNPINNED_GB_PER_S = 4.0
SRS_LOAD_MIN_S = 15.0
PCE_STEALS = 1.10  # the extraction of a cold PCE beside the first proof: +5 … 15 %
PIN_HEADROOM = 1.3


@dataclass(frozen=True, slots=True)
class Hardware:
    """What decides time and memory on one machine. ``gpu_s``: t_g of one card; ``knee``: cores / 4."""

    cpu_factor: float
    contention: float
    gpu_s: float
    gpus: int
    cores: float
    pcie_gb_per_s: float = 24.0
    pinned: bool = True


def hardware_of(spec: MachineSpec) -> Hardware:
    """The machine's own nature, without any fault."""
    cards = spec.gpus if spec.gpu_actual is None else len(spec.gpu_actual)
    return Hardware(spec.cpu_factor, spec.contention, spec.gpu_s_per_partition, cards, spec.cpu_cores,
                    spec.pcie_gb_per_s)


def limit_of(spec: MachineSpec) -> float:
    """The memory limit in GiB: the cgroup's, or all of the RAM where there is none."""
    return spec.ram_gib if spec.cgroup_gib is None else min(spec.cgroup_gib, spec.ram_gib)


# ---------------------------------------------------------------- time


def synthesis_s(hw: Hardware, p: int) -> float:
    """t_s: one synthesis with ``p`` at once; past a quarter of the cores each costs 5 % more."""
    over = p - hw.cores / 4
    knee = 1.0 + 0.05 * over if over > 0 else 1.0
    return SYNTHESIS_S * hw.cpu_factor * (1.0 + hw.contention * (p - 1)) * knee


def card_s(hw: Hardware) -> float:
    """t_g: the kernel's time, or the copy over the link where that is slower. Infinite without a link."""
    link = hw.pcie_gb_per_s * PINNED_SHARE if hw.pinned else min(hw.pcie_gb_per_s, UNPINNED_GB_PER_S)
    return max(hw.gpu_s, HTOD_GB / link) if link > 0 else float("inf")


def interval_s(hw: Hardware, p: int) -> float:
    """Seconds from one proof to the next in a full pipeline; infinite without a card."""
    if hw.gpus <= 0:
        return float("inf")
    return PARTITIONS * max(synthesis_s(hw, p) / p, card_s(hw) / hw.gpus)


def fill_s(hw: Hardware, p: int) -> float:
    """Seconds from an empty pipeline to its first proof, so that ``fill + (N - 1) intervals`` is T(N)."""
    if hw.gpus <= 0:
        return float("inf")
    t_s, t_g = synthesis_s(hw, p), card_s(hw)
    cpu, gpu = PARTITIONS * t_s / p, PARTITIONS * t_g / hw.gpus
    return (cpu if cpu >= gpu else t_s + gpu) + t_g


def batch_s(hw: Hardware, p: int, n: int) -> float:
    """T(N): ``n`` proofs from an empty pipeline, the SRS loaded."""
    t_s, t_g = synthesis_s(hw, p), card_s(hw)
    return max(PARTITIONS * n / p * t_s, t_s + PARTITIONS * n * t_g / hw.gpus) + t_g


def model_rate(hw: Hardware, p: int) -> float:
    """Proofs/h of a full pipeline at ``p``; 0 without a card."""
    return 3600.0 / interval_s(hw, p)


def srs_load_s(disk_mb_per_s: float) -> float:
    """T_srs: 44 GiB at the disk's speed, never under 15 s."""
    return max(SRS_LOAD_MIN_S, SRS_BYTES / 1e6 / disk_mb_per_s) if disk_mb_per_s > 0 else float("inf")


def warm_up_s(hw: Hardware, p: int, cold: bool = True) -> float:
    """One proof alone after the SRS load; ``cold``: the PCE is extracted beside it."""
    p = min(p, PARTITIONS)
    return PARTITIONS / p * synthesis_s(hw, p) * (PCE_STEALS if cold else 1.0) + card_s(hw)


def fetch_s(size_bytes: float, inet_down_mbps: float, disk_mb_per_s: float, source_mbps: float = float("inf")) -> float:
    """Download, then hash at the disk's speed (at most 1 GB/s a file, 6 files)."""
    return size_bytes * 8 / 1e6 / min(inet_down_mbps, source_mbps) + size_bytes / 1e6 / min(6000.0, disk_mb_per_s)


# ---------------------------------------------------------------- memory


def rss_start_gib(p: int) -> float:
    """At the first full set of syntheses."""
    return BASE_GIB + PER_PARTITION_GIB * p


def rss_peak_gib(hw: Hardware, p: int) -> float:
    """At the end of a batch of 12: 20 GiB a partition, 27.6 once finished ones queue for the card."""
    if hw.gpus <= 0:
        return rss_start_gib(p)
    u = p * card_s(hw) / (hw.gpus * synthesis_s(hw, p))
    queued = min(1.0, max(0.0, (u - 0.8) / 0.2))
    return BASE_GIB + p * (PER_PARTITION_GIB + PER_PARTITION_QUEUED_GIB * queued)


def fits(hw: Hardware, p: int, limit_gib: float) -> bool:
    """Does ``p`` last under the limit, the creep of 10 % included?"""
    return rss_peak_gib(hw, p) * (1 + CREEP * CREEP_PROOFS) <= limit_gib


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """RSS in GiB over the daemon's busy seconds: fill, growth to the peak, creep, then level."""

    at_s: tuple[float, ...]
    gib: tuple[float, ...]

    def rss(self, busy_s: float) -> float:
        i = bisect_right(self.at_s, busy_s)
        if i >= len(self.at_s):
            return self.gib[-1]
        a, b = self.at_s[i - 1], self.at_s[i]
        return self.gib[i - 1] + (self.gib[i] - self.gib[i - 1]) * (busy_s - a) / (b - a)

    def crossing_s(self, limit_gib: float) -> float:
        """Busy seconds at which the limit is crossed; infinite when never."""
        for i, gib in enumerate(self.gib):
            if gib > limit_gib:
                if i == 0:
                    return 0.0
                a, b, low = self.at_s[i - 1], self.at_s[i], self.gib[i - 1]
                return a + (b - a) * (limit_gib - low) / (gib - low)
        return float("inf")


def memory_curve(hw: Hardware, p: int) -> MemoryCurve:
    """The RSS line of a daemon at ``p``, on the machine's own clock (a pinned rate does not stretch it)."""
    base = replace(hw, gpus=max(1, hw.gpus))
    peak, full = rss_peak_gib(base, p), synthesis_s(base, p)
    end = max(batch_s(base, p, BATCH_PROOFS), full + 1.0)
    creep = end + CREEP_PROOFS * interval_s(base, p)
    return MemoryCurve((0.0, full, end, creep), (BASE_GIB, rss_start_gib(p), peak, peak * (1 + CREEP * CREEP_PROOFS)))


# ---------------------------------------------------------------- rate


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine's rates. ``pin``: proofs/h at the best size that fits, or None; ``top``: the model's own there."""

    hardware: Hardware
    pin: float | None
    top: float

    def rate(self, p: int, now: Hardware | None = None) -> float:
        """Proofs/h of a full pipeline at ``p``; ``now``: the hardware as faults leave it."""
        if self.hardware.gpus <= 0:
            return 0.0
        own = model_rate(self.hardware, p)
        rate = own if self.pin is None else self.pin * min(1.0, PIN_HEADROOM * own / self.top)
        return rate if now is None or now is self.hardware else rate * model_rate(now, p) / own

    def best(self, limit_gib: float, now: Hardware | None = None) -> float:
        """Proofs/h at the best size that lasts under ``limit_gib``; 0 when none does."""
        return max((self.rate(p, now) for p in range(1, P_MAX + 1) if fits(self.hardware, p, limit_gib)), default=0.0)


def profile_of(spec: MachineSpec) -> Profile:
    hw = hardware_of(spec)
    limit = limit_of(spec)
    sizes = [p for p in range(1, P_MAX + 1) if fits(hw, p, limit)] or [1]
    return Profile(hw, spec.rate_proofs_per_hour, max(model_rate(hw, p) for p in sizes))


def effective_p(p: int, concurrency: int, daemon: str = "current") -> int:
    """Partitions really at once: a proof has 10, and a current daemon stops at 18."""
    return max(1, min(p, PARTITIONS * concurrency, P_MAX if daemon == "current" else p))


def rate_at(spec: MachineSpec, p: int, concurrency: int = 3) -> float:
    """True proofs/h of this machine, undisturbed, at one size."""
    return profile_of(spec).rate(effective_p(p, concurrency)) if spec.works else 0.0


def best_rate(spec: MachineSpec, limit_gib: float | None = None) -> float:
    """True proofs/h of this machine, undisturbed, at the best size that lasts under the limit (its own by default)."""
    return profile_of(spec).best(limit_of(spec) if limit_gib is None else limit_gib) if spec.works else 0.0
