"""The simulated host: pull, start, restart, loss of contact, readings, and the truth about what it could do."""

from __future__ import annotations

import itertools

import pytest
from boxes import MINUTE, Box, fault

from sim.faults.catalogue import FAMILIES
from sim.faults.host_faults import host_faults
from sim.faults.params_faults import params_faults
from sim.faults.prover_faults import prover_faults
from sim.spec import FaultSpec
from sim.truth import NS


def texts(box: Box) -> list[str | None]:
    return [msg for _, actual, msg in box.contract.shown if actual == "loading"]


def test_the_pull_shows_its_layers_and_then_runs() -> None:
    box = Box(image_pull_s=300.0)
    box.rent()
    assert box.contract.shown[0][1] == "created"
    box.run(299)
    assert not box.container.up and box.truth.progress.on
    assert len(set(texts(box))) == 12
    assert "layer 12 of 12" in str(texts(box)[-1])
    box.run(10)
    assert box.contract.status == "running"
    assert box.truth.running == 305 * NS and box.started == [305.0]
    assert box.truth.marks["running"] == [305 * NS]
    assert not box.truth.progress.on


def test_a_slow_network_stretches_the_pull_and_the_text_still_moves() -> None:
    box = Box(image_pull_s=300.0)
    box.switch(fault("host.slow_network", down_mbps=25))
    box.rent()
    box.run(3600)
    assert not box.container.up
    times = [t for t, actual, _ in box.contract.shown if actual == "loading"]
    assert max(b - a for a, b in itertools.pairwise(times)) <= 61 * NS
    assert len(set(texts(box))) == len(texts(box))


def test_the_registry_is_down_and_back() -> None:
    box = Box()
    box.rent()
    box.run(100)
    undo = box.world.faults._apply["systemic.registry_down"](fault("systemic.registry_down"), None)
    n = len(box.contract.shown)
    box.run(3600)
    assert len(box.contract.shown) == n and not box.truth.progress.on
    undo()
    box.run(206)
    assert box.container.up


@pytest.mark.parametrize(("how", "status"), [("not_found", "loading"), ("agent_exits", "exited")])
def test_a_broken_image(how: str, status: str) -> None:
    box = Box()
    box.switch(fault("systemic.image_broken", how=how))
    box.rent()
    box.run(10 * MINUTE)
    assert box.contract.status == status
    assert box.truth.broken.on and not box.started and not box.truth.progress.on


def test_an_image_that_runs_out_of_gpu_memory_takes_every_daemon_with_it() -> None:
    box = Box()
    undo = box.switch(fault("systemic.image_broken", how="gpu_oom"))
    box.ready()
    undo()
    box.loaded(9)
    box.batch()
    box.run(MINUTE)
    assert box.status().exit.gpu_oom


def test_the_container_restarts_with_its_disk() -> None:
    box = Box()
    box.ready()
    box.container.disk["boot"] = 1
    box.loaded(9)
    box.batch()
    assert box.switch(fault("host.container_restart", for_s=20)) is None
    assert box.contract.status == "exited" and box.stopped == ["restart"] and box.truth.broken.on
    assert not box.status().alive and box.status().exit is None
    box.run(21)
    assert box.contract.status == "running" and len(box.started) == 2
    assert box.container.disk == {"boot": 1} and box.container.params.ready
    assert box.truth.restarts_container == 1
    assert box.truth.marks["running"] == [box.truth.running]
    box.switch(fault("host.container_restart", keeps_disk=False))
    assert box.container.disk == {} and not box.container.params.ready


def test_a_reboot_starts_the_monotonic_clock_anew() -> None:
    box = Box()
    box.ready()
    before = box.host.box.monotonic_ns()
    undo = box.switch(fault("host.reboot", for_s=180.0))
    assert box.stopped == ["reboot"] and not box.container.reachable
    box.run(180)
    undo()
    box.run(60)
    assert box.container.up and box.container.reachable
    assert box.host.box.monotonic_ns() < before


def test_the_market_loses_contact_while_the_work_goes_on() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    undo = box.switch(fault("host.offline", alive=True))
    assert box.contract.status == "unknown" and not box.host.online
    box.run(130)
    assert box.contract.status == "offline" and box.container.reachable
    box.run(70 * MINUTE)
    undo()
    assert box.contract.status == "running" and box.host.online
    assert box.truth.host_offline.total(0, box.world.now_ns()) == pytest.approx(70 * MINUTE * NS, rel=0.05)
    box.host.settle()
    assert len(box.truth.accepted) > 60


def test_a_dead_host_stands_still() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    box.run(10 * MINUTE)
    undo = box.switch(fault("host.offline"))
    mono = box.host.box.monotonic_ns()
    n = len(box.truth.accepted)
    assert not box.container.reachable and not box.truth.progress.on
    box.run(3600)
    assert box.host.box.monotonic_ns() == mono
    undo()
    box.run(MINUTE)
    box.host.settle()
    assert n <= len(box.truth.accepted) <= n + 2


def test_the_market_halts_and_resumes() -> None:
    box = Box()
    box.ready()
    box.host.halt(box.contract)
    assert box.stopped == ["halted"] and not box.container.up
    box.run(3600)
    box.host.resume(box.contract)
    box.run(10)
    assert box.container.up and box.container.params.ready
    box.host.stop(box.contract)
    assert box.container.state == "gone" and not box.host.containers


def test_halted_in_the_pull_goes_on_with_the_pull() -> None:
    box = Box(image_pull_s=300.0)
    box.rent()
    box.run(150)
    box.host.halt(box.contract)
    box.run(1000)
    box.host.resume(box.contract)
    box.run(100)
    assert not box.container.up
    box.run(60)
    assert box.container.up


def test_clocks_of_the_box() -> None:
    box = Box()
    wall = box.host.box.wall_ns()
    undo = box.switch(fault("host.clock_skew"))
    assert box.host.box.wall_ns() == wall + 120 * NS
    undo()
    box.switch(fault("host.clock_step"))
    assert box.host.box.wall_ns() == wall + 3600 * NS


def test_readings() -> None:
    box = Box(gpus=2)
    box.ready()
    readings = box.do(box.container.sensors.read())
    assert [g.uuid for g in readings.gpus] == ["GPU-00000001-00", "GPU-00000001-01"]
    assert (readings.limit_gib, readings.down_mbps) == (504.0, None)
    began = box.now_s
    loaded = box.do(box.container.sensors.under_load())
    assert box.now_s - began == 30
    assert (loaded.down_mbps, loaded.pcie_gb_per_s_under_load) == (1000.0, 24.0)
    box.switch(fault("host.gpu_lost", gpu=0))
    assert [g.uuid for g in box.do(box.container.sensors.read()).gpus] == ["GPU-00000001-01"]


@pytest.mark.parametrize("how", ["error", "hang", "not_supported", "bytes", "garbage"])
def test_nvml_that_cannot_be_read_condemns_nothing_else(how: str) -> None:
    box = Box()
    box.ready()
    box.switch(fault("host.nvml_lost", how=how))
    began = box.now_s
    readings = box.do(box.container.sensors.read())
    assert readings.gpus is None or readings.gpus[0].util is None
    assert box.now_s - began <= 10
    assert readings.limit_gib == 504.0


def test_ram_below_the_offer_and_a_slow_link_are_unfit_where_they_matter() -> None:
    box = Box()
    box.switch(fault("host.ram_below_offer", cgroup_gib=100))
    box.ready()
    assert box.truth.unfit == "ram_below_offer"
    assert box.do(box.container.sensors.read()).limit_gib == 100
    box = Box(rate_proofs_per_hour=60.0)
    box.switch(fault("host.ram_below_offer"))
    box.ready()
    assert box.truth.unfit == "", "half of it is enough here"
    box = Box()
    box.switch(fault("host.pcie_degraded"))
    box.ready()
    assert box.truth.unfit == "pcie_slow"
    assert box.do(box.container.sensors.under_load()).pcie_gb_per_s_under_load == 0.25


def test_a_ramp_of_the_throttle() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    undo = box.switch(fault("host.throttle", factor=0.5, ramp_s=600))
    values = []
    for _ in range(6):
        values.append(box.host.potential.at(box.world.now_ns()))
        box.run(150)
    assert values[0] == pytest.approx(54.0) and values[-1] == pytest.approx(30.0)
    assert values == sorted(values, reverse=True)
    undo()
    assert box.host.potential.at(box.world.now_ns()) == pytest.approx(60.0)


def test_a_freeze_counts_for_the_potential_only_when_short_or_beyond_its_allowance() -> None:
    box = Box(rate_proofs_per_hour=60.0)

    def mean_over_freeze(seconds: float) -> float:
        undo = box.switch(fault("prover.freeze"))
        began = box.world.now_ns()
        box.run(seconds)
        undo()
        mean = box.host.potential.mean(began, box.world.now_ns())
        box.run(MINUTE)
        return mean

    assert mean_over_freeze(300) == pytest.approx(0.0)
    assert mean_over_freeze(1200) == pytest.approx(60.0)
    assert mean_over_freeze(1200) == pytest.approx(30.0), "10 of 20 min are left of the 30 in 6 h"
    assert box.host.potential.at(box.world.now_ns()) == pytest.approx(60.0)


def test_a_stuck_card_of_two_halves_the_pace() -> None:
    box = Box(gpus=2)
    own = box.host.potential.at(0)
    box.switch(fault("prover.stuck_gpu", gpu=0, how="lock"))
    assert box.host.potential.at(0) == pytest.approx(own / 2)
    assert box.host.speed(9) == pytest.approx(0.5)


def test_the_same_seed_gives_the_same_times() -> None:
    def run(seed: int) -> list[int]:
        box = Box(noise=0.04, seed=seed)
        box.ready()
        box.loaded(9)
        box.batch()
        box.run(30 * MINUTE)
        box.status()
        return box.truth.proofs

    assert run(4) == run(4) != run(5)


def test_every_kind_of_fault_of_a_machine_has_an_owner() -> None:
    box = Box()
    owned = {**host_faults(box.world), **prover_faults(box.world), **params_faults(box.world)}
    wanted = {k.name for family in ("host", "prover", "params", "systemic") for k in FAMILIES[family]}
    assert set(owned) == wanted


def test_the_engine_switches_faults_at_their_mark_and_records_them() -> None:
    box = Box(rate_proofs_per_hour=60.0, faults=(
        FaultSpec("prover.oom", mark="batch", at_s=200.0, machines=[1], params={"where": "host"}),
        FaultSpec("host.throttle", mark="running", at_s=60.0, for_s=120.0, index=1,
                  params={"factor": 0.5, "ramp_s": 0}),
    ))
    box.ready()
    box.run(90)
    assert box.host.now.throttle == 0.5
    box.loaded(9)
    box.batch()
    box.world.mark("batch", 5)
    box.run(201)
    assert box.host.now.throttle == 1.0
    assert box.status().exit.oom_kill
    assert [(f.kind, f.machine_id) for f in box.world.truth.fired] == [("host.throttle", 1), ("prover.oom", 1)]
    assert box.truth.exits[0].fault == 0
