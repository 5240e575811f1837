"""The two field cases: the old manager loses the machines, ours does not; and the details that make each case."""

from __future__ import annotations

import pytest

from sim.pytest_plugin import RunScenario

SEEDS = range(0, 50, 10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", ["m1121", "m1475"])
def test_ours_keeps_the_good_machines(run_scenario: RunScenario, case: str, seed: int) -> None:
    done = run_scenario(case, seed)
    assert done.json["verdict"] == "ok", (done.json["violations"], done.json["failed_checks"], done.again)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", ["m1121", "m1475", "m1121-age"])
def test_the_old_manager_loses_them(run_scenario: RunScenario, case: str, seed: int) -> None:
    done = run_scenario(case, seed, legacy=True)
    assert done.json["verdict"] == "violated"
    assert "INV-1" in [v["invariant"] for v in done.json["violations"]], done.again


def test_m1121_reasons_are_the_recorded_ones(run_scenario: RunScenario) -> None:
    reasons = [r["reason"] for r in run_scenario("m1121", legacy=True).json["rentals"]]
    assert reasons[0] == "bench_rate 0.0 below min_rate 50.0"
    assert reasons[1].startswith("bench_rate 41.") and reasons[1].endswith(" below min_rate 50.0")
    assert reasons[2] == "bench_rate 0.0 below min_rate 50.0"


def test_m1475_reason_is_the_recorded_one(run_scenario: RunScenario) -> None:
    (rental,) = run_scenario("m1475", 1475, legacy=True).json["rentals"]
    assert rental["reason"] == "bench_rate 0.0 below min_rate 29.0"


def test_m1475_dies_of_memory_after_about_620_s_and_passes_at_p_9(run_scenario: RunScenario) -> None:
    done = run_scenario("m1475", 1475)
    (contract,) = done.run.truth.contracts.values()
    (death,) = contract.exits
    assert death.kind == "oom" and death.fault is None, "the memory model kills it, nothing is injected"
    assert 620 * 0.8 <= (death.at - contract.marks["batch"][0]) / 1e9 <= 620 * 1.2
    (rental,) = done.json["rentals"]
    assert rental["attempts"] == 2
    fleet = done.run.fleet
    assert fleet is not None
    last = next(iter(fleet.rentals.values())).last
    assert last is not None and last.p == 9


def test_m1475_dies_again_at_the_same_size(run_scenario: RunScenario) -> None:
    """With no retry allowed to be smaller than what killed it, the same size must die again."""
    from dataclasses import replace

    from proverfleet.controller.brain import DefaultBrain
    from proverfleet.domain.events import Directed, Plan
    from proverfleet.domain.fleet import Fleet
    from sim.wiring import Parts

    class SameSize(DefaultBrain):
        def decide(self, fleet: Fleet) -> Plan:
            plan = super().decide(fleet)
            return replace(plan, decisions=tuple(
                replace(d, args={**d.args, "p": 16, "concurrency": 3}) if isinstance(d, Directed) and d.what == "retry"
                else d for d in plan.decisions))

    done = run_scenario("m1475", 1475, parts=Parts(brain=SameSize), liveness=False)
    (contract,) = [c for c in done.run.truth.contracts.values() if c.machine_id == 42011][:1]
    assert [e.kind for e in contract.exits] == ["oom", "oom", "oom"]
    assert done.json["rentals"][0]["verdict"] == "out_of_memory"
    assert done.json["blacklist"] == []


def test_a_good_machine_ends_with_a_post_mortem_when_it_cannot_prove(run_scenario: RunScenario) -> None:
    done = run_scenario("m1121")
    fleet = done.run.fleet
    assert fleet is not None
    dead = next(r for r in fleet.rentals.values() if r.machine_id == 32712)
    assert dead.verdict == "crashed" and dead.post_mortem
