"""Faults of the box: host.* and what the image and its registry do to it, systemic.*.

In scope: each kind of reference/faults.md under these two families, with its parameters; they hold whether or not the
box is rented, so that a machine's own nature is there before it is. Out of scope: what the market does when a host is
away (sim/market.py reads the status that the host shows), tunnels through a box that is cut off (they ask
``Container.reachable``). An offline box that is not ``alive`` stands still and goes on where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sim.conditions import Active
from sim.faults.catalogue import duration_s
from sim.prover import NO_DEVICE, exit_of
from sim.truth import NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.faults.engine import Apply, Undo
    from sim.host import Host
    from sim.spec import FaultSpec
    from sim.world import World

RAMP_STEPS = 5
CONDITIONS = (
    "host.offline", "host.suspend", "host.slow_disk", "host.disk_full", "host.slow_network", "host.ram_below_offer",
    "host.neighbour", "host.gpu_xid", "host.gpu_missing", "host.pcie_degraded",
    "prover.hang", "prover.freeze", "prover.stuck_gpu", "prover.invalid_proofs", "prover.slow_srs",
    "systemic.image_broken", "systemic.registry_down",
)
"""Kinds that are nothing but a condition of the machine while they last (prover.'s are switched here as well)."""


def hosts_of(world: World, machine_id: int | None) -> list[Host]:
    """The machine's host, or all of them."""
    if machine_id is None:
        return list(world.hosts.values())
    host = world.hosts.get(machine_id)
    return [host] if host is not None else []


def host_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def condition(fault: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        pairs = [(host, Active(fault)) for host in hosts_of(world, machine_id)]
        for host, one in pairs:
            host.switch(on=one)
        if not pairs:
            return False

        def undo() -> None:
            for host, one in pairs:
                host.switch(off=one)

        return undo

    table: dict[str, Apply] = dict.fromkeys(CONDITIONS, condition)
    table["host.reboot"] = lambda f, m: _each(world, m, lambda host: _reboot(host, f))
    table["host.container_restart"] = lambda f, m: _container_restart(world, f, m)
    table["host.clock_skew"] = lambda f, m: _each(world, m, lambda host: _skew(host, f))
    table["host.clock_step"] = lambda f, m: _each(world, m, lambda host: host.box.step(round(f.params["by_s"] * NS)))
    table["host.throttle"] = lambda f, m: _each(world, m, lambda host: _throttle(host, f))
    table["host.gpu_lost"] = lambda f, m: _each(world, m, lambda host: _with_kill(host, f, "CUDA error: GPU is lost"))
    table["host.nvml_lost"] = lambda f, m: _each(world, m, lambda host: _nvml_lost(host, f))
    return table


def _each(world: World, machine_id: int | None, one: Callable[[Host], Undo]) -> Undo | Literal[False]:
    """Applies to each host in scope; the undo undoes all of them."""
    hosts = hosts_of(world, machine_id)
    if not hosts:
        return False
    undos = [undo for undo in map(one, hosts) if undo is not None]
    if not undos:
        return None

    def undo_all() -> None:
        for undo in undos:
            undo()

    return undo_all


def _reboot(host: Host, fault: FaultSpec) -> Undo:
    """Everything on the box dies; after ``for`` it is back with its disks and a new monotonic clock."""
    one = Active(fault)
    down_s = duration_s(fault)
    host.settle()
    for container in list(host.containers.values()):
        container.restart(round((1e9 if down_s is None else down_s) * NS) + NS, how="reboot", status="rebooting")
    host.switch(on=one)

    def back() -> None:
        host.switch(off=one)
        host.box.reboot()

    return back


def _container_restart(world: World, fault: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
    down_ns = round((duration_s(fault) or 0.0) * NS)
    hit = False
    for host in hosts_of(world, machine_id):
        for container in list(host.containers.values()):
            if container.up:
                hit = True
                container.restart(down_ns, keeps_disk=bool(fault.params["keeps_disk"]),
                                  new_ports=bool(fault.params["new_ports"]))
    return None if hit else False


def _skew(host: Host, fault: FaultSpec) -> Undo:
    by = round(float(fault.params["by_s"]) * NS)
    host.box.skew(by, float(fault.params["drift_ppm"]))
    return lambda: host.box.skew(-by, 0.0)


def _throttle(host: Host, fault: FaultSpec) -> Undo:
    """Full at once, or in steps over ``ramp_s``."""
    ramp_s = float(fault.params.get("ramp_s") or 0.0)
    one = Active(fault, 1.0 if ramp_s <= 0 else 1.0 / RAMP_STEPS)
    host.switch(on=one)

    def step(level: float) -> None:
        if any(a is one for a in host.active):
            host.settle()
            one.level = level
            host.take_in()

    if ramp_s > 0:
        now = host.world.now_ns()
        for k in range(2, RAMP_STEPS + 1):
            at = now + round(ramp_s * (k - 1) / (RAMP_STEPS - 1) * NS)
            host.world.loop.at(at, lambda level=k / RAMP_STEPS: step(level))  # type: ignore[misc]
    return lambda: host.switch(off=one)


def _with_kill(host: Host, fault: FaultSpec, text: str) -> Undo:
    """A condition that ends the daemon that is running when it begins."""
    one = Active(fault)
    before = host.now.cards
    host.switch(on=one)
    if fault.kind != "host.gpu_lost" or host.now.cards != before:
        for container in list(host.containers.values()):
            container.prover.kill(exit_of(1, text), "gpu", fault.index)
    return lambda: host.switch(off=one)


def _nvml_lost(host: Host, fault: FaultSpec) -> Undo:
    if not fault.params.get("running_ok", True):
        return _with_kill(host, fault, NO_DEVICE)
    one = Active(fault)
    host.switch(on=one)
    return lambda: host.switch(off=one)
