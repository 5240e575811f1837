from __future__ import annotations

import pytest

from proverfleet.domain import lifecycle
from proverfleet.domain.report import AGENT_STAGES


def test_nothing_goes_back_and_nothing_leaves_the_end() -> None:
    for before, after in lifecycle.TRANSITIONS.items():
        assert all(lifecycle.rank(a) > lifecycle.rank(before) for a in after)
    assert lifecycle.TRANSITIONS["destroying"] == ("gone",)
    assert lifecycle.TRANSITIONS["gone"] == ()


@pytest.mark.parametrize("stage", lifecycle.LIVE_STAGES)
def test_every_live_stage_may_be_destroyed(stage: str) -> None:
    assert lifecycle.may(stage, "destroying")
    assert not lifecycle.may("destroying", stage)


def test_every_stage_of_an_agent_but_stopped_has_its_place() -> None:
    assert set(lifecycle.OF_AGENT_STAGE) == set(AGENT_STAGES) - {"stopped"}
    assert set(lifecycle.OF_AGENT_STAGE.values()) <= set(lifecycle.LIVE_STAGES)


def test_the_diagram_draws_each_stage_and_each_way_out() -> None:
    text = lifecycle.diagram()
    assert text.startswith("stateDiagram-v2\n")
    for before, after in zip(lifecycle.STAGES, lifecycle.STAGES[1:], strict=False):
        assert f"    {before} --> {after}" in text
    assert text.count("--> destroying") == len(lifecycle.LIVE_STAGES)
