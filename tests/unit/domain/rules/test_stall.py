"""stall: acts only on an agent that says that it stands still, after its prover was started again in place."""

from __future__ import annotations

import pytest

from proverfleet.domain.events import Directed, End
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import stall
from tests.builders import exited, fleet, probed, rental, report

LIMIT_S = 1800.0 + 150.0


def check(r, **fields):
    f = fleet(r, **fields)
    pending = pending_for(f)
    return stall.check(f, r, pending), pending


def restarted(r):
    r.restarted_in_place_attempt = 0
    return r


@pytest.mark.parametrize("stage", ["benchmark", "active"])
def test_ends_at_the_limit_and_what_news_may_take_and_not_before(stage):
    said, _ = check(restarted(probed(rental(1, stage, still_s=LIMIT_S), "answers")))
    assert isinstance(said, End)
    assert (said.verdict, said.blame) == ("stalled", "machine")
    assert said.evidence["limit_s"] == 1800.0
    said, _ = check(restarted(probed(rental(1, stage, still_s=LIMIT_S - 1), "answers")))
    assert said is None


def test_first_starts_the_prover_again_in_place_once_an_attempt():
    r = rental(1, "active", still_s=600)
    said, pending = check(r)
    assert isinstance(said, Directed)
    assert said.what == "restart_prover" and said.id.startswith("restart_prover.0.")
    assert list(pending.probes) == [r.contract_id]
    r.directives = [(said.id, said.what, {})]
    assert check(r)[0] is None
    r.directives, r.acked = [], [said.id]
    assert check(r)[0] is None
    assert check(rental(1, "active", still_s=599))[0] is None


def test_asks_a_second_channel_well_before_the_limit():
    r = restarted(rental(1, "active", still_s=420))
    assert list(check(r)[1].probes) == [r.contract_id]
    assert not check(restarted(rental(1, "active", still_s=419)))[1].probes


def test_a_second_channel_that_stays_dumb_delays_by_five_minutes_only():
    assert check(restarted(probed(rental(1, still_s=LIMIT_S + 299), "unreachable")))[0] is None
    assert isinstance(check(restarted(probed(rental(1, still_s=LIMIT_S + 300), "unreachable")))[0], End)


def test_never_when_nothing_is_heard_but_the_probe_at_twice_the_limit():
    quiet = {"heard_s": 1900.0, "silent_s": 1900.0}
    assert check(restarted(rental(1, still_s=5000, **quiet)))[0] is None
    assert check(restarted(probed(rental(1, still_s=3700, **quiet), "answers")))[0] is None
    assert isinstance(check(restarted(probed(rental(1, still_s=3750, **quiet), "answers")))[0], End)


def test_never_when_starved_of_work():
    r = restarted(probed(rental(1, still_s=7000, last=report(starved_s=6000.0)), "answers"))
    assert check(r)[0] is None


def test_a_prover_that_stands_still_over_proofs_in_hand_is_not_starved():
    r = restarted(probed(rental(1, still_s=7000), "answers"))
    assert isinstance(check(r, work_waiting=False)[0], End)


def test_never_when_its_work_cannot_reach_it():
    starved = report(rpc_ok=False, starved_s=6000.0)
    assert check(restarted(probed(rental(1, still_s=7000, last=starved), "answers")))[0] is None


def test_never_with_a_backlog_or_right_after_a_gap():
    r = restarted(rental(1, still_s=LIMIT_S + 500, last=report(backlog=3)))
    assert check(r)[0] is None
    r = restarted(rental(1, still_s=LIMIT_S + 500))
    r.caught_up = False
    assert check(r, gap_heard_ns=fleet().heard_ns)[0] is None


def test_leaves_an_exit_that_waits_for_its_retry_to_crash():
    last = report("batch", exit=exited(137, oom=True), waiting="retry")
    assert check(rental(1, "benchmark", still_s=5000, last=last))[0] is None


def test_a_retry_that_the_agent_never_obeyed_ends_as_what_it_was():
    last = report("batch", exit=exited(139, 11), waiting="retry")
    r = rental(1, "benchmark", still_s=2300, last=last, acked=["retry.0.x"])
    said, _ = check(r)
    assert isinstance(said, End) and said.verdict == "crashed" and said.cause == "signal"
