"""The proof parameters: the source that everybody fetches from, and the one fetcher of a container.

135 GiB in 6 files, fetched all at once (they share the line), each hashed when it is complete, at most 1 GB/s a file
and all of them at the disk's speed. Files and what is known good of them lie on the container's disk, so a restarted
fetcher goes on. Computed at change points: a fault, a full disk, a file's end.
In scope: source down, stalled, slow (for all or one machine), a mirror, a file that fails its checksum.
Out of scope: the .vk files one by one, the lock of a second fetcher, 16 connections a file, hashing anew at a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from proverfleet.ports import ParamsStatus
from sim.spec import FaultSpec

if TYPE_CHECKING:
    from sim.container import Container
    from sim.world import World

NS = 1_000_000_000
GIB = 1 << 30
HASH_BYTES_PER_S = 1e9  # one file
FILES: tuple[tuple[str, int], ...] = (
    ("v28-stacked-proof-of-replication", int(44.5 * GIB)),
    ("v28-proof-of-spacetime-fallback", 57 * GIB),
    ("v28-empty-sector-update", 33 * GIB),
    ("v28-proof-of-spacetime-winning", int(0.18 * GIB)),
    ("v28-fil-inner-product-v1.srs", int(0.30 * GIB)),
    ("v28-verifying-keys", int(0.02 * GIB)),
)
TOTAL_BYTES = sum(size for _, size in FILES)


Scope = tuple[FaultSpec, int | None]
"""A fault and the machine that it is about; None: everybody's."""


class ParamsSource:
    """Where parameters come from. ``mirror``: a second source that takes over while the first is out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.active: list[Scope] = []

    def serves(self) -> bool:
        """Does it give bytes to anybody who asks (the controller's own probe)?"""
        return not any(f.kind in ("params.source_down", "params.stall") and not f.params.get("mirror_up")
                       and machine is None for f, machine in self.active)

    def cap_mbps(self, machine_id: int) -> float:
        """What this machine gets at most; 0: no bytes."""
        cap = float("inf")
        for f, machine in self.active:
            if machine is not None and machine != machine_id:
                continue
            if f.kind == "params.slow":
                cap = min(cap, float(f.params["mbps"]))
            elif not f.params.get("mirror_up"):
                cap = 0.0
        return cap

    def switch(self, on: Scope | None = None, off: Scope | None = None) -> None:
        """Switches a fault of the source on or off."""
        for host in self.world.hosts.values():
            host.settle()
        if on is not None:
            self.active.append(on)
        if off is not None and off in self.active:
            self.active.remove(off)
        for host in self.world.hosts.values():
            host.take_in()
        self.world.changed()


@dataclass(slots=True)
class File:
    """One parameter file on the container's disk. ``bad_by``: faults that will spoil its next checks."""

    name: str
    size: int
    received: float = 0.0
    hashed: float = 0.0
    good: bool = False
    failures: int = 0
    bad_by: list[FaultSpec] = field(default_factory=list)


class SimParams:
    """The Params port of one container."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.world = container.world
        self.files = [File(name, size) for name, size in FILES]
        self.total = TOTAL_BYTES
        self.running = False
        self.error: str | None = None
        self.at = container.world.now_ns()
        self.digests_differ = False
        self.lost_to: int | None = None
        self._on_disk: int | None = None  # None: changed since it was last summed
        self._down = 0.0  # bytes/s
        self._disk = 0.0
        self._room = float(TOTAL_BYTES)  # bytes of parameters that the disk can hold

    # ------------------------------------------------------------ the port

    async def fetch(self) -> None:
        now = self.world.now_ns()
        self.settle(now)
        if not self.running and not self.ready:
            self.running = True
            self.error = None
            self.refresh()

    async def status(self) -> ParamsStatus:
        self.settle(self.world.now_ns())
        if self.running:
            self._forecast()
        return ParamsStatus(
            self.running, self.ready, self.on_disk, int(sum(f.hashed for f in self.files)), self.total,
            max(f.failures for f in self.files), self.digests_differ, self.error,
        )

    # ------------------------------------------------------------ what can be asked

    @property
    def ready(self) -> bool:
        return all(f.good for f in self.files)

    @property
    def on_disk(self) -> int:
        """Bytes received into files that have not failed."""
        if self._on_disk is None:
            self._on_disk = int(sum(f.received for f in self.files))
        return self._on_disk

    def missing(self) -> str:
        """The first file that is not there and good; "" when all are."""
        return next((f.name for f in self.files if not f.good), "")

    def fill(self) -> None:
        """All files are there and good, as after a fetch long ago."""
        for f in self.files:
            f.received = f.hashed = float(f.size)
            f.good = True
        self._on_disk = None

    def spoil(self, index: int, fault: int | None) -> None:
        """A good file turns out to be bad on the disk: it is gone."""
        f = self.files[index]
        f.received, f.hashed, f.good = 0.0, 0.0, False
        self._on_disk = None
        self.lost_to = fault

    def corrupt(self, fault: FaultSpec) -> bool:
        """The file that the fault names (from 1) fails its next check. False when it has passed already."""
        self.settle(self.world.now_ns())
        f = self.files[min(len(self.files), int(fault.params["file"])) - 1]
        if f.good:
            return False
        f.bad_by.append(fault)
        return True

    def wipe(self) -> None:
        """The disk is lost."""
        self.files = [File(name, size) for name, size in FILES]
        self._on_disk = None

    def container_ended(self, now: int) -> None:
        self.settle(now)
        self.running = False
        self.container.note("params", False, now)

    # ------------------------------------------------------------ time

    def settle(self, now: int) -> None:
        if now <= self.at:
            return
        while self.running and self.at < now:
            step = self._step_ns()
            until = now if step is None else min(now, self.at + step)
            self._move((until - self.at) / NS)
            self.at = until
            self._check(until)
        self.at = now

    def _rates(self) -> tuple[float, float]:
        """Bytes/s that one incomplete file receives, and that one complete file is hashed at, as things stand."""
        loading = sum(f.received < f.size for f in self.files)
        hashing = sum(f.received >= f.size and not f.good for f in self.files)
        return (self._down / loading if loading else 0.0,
                min(HASH_BYTES_PER_S, self._disk / hashing) if hashing else 0.0)

    def _step_ns(self) -> int | None:
        """Until the next file is complete or hashed, or the disk is full; None when nothing moves."""
        down, disk = self._rates()
        left = [(f.size - f.received) / down for f in self.files if f.received < f.size and down > 0]
        if left and self._room < self.total:
            left.append(max(0.0, self._room - self.on_disk) / self._down)
        left += [(f.size - f.hashed) / disk for f in self.files if f.received >= f.size and not f.good and disk > 0]
        return max(1, ceil(min(left) * NS)) if left else None

    def _move(self, seconds: float) -> None:
        down, disk = self._rates()
        self._on_disk = None
        for f in self.files:
            if f.received < f.size:
                f.received = min(float(f.size), f.received + down * seconds)
                if f.size - f.received < 1.0:
                    f.received = float(f.size)
            elif not f.good:
                f.hashed = min(float(f.size), f.hashed + disk * seconds)

    def _check(self, at: int) -> None:
        """Files that were hashed to their end are good, or fail and lose their bytes."""
        for f in self.files:
            if f.good or f.received < f.size or f.size - f.hashed >= 1.0:
                continue
            f.hashed = float(f.size)
            if not f.bad_by:
                f.good = True
                continue
            fault = f.bad_by.pop(0)
            f.received = f.hashed = 0.0
            f.failures += 1
            self._on_disk = None
            if not fault.params.get("same_digest", True) and f.failures > 1:
                self.digests_differ = True
            if f.failures >= 3:
                self.container.params_failed(at, fault.index)
        if self._down > 0 and self.on_disk >= self._room and self.on_disk < self.total:
            self.error, self._down = "no space left on device", 0.0
        if self.ready:
            self.running = False
            self.container.truth.setup_left_s.set(at, 0.0)
        self.container.note("params", self.running and any(self._rates()), at)

    def refresh(self) -> None:
        """Takes in network, disk and source as they stand now. Settle first."""
        if not self.running:
            return
        c, container = self.container.host.now, self.container
        source = getattr(self.world, "source", None)
        cap = source.cap_mbps(container.host.spec.id) if source is not None else float("inf")
        self._down = 0.0 if c.frozen else min(c.down_mbps, cap) * 1e6 / 8
        self._disk = 0.0 if c.frozen else c.disk_mb_per_s * 1e6
        self._room = self.on_disk + container.disk_free_gb * 1e9
        self.error = None
        self._check(self.world.now_ns())
        self._forecast()

    def _forecast(self) -> None:
        """For the truth: seconds that fetch and hash still take at the rates of now. A standstill says nothing about
        them (the stall rule has that), so the last forecast stays."""
        left = self.total - self.on_disk
        if (left > 0 and self._down <= 0) or self._disk <= 0:
            return
        unhashed = self.total - sum(f.hashed for f in self.files)
        seconds = (left / self._down if left > 0 else 0.0) + unhashed / self._disk
        self.container.truth.setup_left_s.set(self.world.now_ns(), seconds)
