"""silent: every channel dark, a fresh probe included."""

from __future__ import annotations

import pytest

from proverfleet.domain.events import End
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import silent
from tests.builders import fleet, probed, rental


def check(r, **fields):
    f = fleet(r, **fields)
    pending = pending_for(f)
    return silent.check(f, r, pending), pending


@pytest.mark.parametrize(("stage", "limit_s"), [("loading", 2850), ("setup", 1950), ("active", 1950)])
def test_ends_at_the_limit_and_not_before(stage, limit_s):
    r = probed(rental(1, stage, still_s=limit_s, silent_s=limit_s, heard_s=limit_s), "unreachable")
    said, _ = check(r)
    assert isinstance(said, End)
    assert (said.verdict, said.blame) == ("silent", "nobody")
    r = probed(rental(1, stage, still_s=limit_s, silent_s=limit_s - 1, heard_s=limit_s), "unreachable")
    assert check(r)[0] is None


@pytest.mark.parametrize("outcome", ["unreachable", "no_agent", "wrong_peer"])
def test_who_answers_for_somebody_else_is_no_answer(outcome):
    assert isinstance(check(probed(rental(1, silent_s=2000, heard_s=2000), outcome))[0], End)


def test_never_without_a_fresh_probe_and_asks_for_one():
    r = rental(1, silent_s=2000, heard_s=2000)
    said, pending = check(r)
    assert said is None
    assert list(pending.probes) == list(pending.logs) == list(pending.contracts) == [r.contract_id]
    assert check(probed(r, "unreachable", beats_ago=4))[0] is None
    assert check(probed(r, "answers"))[0] is None


def test_never_while_one_channel_moves():
    said, pending = check(probed(rental(1, silent_s=100, heard_s=4000), "unreachable"))
    assert said is None and not pending.probes


def test_never_right_after_the_controller_was_away():
    r = probed(rental(1, silent_s=2000, heard_s=2000), "unreachable")
    r.caught_up = False
    assert check(r, gap_heard_ns=fleet().heard_ns)[0] is None
