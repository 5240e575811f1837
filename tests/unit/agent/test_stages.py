"""The way of an agent from hello to active, and what it does when something ends on the way."""

from __future__ import annotations

import pytest
from agent_box import KILLED, READINGS, box, stages

from proverfleet.domain.sizing import concurrency_for, partitions_for
from proverfleet.ports import Exit, Readings


def test_the_way_to_active() -> None:
    b = box()
    b.run_to("active")
    b.run(60)
    assert stages(b.controller.reports) == ["hello", "tunnel", "params", "sizing", "warmup", "batch", "active"]
    p = partitions_for(504.0)
    c = concurrency_for(p)
    assert b.prover.calls == [
        ("start", 2, concurrency_for(2)), "warm_up", "stop", ("start", p, c), ("batch", 12, c), "work",
    ]
    last = b.controller.last
    assert last.bench == (12, 0, pytest.approx(720.0))
    assert last.bench_rate_proofs_per_hour == pytest.approx(60.0)
    assert (last.p, last.concurrency, last.attempt, last.waiting, last.exit) == (p, c, 0, "", None)


def test_arrival_facts_are_read_before_the_fetch_begins() -> None:
    b = box()
    b.run_to("params")
    params = next(r for r in b.controller.reports if r.stage == "params")
    assert params.facts_read and params.pcie_gb_per_s == 23.0 and params.down_mbps == 930.0
    assert params.bytes_received == 0
    assert not any(r.facts_read for r in b.controller.reports if r.stage in ("hello", "tunnel"))


def test_with_a_cache_there_is_no_small_warm_up() -> None:
    b = box()
    b.prover.cache = True
    b.run_to("active")
    assert "warm_up" not in b.prover.calls
    assert [c for c in b.prover.calls if c[0] == "start"] == [("start", 13, 3)]


def test_one_partition_needs_no_second_daemon() -> None:
    b = box()
    b.sensors.readings = READINGS.__class__(READINGS.gpus, 120.0, 10.0, 900.0, None, None)
    b.run_to("active")
    assert [c for c in b.prover.calls if c[0] == "start"] == [("start", 1, 2)]
    numbers = [n for n, _ in b.controller.completions()]
    assert numbers[0] == 2, "the warm-up's proof belongs to no rate"


@pytest.mark.parametrize(
    ("limit", "ram", "p"), [(None, None, 1), (None, 256.0, 5), (float("inf"), 256.0, 5), (128.0, 504.0, 1)]
)
def test_the_size_comes_from_the_limit_else_from_the_offer_else_is_one(
    limit: float | None, ram: float | None, p: int
) -> None:
    b = box(ram_gib=ram)
    b.sensors.readings = Readings(None, limit, None, None, None, None)
    b.prover.cache = True
    b.run_to("batch")
    assert b.controller.last.p == p


def test_the_first_sizing_is_used_once() -> None:
    b = box(first_sizing=(16, 3))
    b.prover.cache = True
    b.run_to("batch")
    assert ("start", 16, 3) in b.prover.calls
    b.prover.die()
    b.run_until(lambda: b.controller.last.waiting == "retry")
    b.controller.order("r1", "retry", p=9, concurrency=2)
    b.run_to("active")
    assert ("start", 9, 2) in b.prover.calls


def test_an_end_is_reported_as_what_it_was_and_waits_for_the_controller() -> None:
    b = box()
    b.run_to("batch")
    b.run(100)
    b.prover.die()
    b.run(60)
    last = b.controller.last
    assert (last.stage, last.waiting) == ("batch", "retry")
    assert last.exit is not None and (last.exit.what, last.exit.code, last.exit.oom_kill) == ("prover", 137, True)
    assert last.bench is None and last.bench_rate_proofs_per_hour is None
    starts = len(b.prover.calls)
    b.run(3600)
    assert len(b.prover.calls) == starts, "nothing is tried without the controller"


def test_retry_starts_a_new_attempt_smaller_and_is_acknowledged_once() -> None:
    b = box()
    b.run_to("batch")
    b.prover.die()
    b.run_until(lambda: b.controller.last.waiting == "retry")
    b.controller.order("retry.0.x", "retry", p=7, concurrency=2)
    b.run_to("active")
    last = b.controller.last
    assert (last.attempt, last.p, last.concurrency, last.exit, last.waiting) == (1, 7, 2, None, "")
    assert b.prover.calls.count(("start", 7, 2)) == 1
    assert sum("retry.0.x" in r.acks for r in b.controller.reports) == 1
    assert last.restarts_prover == 1


def test_a_benchmark_that_errs_is_an_exit_never_a_rate() -> None:
    b = box()
    b.run_to("batch")
    b.prover.bench_exit = Exit(1, None, False, False, "benchmark.sh exited with error")
    b.run_until(lambda: b.controller.last.waiting == "retry")
    last = b.controller.last
    assert last.exit is not None and last.exit.what == "bench" and last.exit.code == 1
    assert last.bench_rate_proofs_per_hour is None and last.bench is None


def test_a_batch_without_one_good_proof_waits_as_an_exit_of_the_bench() -> None:
    b = box()
    b.prover.cache = True
    b.prover.fails = True
    b.run_until(lambda: bool(b.controller.reports) and b.controller.last.waiting == "retry")
    last = b.controller.last
    assert last.exit is not None and last.exit.what == "bench"
    assert last.proofs_failed == 12 and last.fails_in_a_row == 12 and last.bench is None


def test_a_daemon_that_cannot_be_started_is_an_exit() -> None:
    b = box()
    b.prover.refuses = True
    b.run_until(lambda: bool(b.controller.reports) and b.controller.last.waiting == "retry")
    exit_ = b.controller.last.exit
    assert exit_ is not None and exit_.what == "prover" and "exec failed" in exit_.log_tail


def test_an_end_in_active_is_retried_in_active() -> None:
    b = box()
    b.run_to("active")
    b.prover.die(KILLED)
    b.run_until(lambda: b.controller.last.waiting == "retry")
    assert b.controller.last.stage == "active"
    b.controller.order("r", "retry", p=7)
    b.run_until(lambda: b.controller.last.attempt == 1)
    b.run(120)
    assert b.controller.last.stage == "active" and b.controller.last.waiting == ""
    assert b.prover.calls[-2:] == [("start", 7, 2), "work"]


def test_restart_in_place_keeps_the_attempt_and_begins_the_batch_anew() -> None:
    b = box()
    b.run_to("batch")
    b.prover.hung = True
    b.run(700)
    b.controller.order("s", "restart_prover")
    b.run_to("active")
    last = b.controller.last
    assert (last.attempt, last.restarts_prover) == (0, 1)
    assert [c for c in b.prover.calls if c[0] == "batch"] == [("batch", 12, 3), ("batch", 12, 3)]
    assert last.bench == (12, 0, pytest.approx(720.0))


def test_resize_in_active_finishes_what_is_in_flight_first() -> None:
    b = box()
    b.run_to("active")
    b.controller.order("z", "resize", p=15)
    b.run_until(lambda: b.controller.last.p == 15)
    assert b.prover.calls[-4:] == ["drain", "stop", ("start", 15, 3), "work"]


def test_drain_ends_in_stopped_with_nothing_in_flight() -> None:
    b = box()
    b.run_to("active")
    b.run(100)
    before = b.controller.last.proofs_accepted
    b.controller.order("d", "drain")
    b.run_to("stopped")
    assert stages(b.controller.reports)[-3:] == ["active", "draining", "stopped"]
    assert b.controller.last.proofs_accepted >= before + 1
    assert not b.prover.alive
    assert any("d" in r.acks for r in b.controller.reports)
    b.run(300)
    assert b.controller.last.stage == "stopped"


def test_drain_of_a_benchmark_stops_at_once() -> None:
    b = box()
    b.run_to("batch")
    b.controller.order("d", "drain")
    b.run_until(lambda: b.controller.last.stage == "stopped", 120.0)


def test_over_stops_the_prover_and_nothing_starts_it_again() -> None:
    b = box()
    b.run_to("active")
    b.controller.over = True
    b.run(120)
    assert not b.prover.alive and b.controller.last.stage == "stopped"
    b.controller.over = False
    b.controller.order("r", "retry", p=5)
    b.run(600)
    assert not b.prover.alive
    b.restart()
    b.run(600)
    assert not b.prover.alive and b.controller.last.stage == "stopped"


def test_a_fetch_that_fails_is_begun_again_and_its_error_is_told() -> None:
    b = box()
    b.run_to("params")
    b.run(120)
    b.params.error = "No space left on device"
    b.run(300)
    assert b.controller.last.params_error == "No space left on device"
    assert b.params.fetches > 5
    b.params.error = None
    b.run_to("active")


def test_bytes_of_a_failed_file_do_not_lower_the_count() -> None:
    b = box()
    b.run_to("params")
    b.run(300)
    high = b.controller.last.bytes_received
    b.params.lost = 57 << 30
    b.run(120)
    assert b.controller.last.bytes_received == high
    received = [r.bytes_received for r in b.controller.reports]
    assert received == sorted(received)


def test_unknown_orders_are_acknowledged_and_ignored() -> None:
    b = box()
    b.run_to("active")
    b.controller.order("u", "dance")
    b.run(120)
    assert b.controller.orders == [] and b.controller.last.stage == "active"
