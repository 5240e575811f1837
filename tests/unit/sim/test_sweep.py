"""A sweep: one child a seed, what they send back added up, and what the sweep itself must show."""

from __future__ import annotations

import os
from typing import Any

import pytest

from sim.sweep import FULL_SEEDS, Sweep, sweep


def fine(seed: int, **more: Any) -> dict[str, Any]:
    return {
        "seed": seed, "failures": [], "simulated_s": 3600.0, "cpu_s": 0.1, "rentals": 2,
        "reached": {"loading": 2, "setup": 2, "benchmark": 2, "active": 1}, "live": "ok", "kills": {"slow": 1},
        "wrong": 0, "nearness": [0.5], "faults": {"tunnel.down": 1}, "marks": {"active": 1}, "at_stake": {"INV-1": 1},
        **more,
    }


def test_every_seed_runs_once_in_a_process_of_its_own() -> None:
    seen: list[int] = []
    found = sweep(range(1, 8), 3, lambda seed: fine(seed, nearness=[os.getpid() / 1e9]), lambda s: seen.append(s.seeds))
    assert (found.seeds, found.rentals, found.right_kills, found.kills) == (7, 14, 7, {"slow": 7})
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert len(dict.fromkeys(found.nearness)) == 7 and os.getpid() / 1e9 not in found.nearness
    assert found.problems(swarm=True) == []


def test_a_child_that_breaks_or_dies_is_a_failure_of_its_seed() -> None:
    def one(seed: int) -> dict[str, Any]:
        if seed == 2:
            raise ValueError("no such thing")
        if seed == 3:
            os.kill(os.getpid(), 9)
        return fine(seed)

    found = sweep(range(1, 5), 2, one, lambda s: None)
    assert [(f.invariant, f.seed) for f in found.failures] == [("error", 2), ("error", 3)]
    assert found.failures[0].text.startswith("ValueError: no such thing (test_sweep.py:")
    assert found.failures[1].text == "its process was ended by signal 9"
    assert found.seeds == 4 and found.rentals == 4


def test_failures_come_grouped_by_invariant() -> None:
    found = sweep(range(3), 2, lambda s: fine(s, failures=[["INV-2", "b"], ["INV-1", "a"]]), lambda s: None)
    assert [(f.invariant, f.seed) for f in found.failures] == [
        ("INV-1", 0), ("INV-1", 1), ("INV-1", 2), ("INV-2", 0), ("INV-2", 1), ("INV-2", 2)]


def test_interrupting_it_ends_the_children() -> None:
    def stop(so_far: Sweep) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(range(50), 2, fine, stop)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def added(count: int, **more: Any) -> Sweep:
    found = Sweep()
    for seed in range(count):
        found.add(fine(seed, **more))
    return found


@pytest.mark.parametrize(("count", "more", "says"), [
    (10, {"reached": {"active": 0}}, "only 0% of the worlds"),
    (10, {"kills": {}}, "no right kill"),
    (10, {"kills": {"slow": 1}, "wrong": 1}, "no right kill"),
    (FULL_SEEDS, {"faults": {"tunnel.flap": 0}}, "never fired: tunnel.flap"),
    (FULL_SEEDS, {"at_stake": {"INV-6": 0}}, "never at stake: INV-6"),
])
def test_what_a_sweep_must_show(count: int, more: dict[str, Any], says: str) -> None:
    found = added(count, **more)
    assert any(says in problem for problem in found.problems(swarm=True))
    assert found.problems(swarm=False) == []


def test_quantiles_of_the_survivors() -> None:
    found = Sweep(nearness=[i / 100 for i in range(100)])
    assert found.quantiles() == {"0.5": 0.5, "0.9": 0.9, "0.99": 0.99, "1": 0.99}
    assert Sweep().quantiles()["0.5"] is None
