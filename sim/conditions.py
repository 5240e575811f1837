"""How a machine stands right now: its own nature folded with the faults that are on. Pure.

In scope: what the host., prover. and params. faults do to speed, memory, disk, network and cards as plain numbers.
Out of scope: moments (a crash, a kill, a restart), which ``sim/faults/`` does to a container when they happen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sim.model import Hardware, hardware_of, limit_of
from sim.spec import FaultSpec, MachineSpec

LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.97, 5: 3.94, 6: 7.56}  # usable, per PCIe generation


@dataclass(frozen=True, slots=True)
class Card:
    """A card as the box has it; ``slot`` is its place when the box was built and names it for ever."""

    slot: int
    name: str


@dataclass(slots=True)
class Active:
    """A fault that is on. ``level`` 0 … 1: how far its ramp has come."""

    fault: FaultSpec
    level: float = 1.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that speed, memory and readings depend on besides the machine's nature.

    ``halted``: the prover does nothing at all; ``frozen``: the whole box stands still; ``gpu_speed``: share of the
    rate that stuck cards leave; ``failing``: why every proof fails at once ("" it does not); ``nvml``: how NVML is
    broken ("" it is not); ``cut``: nothing on the box can be reached; ``offline``: the market has lost contact.
    """

    hardware: Hardware
    cards: tuple[Card, ...]
    limit_gib: float
    shown_gib: float
    down_mbps: float
    up_mbps: float
    disk_mb_per_s: float
    disk_free_gb: float | None = None
    throttle: float = 1.0
    gpu_speed: float = 1.0
    gpu_stuck: bool = False
    halted: bool = False
    frozen: bool = False
    cut: bool = False
    offline: bool = False
    failing: str = ""
    failing_fault: int | None = None
    xid: tuple[tuple[int, int], ...] = ()  # (card's place, xid) that the log shows
    invalid: FaultSpec | None = None
    srs_load_s: float | None = None
    nvml: str = ""
    nvml_running_ok: bool = True
    foreign_load: float = 0.0
    foreign_shown: bool = True
    idle_pcie_gb_per_s: float | None = None
    gpu_oom_fault: int | None = None
    pull_stopped: bool = False
    image_fault: FaultSpec | None = None


def cards_of(spec: MachineSpec) -> tuple[Card, ...]:
    names = spec.gpu_actual if spec.gpu_actual is not None else [spec.gpu] * spec.gpus
    return tuple(Card(i, name) for i, name in enumerate(names))


def link_gb_per_s(params: dict[str, Any]) -> float:
    """The PCIe link that ``gen`` and ``lanes`` give."""
    return LANE_GB_PER_S.get(int(params["gen"]), LANE_GB_PER_S[6]) * int(params["lanes"])


def conditions_of(spec: MachineSpec, active: Iterable[Active]) -> Conditions:
    """Folds the active faults, in the order in which they came, over the machine's nature."""
    c = Conditions(
        hardware_of(spec), cards_of(spec), limit_of(spec), spec.ram_gib, spec.inet_down_mbps, spec.inet_up_mbps,
        spec.disk_mb_per_s,
    )
    for one in active:
        fold = _FOLDS.get(one.fault.kind)
        if fold is not None:
            c = fold(c, one, spec)
    if len(c.cards) == 0 and not c.failing:
        c = replace(c, failing="No CUDA devices available")
    return c


# ---------------------------------------------------------------- host.


def _offline(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    dead = not one.fault.params.get("alive", False)
    return replace(c, offline=True, cut=c.cut or dead, frozen=c.frozen or dead)


def _frozen(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, frozen=True, cut=True)


def _slow_disk(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, disk_mb_per_s=min(c.disk_mb_per_s, float(one.fault.params["mb_per_s"])))


def _disk_full(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, disk_free_gb=float(one.fault.params["free_gb"]))


def _slow_network(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    down = float(one.fault.params["down_mbps"])
    up = one.fault.params.get("up_mbps")
    return replace(c, down_mbps=min(c.down_mbps, down), up_mbps=min(c.up_mbps, down if up is None else float(up)))


def _ram_below_offer(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    limit, shown = one.fault.params.get("cgroup_gib"), one.fault.params.get("shown_gib")
    limit = spec.ram_gib / 2 if limit is None else float(limit)
    return replace(c, limit_gib=min(c.limit_gib, limit), shown_gib=spec.ram_gib if shown is None else float(shown))


def _neighbour(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    p, hw = one.fault.params, c.hardware
    cpu, gpu, memory = (min(0.99, float(p.get(k) or 0)) for k in ("cpu_share", "gpu_share", "memory_bandwidth_share"))
    hw = replace(hw, cpu_factor=hw.cpu_factor / (1 - cpu), gpu_s=hw.gpu_s / (1 - gpu),
                 contention=hw.contention / (1 - memory))
    return replace(c, hardware=hw, foreign_load=max(c.foreign_load, gpu),
                   foreign_shown=c.foreign_shown and bool(p.get("gpu_util_shown", True)))


def _throttle(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    factor = float(one.fault.params["factor"])
    return replace(c, throttle=c.throttle * (1 - (1 - factor) * one.level))


def _gpu_xid(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    p = one.fault.params
    hit = [i for i in range(len(c.cards)) if p["gpu"] == "all" or p["gpu"] == i]
    if not hit:
        return c
    shown = tuple((i, int(p["xid"])) for i in hit) if p.get("logged", True) else ()
    # Each proof has partitions on every card, so one sick card fails them all.
    return replace(c, failing=f"CUDA error: Xid {p['xid']}", failing_fault=one.fault.index, xid=c.xid + shown)


def _gpu_lost(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    gpu = one.fault.params["gpu"]
    return _with_cards(c, () if gpu == "all" else tuple(x for i, x in enumerate(c.cards) if i != gpu))


def _gpu_missing(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return _with_cards(c, c.cards[: int(one.fault.params["present"])])


def _with_cards(c: Conditions, cards: tuple[Card, ...]) -> Conditions:
    return replace(c, cards=cards, hardware=replace(c.hardware, gpus=len(cards)))


def _nvml_lost(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, nvml=str(one.fault.params["how"]),
                   nvml_running_ok=c.nvml_running_ok and bool(one.fault.params.get("running_ok", True)))


def _pcie_degraded(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    link = min(c.hardware.pcie_gb_per_s, link_gb_per_s(one.fault.params))
    if one.fault.params.get("idle_only", False):
        return replace(c, idle_pcie_gb_per_s=link)
    return replace(c, idle_pcie_gb_per_s=link, hardware=replace(c.hardware, pcie_gb_per_s=link))


# ---------------------------------------------------------------- prover., systemic.


def _halted(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, halted=True)


def _stuck_gpu(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    how, gpu = one.fault.params["how"], one.fault.params["gpu"]
    cards = len(c.cards)
    hit = cards if gpu == "all" else int(gpu < cards)
    if hit == 0:
        return c
    if how == "error":
        return replace(c, failing="CUDA error: stuck card", failing_fault=one.fault.index)
    left = float(one.fault.params["factor"]) if how == "cpu_fallback" else 0.0
    speed = (cards - hit + hit * left) / cards
    return replace(c, gpu_speed=c.gpu_speed * speed, gpu_stuck=c.gpu_stuck or (speed == 0 and how == "busy"))


def _invalid(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, invalid=one.fault)


def _slow_srs(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    hw = c.hardware if one.fault.params.get("pinned", True) else replace(c.hardware, pinned=False)
    return replace(c, srs_load_s=float(one.fault.params["load_s"]), hardware=hw)


def _image_broken(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    below = float(one.fault.params.get("vram_below_gb") or 0)
    if below and spec.gpu_ram_mb >= below * 1000:
        return c
    if one.fault.params["how"] == "gpu_oom":
        return replace(c, gpu_oom_fault=one.fault.index)
    return replace(c, image_fault=one.fault)


def _registry_down(c: Conditions, one: Active, spec: MachineSpec) -> Conditions:
    return replace(c, pull_stopped=True)


_FOLDS = {
    "host.offline": _offline, "host.suspend": _frozen, "host.reboot": _frozen, "host.slow_disk": _slow_disk,
    "host.disk_full": _disk_full, "host.slow_network": _slow_network, "host.ram_below_offer": _ram_below_offer,
    "host.neighbour": _neighbour, "host.throttle": _throttle, "host.gpu_xid": _gpu_xid, "host.gpu_lost": _gpu_lost,
    "host.gpu_missing": _gpu_missing, "host.nvml_lost": _nvml_lost, "host.pcie_degraded": _pcie_degraded,
    "prover.hang": _halted, "prover.freeze": _halted, "prover.stuck_gpu": _stuck_gpu,
    "prover.invalid_proofs": _invalid, "prover.slow_srs": _slow_srs,
    "systemic.image_broken": _image_broken, "systemic.registry_down": _registry_down,
}
