"""The Sensors port of one container: what NVML, the cgroup, the disk and a short load on the links say.

In scope: readings that fail, hang (with a deadline of their own), or say nothing; cards by uuid whatever index they
have now. Out of scope: readings that lie about memory or bandwidth on purpose, ECC counters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proverfleet.ports import Gpu, Readings
from sim.truth import NS

if TYPE_CHECKING:
    import asyncio

    from sim.conditions import Conditions
    from sim.container import Container
    from sim.spec import MachineSpec

NVML_DEADLINE_S = 10.0
LOAD_S = 30.0
IDLE_LINK_GB_PER_S = 2.0  # cards save power on the link while idle


class SimSensors:
    def __init__(self, container: Container) -> None:
        self.container = container
        self.world = container.world
        self._shown: tuple[Conditions, float, bool] | None = None  # what ``_cards`` were made of
        self._cards: tuple[Gpu, ...] = ()

    async def read(self) -> Readings:
        """As it stands; no load is made, so network and link are not known."""
        gpus = await self._gpus(loaded=False)
        return self._readings(gpus, None, None)

    async def under_load(self) -> Readings:
        """Loads network and link for 30 s first."""
        await self._wait(LOAD_S)
        gpus = await self._gpus(loaded=True)
        c = self.container.host.now
        return self._readings(gpus, c.down_mbps, c.hardware.pcie_gb_per_s if c.cards else None)

    def _readings(self, gpus: tuple[Gpu, ...] | None, down: float | None, link: float | None) -> Readings:
        container = self.container
        container.settle(self.world.now_ns())
        c = container.host.now
        return Readings(gpus, c.limit_gib, round(container.rss_gib, 3), round(container.disk_free_gb, 3), down, link)

    def _wait(self, seconds: float) -> asyncio.Future[None]:
        loop = self.world.loop
        future: asyncio.Future[None] = loop.create_future()
        loop.wake_at(loop.now_ns + int(seconds * NS), future)
        return future

    async def _gpus(self, *, loaded: bool) -> tuple[Gpu, ...] | None:
        c = self.container.host.now
        if c.nvml == "hang":
            await self._wait(NVML_DEADLINE_S)
        if c.nvml in ("error", "hang"):
            return None
        spec = self.container.host.spec
        if c.nvml:  # the reading answers and says nothing usable
            return tuple(Gpu(_uuid(spec.id, card.slot)) for card in c.cards)
        shown = (c, self.container.gpu_util or 0.0, loaded)
        if shown != self._shown:
            self._shown, self._cards = shown, tuple(_card(spec, i, *shown) for i in range(len(c.cards)))
        return self._cards


def _uuid(machine_id: int, slot: int) -> str:
    return f"GPU-{machine_id:08x}-{slot:02x}"


def _card(spec: MachineSpec, index: int, c: Conditions, util: float, loaded: bool) -> Gpu:
    card = c.cards[index]
    link = c.hardware.pcie_gb_per_s
    if not loaded and util < 5.0:
        link = IDLE_LINK_GB_PER_S if c.idle_pcie_gb_per_s is None else c.idle_pcie_gb_per_s
    xid = next((x for at, x in c.xid if at == index), None)
    foreign = c.foreign_load if c.foreign_shown and c.foreign_load > 0 else None
    hot = 84.0 if c.throttle < 1.0 else 71.0
    temp = hot if util > 5.0 else 38.0
    return Gpu(_uuid(spec.id, card.slot), card.name, spec.gpu_ram_mb, util / 100.0, temp, link, xid, foreign)
