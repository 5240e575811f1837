"""The fault engine: times, marks, scopes, durations, repeats, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sim.faults.engine import ANY
from sim.loop import NS
from sim.spec import FaultSpec, MachineSpec, Scenario
from sim.world import World


def world_of(*faults: FaultSpec, machines: tuple[int, ...] = (1, 2)) -> World:
    for index, fault in enumerate(faults):
        fault.index = index
    world = World(Scenario("a test", machines=[MachineSpec(m, 7) for m in machines], faults=list(faults)), 1)
    world.loop.at(10**6 * NS, lambda: None)
    return world


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    worlds: list[World] = []
    made = World.__init__

    def noted(self: World, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        worlds.append(self)

    monkeypatch.setattr(World, "__init__", noted)
    yield worlds
    for world in worlds:
        world.close()


def log_of(world: World, kind: str, undoes: bool = True) -> list[tuple[str, int | None, float]]:
    seen: list[tuple[str, int | None, float]] = []

    def apply(spec: FaultSpec, machine_id: int | None) -> Any:
        seen.append(("on", machine_id, world.now_ns() / NS))
        return (lambda: seen.append(("off", machine_id, world.now_ns() / NS))) if undoes else None

    world.faults.register(kind, apply)
    return seen


def test_an_absolute_fault_hits_its_machines_and_is_undone() -> None:
    world = world_of(FaultSpec("host.slow_disk", at_s=10, for_s=5, machines=[2]), FaultSpec("host.reboot", at_s=20))
    seen, boots = log_of(world, "host.slow_disk"), log_of(world, "host.reboot", undoes=False)
    world.faults.start()
    world.loop.run_until(12 * NS)
    assert world.faults.active("host.slow_disk", 2) and not world.faults.active("host.slow_disk", 1)
    world.loop.run_until(30 * NS)
    assert seen == [("on", 2, 10.0), ("off", 2, 15.0)]
    assert boots == [("on", 1, 20.0), ("on", 2, 20.0)]
    assert [(f.kind, f.machine_id, f.start, f.end, f.blame) for f in world.truth.fired][:1] == [
        ("host.slow_disk", 2, 10 * NS, 15 * NS, "machine")]


def test_a_mark_starts_it_on_that_machine_the_first_times_only() -> None:
    world = world_of(FaultSpec("prover.hang", mark="batch", at_s=120, for_s=60, times=2, machines=None))
    seen = log_of(world, "prover.hang")
    world.faults.start()
    for at, machine in ((10, 1), (500, 1), (900, 1), (950, 2)):
        world.loop.at(at * NS, lambda m=machine: world.mark("batch", None, m))
    world.loop.run_until(5000 * NS)
    assert [(m, t) for what, m, t in seen if what == "on"] == [(1, 130.0), (1, 620.0), (2, 1070.0)]


def test_every_repeats_from_start_to_start() -> None:
    world = world_of(FaultSpec("tunnel.down", at_s=100, for_s=10, every_s=60, machines=[1]))
    seen = log_of(world, "tunnel.down")
    world.faults.start()
    world.loop.run_until(230 * NS)
    assert [t for what, _, t in seen if what == "on"] == [100.0, 160.0, 220.0]


def test_a_fault_on_calls_is_asked_for_counted_and_used_up() -> None:
    world = world_of(FaultSpec("market.error", at_s=10, for_s=100, times=2, machines=[1]))
    faults = world.faults
    faults.start()
    world.loop.run_until(5 * NS)
    assert faults.active("market.error") is None
    world.loop.run_until(20 * NS)
    assert faults.active("market.error", 2) is None and faults.active("market.error", None) is None
    assert faults.active("market.error", ANY) is faults.active("market.error", 1) is not None
    assert world.truth.fired == []
    for _ in range(2):
        spec = faults.active("market.error", 1)
        assert spec is not None
        faults.consume(spec, 1)
        world.loop.run_until(world.now_ns() + 7 * NS)
    assert faults.active("market.error", 1) is None
    [fired] = world.truth.fired
    assert (fired.start, fired.end, faults.counts["market.error"]) == (20 * NS, 27 * NS, 2)


def test_the_default_duration_is_the_kinds_own() -> None:
    world = world_of(FaultSpec("market.error"))
    world.faults.start()
    assert world.faults.active("market.error")
    world.loop.run_until(299 * NS)
    assert world.faults.active("market.error")
    world.loop.run_until(301 * NS)
    assert world.faults.active("market.error") is None


def test_what_takes_effect_later_fires_then_and_what_has_none_does_not() -> None:
    world = world_of(FaultSpec("controller.crash", at_s=1, params={"point": "create.replied"}),
                     FaultSpec("agent.crash", at_s=1))
    world.faults.register("controller.crash", lambda spec, machine_id: False)
    world.faults.register("agent.crash", lambda spec, machine_id: False)
    world.faults.start()
    world.loop.run_until(10 * NS)
    assert world.truth.fired == []
    undone: list[int] = []
    world.faults.fire(world.scenario.faults[0], None, lambda: undone.append(world.now_ns()))
    world.loop.run_until(100 * NS)
    [fired] = world.truth.fired
    assert (fired.start, fired.end, undone) == (10 * NS, 30 * NS, [30 * NS])


def test_the_liveness_phase_keeps_only_the_machines_nature() -> None:
    world = world_of(
        FaultSpec("host.slow_disk", machines=[1], always=True), FaultSpec("host.slow_disk", machines=[2]),
        FaultSpec("market.error", for_s=9999), FaultSpec("host.reboot", at_s=500),
        FaultSpec("host.reboot", mark="batch"),
    )
    seen, boots = log_of(world, "host.slow_disk"), log_of(world, "host.reboot", undoes=False)
    world.faults.start()
    world.loop.run_until(100 * NS)
    assert world.faults.stop_all() == 100 * NS
    assert seen == [("on", 1, 0.0), ("on", 2, 0.0), ("off", 2, 100.0)]
    world.mark("batch", None, 1)
    world.loop.run_until(1000 * NS)
    assert boots == [] and world.faults.active("market.error") is None


def test_leaving_one_fault_out_moves_no_dice() -> None:
    with_it, without = world_of(FaultSpec("market.error")), world_of()
    assert with_it.streams.get("host:1").random() == without.streams.get("host:1").random()
