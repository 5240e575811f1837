"""never_started: runs, no hello, and a probe finds no agent."""

from __future__ import annotations

import pytest

from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import never_started
from tests.builders import ago, fleet, probed, rental


def check(r, **fields):
    f = fleet(r, **fields)
    pending = pending_for(f)
    return never_started.check(f, r, pending), pending


def runs(age_s, outcome="no_agent", **fields):
    return probed(rental(1, "loading", running_listed_ns=ago(age_s), **fields), outcome)


def test_ends_at_the_limit_and_not_before():
    said, _ = check(runs(1050))
    assert (said.verdict, said.cause, said.blame) == ("never_started", "no_agent", "machine")
    assert check(runs(1049))[0] is None


@pytest.mark.parametrize("outcome", ["answers", "unreachable", "wrong_peer"])
def test_never_without_a_probe_that_shows_no_agent(outcome):
    assert check(runs(5000, outcome))[0] is None


def test_never_after_a_registration_even_a_refused_one():
    assert check(runs(5000, hello_refused=True))[0] is None
    assert check(probed(rental(1, "setup", running_listed_ns=0), "no_agent"))[0] is None


def test_asks_for_probe_and_log_in_time():
    assert list(check(runs(450))[1].probes) == [1]
    assert not check(runs(449))[1].probes
