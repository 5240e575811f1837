"""The simulated prover: rates, memory, the ways to die, and that looking changes nothing."""

from __future__ import annotations

import itertools

import pytest
from boxes import MINUTE, Box, fault

from proverfleet.domain.sizing import Sizing
from proverfleet.errors import ProverError
from sim.faults.prover_faults import prover_faults
from sim.model import rate_at
from sim.truth import NS

M1475 = {"gpu": "RTX PRO 4000", "ram_gib": 504.0, "cpu_factor": 1.3, "contention": 0.06, "gpu_s_per_partition": 5.0,
         "rate_proofs_per_hour": 54.8}
M1121 = {"gpu": "RTX 3090", "gpus": 2, "ram_gib": 256.0, "cpu_factor": 2.0, "rate_proofs_per_hour": 34.0}


def rate_of(box: Box) -> float:
    done = box.status().completions
    return (len(done) - 1) * 3600 * NS / (done[-1].mono_ns - done[0].mono_ns)


def test_a_batch_runs_at_the_rate_of_its_size() -> None:
    box = Box(rate_proofs_per_hour=60.0, noise=0.04)
    box.ready()
    box.loaded(13)
    box.batch()
    box.run(20 * MINUTE)
    status = box.status()
    assert status.done and not status.running
    assert (status.proofs_accepted, status.proofs_failed, status.partitions) == (12, 0, 120)
    assert status.p == 13
    assert rate_of(box) == pytest.approx(rate_at(box.spec, 13), rel=0.02)
    assert len(box.truth.proofs) == 12
    assert not box.truth.accepted, "a batch is nobody's task"
    assert not box.truth.progress.on and not box.truth.busy.on
    assert box.truth.busy.spans[-1][1] == box.truth.proofs[-1]
    assert status.busy_s == pytest.approx((box.truth.busy.total(0, box.world.now_ns())) / NS)


def test_looking_does_not_change_what_happens() -> None:
    def run(step: float) -> tuple[list[int], float, tuple[object, ...]]:
        box = Box(rate_proofs_per_hour=60.0, noise=0.04)
        box.ready()
        box.loaded(13)
        box.do(box.container.prover.work())
        end = box.now_s + 3 * 3600
        while box.now_s < end:
            box.run(min(step, end - box.now_s))
            box.status()
        return box.truth.accepted, box.status().rss_gib, box.status().completions

    often, rarely = run(7.0), run(3 * 3600.0)
    assert len(often[0]) == len(rarely[0])
    assert all(abs(a - b) <= 1000 for a, b in zip(often[0], rarely[0], strict=True))  # rounding to ns, once a look
    assert often[1] == pytest.approx(rarely[1])


def test_settle_completes_the_truth_although_nobody_looked() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    box.run(2 * 3600)
    assert not box.truth.accepted
    box.host.settle()
    assert len(box.truth.accepted) == pytest.approx(119, abs=2)
    assert box.work.delivered[-1] == (box.truth.accepted[-1], True)
    box.host.settle()
    assert len(box.truth.accepted) == len(box.work.delivered)


def test_m1475_dies_late_in_the_batch_and_lasts_at_9() -> None:
    box = Box(**M1475, first_sizing={"partition_workers": 16, "concurrency": 3})
    box.ready()
    box.loaded(2)
    box.do(box.container.prover.warm_up())
    box.run(15 * MINUTE)
    assert box.status().done and box.status().p == 2
    assert box.do(box.container.prover.has_pce_cache())
    box.start(13)
    box.batch()
    assert box.status().p == 16, "the first attempt uses the machine's first_sizing, and says so"
    began = box.now_s
    box.run(20 * MINUTE)
    status = box.status()
    assert not status.alive and not status.running
    assert (status.exit.code, status.exit.signal, status.exit.oom_kill) == (137, 9, True)
    assert box.truth.exits[0].at / NS - began == pytest.approx(620, rel=0.2)
    assert (box.truth.exits[0].kind, box.truth.exits[0].fault) == ("oom", None)
    assert not box.truth.progress.on and not box.truth.busy.on
    box.start(9)
    assert box.status().p == 9 and box.status().exit is None
    box.batch()
    box.run(30 * MINUTE)
    assert box.status().done
    assert rate_of(box) > 50
    box.do(box.container.prover.work())
    box.run(2 * 3600)
    assert box.status().alive
    assert box.truth.attempts == 2


def test_m1121_dies_on_the_first_fill_and_passes_at_6() -> None:
    box = Box(**M1121, warm_up_s=429.0, first_sizing={"partition_workers": 10, "concurrency": 3})
    box.ready()
    box.start(2)
    began = box.now_s
    box.do(box.container.prover.warm_up())
    box.run(428)
    assert box.status().running
    box.run(began + 430 - box.now_s)
    assert box.status().done
    box.start(5)
    box.batch()
    box.run(5 * MINUTE)
    status = box.status()
    assert status.exit.oom_kill and status.proofs_accepted == 0
    box.start(6)
    box.batch()
    box.run(40 * MINUTE)
    assert rate_of(box) >= 31


def test_memory_creeps_after_the_batch_and_kills_a_size_without_reserve() -> None:
    box = Box(ram_gib=420.0, cpu_factor=1.3, contention=0.06, gpu_s_per_partition=3.75)
    box.ready()
    box.loaded(16)  # peak 412 GiB; the creep passes 420
    box.do(box.container.prover.work())
    box.run(2 * 3600)
    assert box.status().exit.oom_kill
    assert len(box.truth.accepted) >= 12


def test_below_the_memory_of_the_srs_the_load_is_killed() -> None:
    box = Box(ram_gib=48.0)
    box.ready()
    box.start(1)
    box.run(60)
    assert box.status().exit.oom_kill
    assert box.truth.potential.at(0) == 0.0


@pytest.mark.parametrize(("kind", "params", "code", "how"), [
    ("prover.oom", {}, 137, "oom"), ("prover.oom", {"where": "gpu"}, 134, "oom"),
    ("prover.crash", {"exit_code": 2, "text": "boom"}, 2, "crash"),
])
def test_struck_down(kind: str, params: dict[str, object], code: int, how: str) -> None:
    box = Box()
    box.ready()
    strike = prover_faults(box.world)[kind]
    assert strike(fault(kind, 3, **params), 1) is False, "nothing runs: it did not fire"
    box.loaded(9)
    box.batch()
    box.run(100)
    assert strike(fault(kind, 3, **params), 1) is None
    status = box.status()
    assert (status.alive, status.exit.code) == (False, code)
    assert (box.truth.exits[0].kind, box.truth.exits[0].fault) == (how, 3)
    assert status.exit.oom_kill is (kind == "prover.oom" and not params)
    assert status.exit.gpu_oom is bool(params.get("where"))


def test_bench_error_leaves_the_daemon_alive() -> None:
    box = Box()
    box.ready()
    box.loaded(9)
    box.batch()
    box.run(400)
    assert prover_faults(box.world)["prover.bench_error"](fault("prover.bench_error", text="no result"), 1) is None
    status = box.status()
    assert status.alive and not status.running and not status.done
    assert (status.bench_exit.code, status.bench_exit.log_tail) == (1, "no result")
    assert box.truth.exits[0].kind == "bench_error"
    box.batch()
    box.run(30 * MINUTE)
    assert box.status().done and box.status().bench_exit is None


def test_a_hang_ends_with_the_daemon_that_hung() -> None:
    box = Box(rate_proofs_per_hour=60.0, faults=(fault("prover.hang"),))
    box.ready()
    assert box.status().alive is False
    box.start(9)
    box.batch()
    box.run(11 * MINUTE)
    status = box.status()
    assert status.alive and status.running and status.srs_bytes == 0 and not box.truth.progress.on
    box.do(box.container.prover.stop())
    assert box.world.faults.active("prover.hang") is None
    box.loaded(9)
    box.batch()
    box.run(5 * MINUTE)
    assert box.status().proofs_accepted > 0


def test_a_freeze_goes_on_where_it_was() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.batch()
    box.run(5 * MINUTE)
    before = box.status()
    undo = box.switch(fault("prover.freeze"))
    box.run(22 * MINUTE)
    frozen = box.status()
    assert frozen.alive and frozen.partitions == before.partitions and frozen.rss_gib == pytest.approx(before.rss_gib)
    undo()
    box.run(10 * MINUTE)
    assert box.status().done
    assert box.truth.progress.total(0, box.world.now_ns()) < box.truth.busy.total(0, box.world.now_ns())


def test_a_throttle_and_a_neighbour_slow_proofs_and_potential() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    undo = box.switch(fault("host.throttle", factor=0.5))
    box.run(3600)
    assert box.host.potential.at(box.world.now_ns()) == pytest.approx(30.0)
    assert box.status().proofs_accepted == pytest.approx(30, abs=2)
    undo()
    box.switch(fault("host.neighbour", cpu_share=0.3))
    assert 40 < box.host.potential.at(box.world.now_ns()) < 60


def test_sick_cards_fail_every_proof() -> None:
    box = Box()
    box.ready()
    box.switch(fault("host.gpu_xid"))
    box.loaded(9)
    box.batch()
    box.run(2 * MINUTE)
    status = box.status()
    assert status.done and (status.proofs_accepted, status.proofs_failed) == (0, 12)
    assert len(box.truth.invalid) == 12 and not box.truth.proofs
    box.host.containers[5].restart(20 * NS)
    box.run(60)
    box.loaded(9)
    box.batch()
    box.run(30 * MINUTE)
    assert box.status().proofs_accepted == 12, "cleared by the container's restart"


def test_without_a_card_every_proof_fails() -> None:
    box = Box(gpu_actual=[])
    box.ready()
    box.loaded(9)
    box.do(box.container.prover.warm_up())
    box.run(MINUTE)
    assert box.status().done and box.status().proofs_failed == 1
    assert not box.do(box.container.prover.has_pce_cache())
    assert box.truth.unfit == "no_gpu"


def test_a_lost_card_kills_the_daemon() -> None:
    box = Box(gpus=2)
    box.ready()
    box.loaded(9)
    box.batch()
    before = box.host.potential.at(box.world.now_ns())
    box.switch(fault("host.gpu_lost"))
    assert box.status().exit.code == 1
    assert box.truth.exits[0].kind == "gpu"
    assert len(box.host.now.cards) == 1
    assert box.host.potential.at(box.world.now_ns()) <= before


def test_wrong_proofs_by_who_sees_them() -> None:
    for seen in (True, False):
        box = Box(rate_proofs_per_hour=60.0)
        box.ready()
        box.loaded(13)
        box.switch(fault("prover.invalid_proofs", invalid_share=0.5, seen_by_prover=seen))
        box.do(box.container.prover.work())
        box.run(3600)
        status = box.status()
        assert box.host.potential.at(box.world.now_ns()) == pytest.approx(30.0)
        assert (status.proofs_failed > 0) is seen
        assert len(box.truth.invalid) > 10
        assert len(box.truth.rejected) == (0 if seen else len(box.truth.invalid))
        assert len(box.truth.accepted) == len(box.truth.proofs)


def test_a_machine_that_does_not_work_kills_every_daemon() -> None:
    box = Box(works=False)
    box.ready()
    box.loaded(2)
    box.do(box.container.prover.warm_up())
    box.run(MINUTE)
    assert box.status().exit.log_tail == "No CUDA devices available"
    assert (box.truth.exits[0].kind, box.truth.exits[0].fault) == ("gpu", None)


def test_bad_caches_kill_the_next_daemon_once() -> None:
    box = Box()
    box.ready()
    box.loaded(2)
    box.do(box.container.prover.warm_up())
    box.run(10 * MINUTE)
    apply = prover_faults(box.world)["prover.cache_corrupt"]
    assert apply(fault("prover.cache_corrupt", 4), 1) is None
    box.loaded(9)
    box.batch()
    box.run(MINUTE)
    assert "PCE" in box.status().exit.log_tail
    assert not box.do(box.container.prover.has_pce_cache())
    assert apply(fault("prover.cache_corrupt", 5, what="srs"), 1) is None
    box.start(2)
    assert "SRS" in box.status().exit.log_tail
    assert not box.container.params.ready


def test_starved_work_finishes_what_is_in_flight() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    box.run(30 * MINUTE)
    box.work.waiting = False
    box.world.changed()
    box.run(30 * MINUTE)
    status = box.status()
    assert status.running and status.starved_s == pytest.approx(28 * MINUTE, abs=2 * MINUTE)
    assert not box.truth.work_available.on and not box.truth.busy.on and not box.truth.progress.on
    n = status.proofs_accepted
    box.work.waiting = True
    box.world.changed()
    box.run(10 * MINUTE)
    assert box.status().proofs_accepted > n + 5
    assert box.truth.work_available.on


def test_drain_finishes_what_is_in_flight() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    box.run(10 * MINUTE)
    n = box.status().proofs_accepted
    box.do(box.container.prover.drain())
    assert box.status().running
    box.run(2 * box.truth.proof_s)
    status = box.status()
    assert status.done and not status.running and status.proofs_accepted == n + 2
    assert not box.truth.in_flight.on
    box.host.stop(box.contract)
    assert box.truth.lost_proofs == 0


def test_ending_a_working_container_loses_its_proofs() -> None:
    box = Box()
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    box.run(10 * MINUTE)
    box.host.stop(box.contract)
    assert box.truth.lost_proofs == 2
    assert box.stopped == ["destroyed"]
    assert not box.truth.progress.on


def test_a_slow_srs_and_a_slow_disk() -> None:
    box = Box(disk_mb_per_s=60.0)
    box.ready()
    box.start(2)
    box.run(700)
    status = box.status()
    assert 0 < status.srs_bytes < 44 << 30 and box.truth.progress.on
    box.run(200)
    assert box.status().srs_bytes == 44 << 30
    assert not box.truth.progress.on, "loaded, and nothing to do"
    box.switch(fault("prover.slow_srs", load_s=180))
    box.start(2)
    box.run(170)
    assert box.status().srs_bytes < 44 << 30
    box.run(11)
    assert box.status().srs_bytes == 44 << 30


def test_no_daemon_no_orders() -> None:
    box = Box()
    box.rent()
    with pytest.raises(ProverError, match="not running"):
        box.do(box.container.prover.start(Sizing(2, 2)))
    with pytest.raises(ProverError, match="no daemon"):
        box.batch()


def test_completions_stand_on_the_machines_own_clock() -> None:
    box = Box(rate_proofs_per_hour=60.0)
    box.ready()
    box.loaded(13)
    box.do(box.container.prover.work())
    box.run(20 * MINUTE)
    undo = box.switch(fault("host.suspend"))
    box.run(10 * MINUTE)
    undo()
    box.run(20 * MINUTE)
    done = box.status().completions
    gaps = [b.mono_ns - a.mono_ns for a, b in itertools.pairwise(done)]
    assert max(gaps) < 70 * NS, "the box's clock stood still as well"
    true = [b - a for a, b in zip(box.truth.accepted, box.truth.accepted[1:], strict=False)]
    assert max(true) > 600 * NS
