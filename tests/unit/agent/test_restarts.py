"""Restarts of agent and container, outages of the controller, and what must not be lost or counted twice in them."""

from __future__ import annotations

import json
from itertools import pairwise

from agent_box import KILLED, Box, box, stages

from proverfleet.domain.report import Report
from sim.loop import NS

CUMULATIVE = (
    "bytes_received", "bytes_hashed", "srs_bytes", "partitions", "proofs_accepted", "proofs_failed", "busy_s",
    "starved_s", "restarts_agent", "restarts_prover", "restarts_container", "seq",
)


def assert_nothing_falls(reports: list[Report]) -> None:
    for before, after in pairwise(reports):
        for name in CUMULATIVE:
            assert getattr(after, name) >= getattr(before, name), (name, before.seq, after.seq)


def starts(b: Box) -> int:
    return sum(call[0] == "start" for call in b.prover.calls)


def test_a_living_daemon_is_adopted_after_a_restart_of_the_agent() -> None:
    b = box()
    b.run_to("active")
    b.run(600)
    began, boot = starts(b), b.controller.last.boot
    b.restart()
    b.run(600)
    assert starts(b) == began
    last = b.controller.last
    assert last.boot != boot and last.stage == "active"
    assert (last.restarts_agent, last.restarts_container, last.restarts_prover) == (1, 0, 0)
    assert last.bench is not None and last.bench[:2] == (12, 0)
    assert_nothing_falls(b.controller.reports)


def test_a_batch_goes_on_through_a_restart_of_the_agent() -> None:
    b = box()
    b.run_to("batch")
    b.run(300)
    b.restart()
    b.run_to("active")
    assert sum(c[0] == "batch" for c in b.prover.calls) == 1
    assert b.controller.last.bench == (12, 0, 720.0)


def test_a_restarted_container_resumes_at_its_batch_and_fetches_nothing_again() -> None:
    b = box()
    b.run_to("batch")
    b.run(300)
    fetches = b.params.fetches
    b.prover.vanish()
    b.restart()
    b.run_to("active")
    last = b.controller.last
    assert (last.restarts_container, last.restarts_agent, last.restarts_prover, last.attempt) == (1, 0, 0, 0)
    assert b.params.fetches == fetches
    assert last.bench == (12, 0, 720.0)
    assert_nothing_falls(b.controller.reports)
    numbers = [n for n, _ in b.controller.completions()]
    assert len(numbers) == len(set(numbers))


def test_a_restarted_container_starts_proving_again_by_itself() -> None:
    b = box()
    b.run_to("active")
    b.run(600)
    proofs = b.controller.last.proofs_accepted
    b.prover.vanish()
    b.restart()
    b.run(600)
    last = b.controller.last
    assert last.stage == "active" and last.waiting == ""
    assert last.proofs_accepted >= proofs + 8
    assert_nothing_falls(b.controller.reports)


def test_the_id_of_a_start_tells_container_from_agent() -> None:
    b = box()
    b.restart("start-1")
    b.run_to("params")
    b.restart("start-1")
    b.run(60)
    assert (b.controller.last.restarts_agent, b.controller.last.restarts_container) == (1, 0)
    b.restart("start-2")
    b.run(60)
    assert (b.controller.last.restarts_agent, b.controller.last.restarts_container) == (1, 1)


def test_a_daemon_that_died_while_the_agent_was_away_is_an_exit() -> None:
    b = box()
    b.run_to("active")
    b.prover.die(KILLED)
    b.restart()
    b.run(60)
    last = b.controller.last
    assert last.waiting == "retry" and last.exit is not None and last.exit.code == 137
    b.restart()
    b.run(60)
    assert b.controller.last.waiting == "retry"
    b.controller.order("r", "retry", p=7)
    b.run(120)
    assert b.controller.last.attempt == 1 and b.prover.alive


def test_an_order_is_done_once_though_it_is_sent_again_after_a_restart() -> None:
    b = box()
    b.run_to("active")
    b.controller.lose_answers = 0
    b.controller.order("s", "restart_prover")
    b.run_until(lambda: b.controller.last.restarts_prover == 1)
    began = starts(b)
    b.controller.order("s", "restart_prover")
    b.restart()
    b.run(300)
    assert starts(b) == began
    assert b.controller.orders == [], "acknowledged again"


def test_the_memory_survives_being_written_as_json() -> None:
    b = box()
    b.run_to("batch")
    b.prover.die()
    b.run_until(lambda: b.controller.last.waiting == "retry")
    b.state.data = json.loads(json.dumps(b.state.data))
    b.restart()
    b.run(60)
    last = b.controller.last
    assert last.stage == "batch" and last.exit is not None and last.exit.oom_kill and last.restarts_agent == 1


def test_an_unreadable_or_foreign_memory_starts_over() -> None:
    for data in ({"layout": 1, "rental": "another"}, {"layout": 1, "rental": "intent1", "base": 3}, {"nonsense": True}):
        b = box()
        b.state.data = data
        b.restart()
        b.run_to("batch")
        assert b.controller.last.restarts_agent == 0


def test_a_full_disk_stops_nothing() -> None:
    b = box()
    b.run_to("params")
    b.state.full = True
    b.run_to("active")


def test_a_reboot_begins_another_clock_and_no_lease_runs_out_for_it() -> None:
    b = box()
    b.run_to("active")
    clock_id = b.controller.last.clock_id
    b.clock.booted_ns = b.loop.now_ns - 10 * NS
    b.prover.vanish()
    b.restart()
    b.run(300)
    assert b.controller.last.clock_id != clock_id
    b.restart()
    b.run(300)
    assert b.controller.last.clock_id == [r.clock_id for r in b.controller.reports][-8]
    assert b.key.destroys == 0


def test_an_outage_loses_no_completion_and_sends_oldest_first() -> None:
    b = box()
    b.run_to("active")
    b.run(600)
    b.controller.down = True
    heard = len(b.controller.reports)
    b.run(2400)
    b.controller.down = False
    b.run(120)
    late = b.controller.reports[heard:]
    assert [r.seq for r in late] == sorted(r.seq for r in late)
    assert late[0].backlog > 70 and late[-1].backlog == 0
    numbers = [n for n, _ in b.controller.completions()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[-1] == late[-1].proofs_accepted
    assert_nothing_falls(b.controller.reports)


def test_a_very_long_outage_is_bounded_and_still_loses_no_completion() -> None:
    b = box(lease_idle_s=1e6)
    b.run_to("active")
    b.controller.down = True
    heard = len(b.controller.reports)
    b.run(5 * 3600)
    b.controller.down = False
    b.run(300)
    late = b.controller.reports[heard:]
    assert len(late) <= 252
    assert max(len(r.last_completions) for r in late) <= 200
    numbers = [n for n, _ in b.controller.completions()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_an_answer_that_was_lost_costs_nothing() -> None:
    b = box()
    b.run_to("active")
    b.controller.lose_answers = 3
    b.run(900)
    numbers = [n for n, _ in b.controller.completions()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert_nothing_falls(b.controller.reports)


def test_tries_back_off_and_come_back_within_half_a_minute() -> None:
    b = box()
    b.run_to("active")
    b.controller.down = True
    tries, ensured = b.controller.tries, b.tunnel.ensured
    b.run(1200)
    assert 40 < b.controller.tries - tries < 100
    assert b.tunnel.ensured > ensured
    b.controller.down = False
    heard = len(b.controller.reports)
    b.run(31)
    assert len(b.controller.reports) > heard


def test_the_whole_set_up_needs_no_controller() -> None:
    b = box()
    b.controller.down = True
    b.run(1680)
    assert any(c[0] == "batch" for c in b.prover.calls)
    b.controller.down = False
    b.run(120)
    assert stages(b.controller.reports)[:5] == ["hello", "tunnel", "params", "sizing", "warmup"]


def test_hung_sensors_hold_nothing_up_and_condemn_nobody() -> None:
    b = box(ram_gib=256.0)
    b.sensors.hangs = True
    b.run_to("active")
    last = b.controller.last
    assert last.facts_read and last.gpus is None and last.limit_gib is None and last.pcie_gb_per_s is None
    b.sensors.hangs = False
    b.run(300)
    assert b.controller.last.gpus is not None, "a reading that never came back is given up"


def test_old_readings_are_not_passed_off_as_new() -> None:
    b = box()
    b.run_to("active")
    b.sensors.hangs = True
    b.run(300)
    assert b.controller.last.gpus is None and b.controller.last.disk_free_gb is None


def test_a_missing_rpc_port_is_told_and_repaired() -> None:
    b = box()
    b.run_to("active")
    b.tunnel.rpc = False
    ensured = b.tunnel.ensured
    b.run(120)
    assert b.controller.last.rpc_ok is False and b.tunnel.ensured > ensured
    b.controller.order("t", "repair_tunnel")
    b.run(90)
    assert b.controller.orders == []
    b.tunnel.rpc = True
    b.run(90)
    assert b.controller.last.rpc_ok is True
