"""Drawn worlds: machines with a hidden truth and a fault schedule, all as data. Every invariant must hold in each."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from scenarios.worlds import worlds
from sim.pytest_plugin import outcome, report
from sim.spec import Scenario

settings.register_profile("ci", max_examples=25, deadline=None, derandomize=True,
                          phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("nightly", parent=settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@given(world=worlds())
def test_all_invariants_hold_in_any_world(world: Scenario, request: pytest.FixtureRequest) -> None:
    done = outcome(world, 1)
    if done.json["violations"]:
        text = report(done, request.config.rootpath)
        note(text)
        raise AssertionError(text)
