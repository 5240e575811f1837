"""lost, lease: gone only by three listings, by id, over five minutes, with nobody speaking."""

from __future__ import annotations

import pytest

from proverfleet.domain.events import Alerted, End, Marked
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import lost
from tests.builders import ago, fleet, probed, rental


def check(r, **fields):
    f = fleet(r, **fields)
    pending = pending_for(f)
    return lost.check(f, r, pending), pending


def absent(*, listings=3, age_s=300.0, by_id=True, quiet_s=600.0, outcome="unreachable", **fields):
    return probed(rental(1, silent_s=quiet_s, heard_s=quiet_s, absent_listings=listings,
                         absent_since_listed_ns=ago(age_s), absent_by_id=by_id, **fields), outcome)


def test_ends_when_all_say_so():
    said, _ = check(absent())
    assert isinstance(said, End) and (said.rule, said.verdict, said.blame) == ("lost", "lost", "nobody")


@pytest.mark.parametrize("less", [
    {"listings": 2}, {"age_s": 299.0}, {"by_id": False}, {"quiet_s": 100.0}, {"outcome": "answers"},
])
def test_never_on_less(less):
    assert not isinstance(check(absent(**less))[0], End)


def test_never_on_an_untrusted_listing():
    assert check(absent(), list_ok=False)[0] is None


def test_asks_by_id_and_by_probe():
    _, pending = check(absent(listings=1, age_s=150.0))
    assert list(pending.contracts) == list(pending.probes) == [1]


def test_an_agent_that_reports_is_suspect_after_an_hour_and_no_more():
    said, _ = check(absent(age_s=3600.0, quiet_s=30.0))
    assert isinstance(said, Marked) and (said.name, said.on) == ("suspect", True)
    assert check(absent(age_s=3599.0, quiet_s=30.0))[0] is None
    said, _ = check(absent(age_s=9000.0, quiet_s=30.0, suspect=True))
    assert isinstance(said, Alerted) and said.machine_id == 42_001


def test_a_row_that_is_back_ends_the_suspicion():
    said, _ = check(rental(1, suspect=True))
    assert isinstance(said, Marked) and not said.on


def test_a_lease_that_ran_out_is_a_lease_and_blames_nobody():
    said, _ = check(absent(quiet_s=1800.0))
    assert (said.rule, said.verdict, said.blame) == ("lease", "lease", "nobody")
    assert check(absent(quiet_s=1799.0))[0].verdict == "lost"


def test_a_controller_that_was_away_makes_it_a_lease():
    said, _ = check(absent(quiet_s=600.0), gap_heard_ns=ago(600.0))
    assert said.verdict == "lease"
