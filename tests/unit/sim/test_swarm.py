"""The swarm's worlds: data, whole, and varied as contracts.md section 2 asks."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from proverfleet.domain.policy import Policy
from sim.model import best_rate
from sim.scenario import parse
from sim.scenario_toml import to_toml
from sim.spec import MachineSpec, Scenario
from sim.swarm import SPARE_GOOD, draw

SEEDS = range(200)


@pytest.fixture(scope="module")
def worlds() -> list[Scenario]:
    return [draw(seed) for seed in SEEDS]


def factors(world: Scenario) -> list[float]:
    """True rate over min_rate of each machine that is what its offer says."""
    return [best_rate(m) / world.min_rate_for(m.price_usd_per_hour, None) for m in honest(world)]


def honest(world: Scenario) -> list[MachineSpec]:
    return [m for m in world.machines if m.gpu_actual is None and m.cgroup_gib is None]


def test_the_same_seed_is_the_same_world() -> None:
    assert draw(7) == draw(7) != draw(8)


def test_a_world_comes_back_from_its_file(worlds: list[Scenario]) -> None:
    for world in worlds[:50]:
        assert parse(to_toml(world), "") == world


def test_every_world_is_long_and_big_enough(worlds: list[Scenario]) -> None:
    for world in worlds:
        assert world.hours >= 6
        assert 3 <= world.target <= 30
        assert len(world.machines) > world.target
        Policy.of(world.policy)
        assert [f.index for f in world.faults] == list(range(len(world.faults)))


def test_true_rates(worlds: list[Scenario]) -> None:
    every = [f for world in worlds for f in factors(world)]
    assert min(every) > 0.45 and max(every) < 2.1  # prices are rounded to $0.001, min_rate to whole proofs
    near = sum(0.85 <= f <= 1.15 for f in every) / len(every)
    assert 0.3 < near < 0.37
    assert sum(f < 0.85 for f in every) / len(every) > 0.08


def test_the_median_world_has_three_families_of_faults_on(worlds: list[Scenario]) -> None:
    on = [len({f.kind.split(".")[0] for f in world.faults}) for world in worlds]
    assert statistics.median(on) >= 3
    assert min(on) <= 1


def test_worlds_can_recover(worlds: list[Scenario]) -> None:
    """Enough whole machines well above min_rate are left when the faults are off."""
    for world in worlds:
        good = sum(f >= 1.15 and m.gpu_frac == 1 for f, m in zip(factors(world), honest(world), strict=True))
        assert good >= world.target + SPARE_GOOD


def test_shared_machines_exist(worlds: list[Scenario]) -> None:
    shared = sum(any(m.gpu_frac < 1 for m in world.machines) for world in worlds)
    assert shared > len(worlds) / 2


def test_faults_cluster(worlds: list[Scenario]) -> None:
    """Outages, not per-packet dice: with three or more timed faults, two often fall into the same half hour."""
    timed = [sorted(f.at_s for f in w.faults if not f.mark) for w in worlds]
    many = [t for t in timed if len(t) >= 3]
    close = sum(any(b - a < 1800 for a, b in pairwise(t)) for t in many)
    assert close > len(many) / 2
