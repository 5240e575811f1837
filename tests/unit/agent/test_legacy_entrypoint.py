"""The old entrypoint beside the agent, on the same machine: an error becomes a rate of 0, and is forgotten."""

from __future__ import annotations

import pytest
from agent_box import Box, box, stages

from proverfleet.ports import Exit
from sim.legacy import LegacyEntrypoint
from sim.legacy.entrypoint import size


def legacy(**settings: object) -> Box:
    return box(LegacyEntrypoint, **settings)


def test_the_way_to_active() -> None:
    b = legacy(ram_gib=256.0)
    b.run_to("active")
    assert b.prover.calls == [
        "stop", ("start", 2, 1), "warm_up", "stop", ("start", 8, 3), ("batch", 12, 3), "work",
    ]
    last = b.controller.last
    assert last.bench_rate_proofs_per_hour == pytest.approx(60.0)
    assert last.bench is not None and last.bench[0] == 12


@pytest.mark.parametrize("how", ["dies", "errs"])
def test_any_error_of_the_benchmark_is_a_rate_of_0_and_its_exit_is_not_kept(how: str) -> None:
    b = legacy()
    b.run_to("batch")
    b.run(100)
    if how == "dies":
        b.prover.die()
    else:
        b.prover.bench_exit = Exit(1, None, False, False, "benchmark.sh exited with error")
    b.run(60)
    last = b.controller.last
    assert (last.bench, last.bench_rate_proofs_per_hour) == ((0, 0, 0.0), 0.0)
    assert last.exit is None and last.waiting == ""
    b.run(3600)
    assert b.controller.last.bench_rate_proofs_per_hour == 0.0
    assert sum(call[0] == "start" for call in b.prover.calls) == 2, "nothing is tried again"


def test_a_restart_begins_from_the_beginning() -> None:
    b = legacy()
    b.run_to("active")
    b.restart()
    b.run(3600)
    again = [r for r in b.controller.reports if r.boot == b.controller.last.boot]
    assert stages(again)[0] == "hello" and "batch" in stages(again)


def test_it_does_not_hear_that_it_is_over() -> None:
    b = legacy()
    b.run_to("active")
    b.controller.over = True
    b.run(600)
    assert b.prover.alive and b.controller.last.stage == "active"


def test_nothing_watches_the_daemon_and_no_lease_runs_out() -> None:
    b = legacy()
    b.run_to("active")
    b.prover.die()
    b.controller.down = True
    b.run(4 * 3600)
    assert not b.prover.alive and b.key.destroys == 0


@pytest.mark.parametrize(
    ("ram", "gpus", "pinned", "expected"),
    [(504.0, 1, None, (16, 3)), (500.0, 1, None, (16, 3)), (256.0, 2, None, (8, 3)), (128.0, 1, None, (4, 1)),
     (504.0, 1, (16, 3), (16, 3)), (None, 1, None, (10, 1))],
)
def test_100_gb_for_the_rest_and_6_gb_a_worker_of_each_proof(
    ram: float | None, gpus: int, pinned: tuple[int, int] | None, expected: tuple[int, int]
) -> None:
    made = size(ram, gpus, pinned)
    assert (made.p, made.concurrency, made.daemon) == (*expected, "old")
