"""One physical box: its nature, the faults that are on, the containers on it, and the truth about what it could do.

In scope: everything in reference/faults.md under host., prover. and params. as conditions of one machine; loss of
contact; suspension; reboot; the potential rate. It acts at change points only (a fault, an order, a start): what
happened in between is computed when somebody looks.
Out of scope: neighbours as tenants of their own, wear, moving a contract to another box.

Standstill (hang, freeze, cards stuck) takes the potential to 0 only where the rate rule would count it: a freeze of
under 10 min counts, longer ones are left out up to 30 min in 6 h (rules.md section 2; the stall rule has those).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.conditions import Active, Conditions, conditions_of
from sim.container import Container as Container
from sim.container import Tenant
from sim.faults.catalogue import duration_s
from sim.model import model_rate, profile_of
from sim.spec import MachineSpec
from sim.truth import NS, Steps

if TYPE_CHECKING:
    from sim.world import World

FREEZE_COUNTS_BELOW = 600 * NS
FREEZE_LEFT_OUT = 1800 * NS
FREEZE_PER = 21_600 * NS
NEEDED_GB = 200.0  # image, parameters and PCE
_CLEARS = {"prover_restart": ("prover_restart",), "container_restart": ("prover_restart", "container_restart")}


class Host:
    """``now``: the conditions as they stand. Change them through :meth:`switch` only: it settles first."""

    def __init__(self, world: World, spec: MachineSpec) -> None:
        self.world = world
        self.spec = spec
        self.profile = profile_of(spec)
        self.box = world.box(f"machine:{spec.id}")
        self.dice = world.streams.get(f"host:{spec.id}")
        self.wrong_dice = world.streams.get(f"host:{spec.id}:wrong")
        self.containers: dict[int, Container] = {}
        self.active: list[Active] = []
        self.now: Conditions = conditions_of(spec, ())
        self._offline_turn = 0
        self._still_since: int | None = None
        self._left_out: list[tuple[int, int]] = []
        self._raw = Steps()
        self.potential = Steps()
        self._raw.values[0] = self.potential.values[0] = self._rate(self.now)
        world.truth.potential[spec.id] = self.potential
        world.on_change.append(self.look)

    # ------------------------------------------------------------ the market's side

    def boot(self, contract: Tenant) -> Container:
        """A contract was made: its container begins with the pull of the image."""
        container = Container(self, contract)
        self.containers[container.contract_id] = container
        container.truth.potential = self.potential
        container.truth.bandwidth_mbps = self.now.down_mbps
        container.begin()
        if self.now.offline:
            container.truth.host_offline.open(self.world.now_ns())
        return container

    def stop(self, contract: Tenant) -> None:
        """The contract is gone, and with it its container and disk."""
        container = self.containers.pop(contract.contract_id, None)
        if container is not None:
            container.end()

    def halt(self, contract: Tenant) -> None:
        """The market stopped it: no processes, the disk is kept."""
        container = self.containers.get(contract.contract_id)
        if container is not None:
            container.halt()

    def resume(self, contract: Tenant) -> None:
        """Undoes :meth:`halt`."""
        container = self.containers.get(contract.contract_id)
        if container is not None:
            container.resume()

    @property
    def online(self) -> bool:
        """Has the market contact with it? GPU time is not billed otherwise."""
        return not self.now.offline

    def show(self, container: Container) -> None:
        """Tells the market the container's state, as far as the market can know it."""
        if self.containers.get(container.contract_id) is not container:
            return
        if self.now.offline:
            return
        container.contract.set_status(container.status, container.status_msg)

    # ------------------------------------------------------------ conditions

    def switch(self, on: Active | None = None, off: Active | None = None) -> None:
        """Switches a fault on or off: settles everything, then takes in the new conditions."""
        self.settle()
        if on is not None:
            self.active.append(on)
        if off is not None and off in self.active:
            self.active.remove(off)
        self.take_in()

    def take_in(self) -> None:
        """Folds the active faults anew and tells everything on the box. Settle before anything changed."""
        before, self.now = self.now, conditions_of(self.spec, self.active)
        now = self.world.now_ns()
        if before.frozen != self.now.frozen:
            self._freeze(self.now.frozen)
        if before.offline != self.now.offline:
            self._contact(now)
        self._set_potential(now)
        for container in list(self.containers.values()):
            container.refresh()
            self.judge_fit(container)
        self.world.changed()

    def settle(self) -> None:
        """Brings everything on it, and the world's truth about it, up to now."""
        now = self.world.now_ns()
        for container in self.containers.values():
            container.settle(now)
        if self._still_since is not None:
            self._bake(self._still_since, now)

    def look(self) -> None:
        """Something in the world changed: does work still reach the provers here?"""
        for container in self.containers.values():
            daemon = container.prover.daemon
            if daemon is not None and daemon.mode == "work" and daemon.fed != container.work_flows():
                container.prover.settle(self.world.now_ns())
                container.prover.refresh()

    def clear(self, by: str) -> None:
        """A restart of the prover or of the container ends the faults that it cures."""
        cured = [a for a in self.active if a.fault.params.get("cleared_by") in _CLEARS[by]
                 or (by == "container_restart" and a.fault.kind == "host.gpu_xid")]
        for one in cured:
            self.active.remove(one)
            self.world.faults.ended(one.fault, self.spec.id)
        if cured:
            self.settle()
            self.take_in()

    def _freeze(self, on: bool) -> None:
        """The whole box stands still, its processes and its monotonic clock with it; wall time goes on."""
        for contract_id in self.containers:
            process = self.world.agents.get(contract_id)
            if process is not None:
                if on:
                    process.suspend()
                else:
                    process.resume()
        if on:
            self.box.freeze()
        else:
            self.box.thaw()

    def _contact(self, now: int) -> None:
        """The market loses or finds contact: "unknown", then "offline", then what is."""
        self._offline_turn += 1
        turn = self._offline_turn
        for container in list(self.containers.values()):
            if self.now.offline:
                container.truth.host_offline.open(now)
                container.contract.set_status("unknown", container.status_msg)
            else:
                container.truth.host_offline.close(now)
                self.show(container)
        if self.now.offline:
            unknown_s = max((float(a.fault.params.get("unknown_s", 120)) for a in self.active
                             if a.fault.kind == "host.offline"), default=120.0)
            event = self.world.env.timeout(int(unknown_s * NS))
            assert event.callbacks is not None
            event.callbacks.append(lambda _: self._offline(turn))

    def _offline(self, turn: int) -> None:
        if turn == self._offline_turn and self.now.offline:
            for container in self.containers.values():
                container.contract.set_status("offline", container.status_msg)

    # ------------------------------------------------------------ what it can do

    def speed(self, p: int) -> float:
        """Nominal seconds of proving a second at size ``p``, as things stand. 1 undisturbed, 0 at a standstill."""
        own, c = self.profile.hardware, self.now
        if own.gpus <= 0:
            return 0.0
        hardware = 1.0 if c.hardware == own else model_rate(c.hardware, p) / model_rate(own, p)
        return hardware * c.throttle * c.gpu_speed

    def _rate(self, c: Conditions) -> float:
        """Proofs per busy hour at the best size that fits under conditions ``c`` (a standstill is not in it)."""
        if not self.spec.works or c.failing or (c.nvml and not c.nvml_running_ok):
            return 0.0
        rate = self.profile.best(c.limit_gib, c.hardware) * c.throttle * (c.gpu_speed or 1.0)
        if c.invalid is not None:
            seconds = c.invalid.params.get("s_per_proof")
            rate = (3600.0 / float(seconds) if seconds else rate) * (1.0 - float(c.invalid.params["invalid_share"]))
        return rate

    def _set_potential(self, now: int) -> None:
        self._raw.set(now, self._rate(self.now))
        still = self.now.halted or self.now.gpu_speed == 0.0
        if still and self._still_since is None:
            self._still_since = now
        elif not still and self._still_since is not None:
            self._bake(self._still_since, now)
            self._still_since = None
        if self._still_since is None:
            self.potential.set(now, self._raw.values[-1])

    def _bake(self, start: int, end: int) -> None:
        """Writes the potential from ``start`` on anew: a standstill until ``end`` (or still on) as far as it counts."""
        self._left_out = [s for s in self._left_out if s[0] != start]
        used = sum(max(0, b - max(a, start - FREEZE_PER)) for a, b in self._left_out)
        length = end - start
        out = 0 if length < FREEZE_COUNTS_BELOW else min(length, max(0, FREEZE_LEFT_OUT - used))
        if out:
            self._left_out.append((start, start + out))
        steps, raw = self.potential, self._raw
        while len(steps.times) > 1 and steps.times[-1] >= start:
            steps.times.pop()
            steps.values.pop()
        if out:
            steps.set(start, raw.at(start))
            for at, value in zip(raw.times, raw.values, strict=True):
                if start < at < start + out:
                    steps.set(at, value)
        if out < length:
            steps.set(start + out, 0.0)
        steps.set(end, raw.at(end) if not (self.now.halted or self.now.gpu_speed == 0.0) else 0.0)

    # ------------------------------------------------------------ is it what was offered

    def judge_fit(self, container: Container) -> None:
        """Notes why no size here can reach the rental's min_rate; once found it stays (the kill is right)."""
        truth = container.truth
        if truth.unfit or truth.running is None:
            return
        explicit = next((d.min_rate for d in self.world.scenario.deploy if d.machine == self.spec.id), None)
        floor = self.world.scenario.min_rate_for(truth.price_usd_per_hour, explicit)
        lasting = conditions_of(self.spec, [a for a in self.active if duration_s(a.fault) is None])
        cause = self._misfit(lasting)
        if cause == "disk_full" or (cause and self._rate(lasting) < floor):
            truth.unfit = cause

    def _misfit(self, c: Conditions) -> str:
        """What about the box differs from its offer; "" when nothing does."""
        spec = self.spec
        if not c.cards:
            return "no_gpu"
        if len(c.cards) < spec.gpus:
            return "gpu_missing"
        if any(card.name != spec.gpu for card in c.cards):
            return "gpu_other"
        if c.limit_gib < 0.9 * spec.ram_gib:
            return "ram_below_offer"
        if c.hardware.pcie_gb_per_s < spec.pcie_gb_per_s:
            return "pcie_slow"
        if c.foreign_load > 0:
            return "ghost_gpu"
        if c.disk_free_gb is not None and c.disk_free_gb < NEEDED_GB:
            return "disk_full"
        return ""


def settle_all(world: World) -> None:
    """Brings the truth about every machine up to now: before anybody reads it, and at the end of a run."""
    for host in world.hosts.values():
        host.settle()
