"""The lease ends an idle contract of a dead controller, and never one that finishes work."""

from __future__ import annotations

from agent_box import box


def test_an_idle_machine_of_a_dead_controller_ends_itself() -> None:
    b = box()
    b.run_to("active")
    b.prover.hung = True
    b.run(60)
    b.controller.down = True
    b.run(1740)
    assert b.key.destroys == 0
    b.run(120)
    assert b.key.destroys == 1


def test_it_is_repeated_until_it_works_and_after() -> None:
    b = box()
    b.key.fail_first = 3
    b.run_to("active")
    b.prover.hung = True
    b.controller.down = True
    b.run(1800 + 600)
    assert b.key.destroys > 3
    done = b.key.destroys
    b.restart()
    b.run(900)
    assert b.key.destroys > done, "still here: the contract still bills"


def test_work_that_is_finished_keeps_it_for_ever() -> None:
    b = box()
    b.run_to("active")
    b.controller.down = True
    b.run(6 * 3600)
    assert b.key.destroys == 0


def test_bytes_of_the_fetch_are_work() -> None:
    b = box()
    b.params.bytes_per_s /= 20
    b.run_to("params")
    b.controller.down = True
    b.run(2 * 3600)
    assert b.key.destroys == 0


def test_a_controller_that_answers_keeps_an_idle_one() -> None:
    b = box()
    b.run_to("active")
    b.prover.hung = True
    b.run(2 * 3600)
    assert b.key.destroys == 0


def test_waiting_for_a_retry_is_no_work() -> None:
    b = box()
    b.run_to("batch")
    b.prover.die()
    b.controller.down = True
    b.run(1800 + 120)
    assert b.key.destroys == 1


def test_the_hard_lease_overrides_work() -> None:
    b = box(lease_hard_s=3600.0)
    b.run_to("active")
    b.controller.down = True
    b.run(3500)
    assert b.key.destroys == 0
    b.run(200)
    assert b.key.destroys == 1


def test_a_rental_that_is_over_and_forgotten_ends_itself() -> None:
    b = box()
    b.run_to("active")
    b.controller.over = True
    b.run(120)
    b.controller.down = True
    b.run(1800 + 120)
    assert b.key.destroys == 1


def test_a_restart_of_the_agent_does_not_give_the_lease_anew() -> None:
    b = box()
    b.run_to("active")
    b.prover.hung = True
    b.run(60)
    b.controller.down = True
    b.run(1200)
    b.restart()
    b.run(700)
    assert b.key.destroys == 1
