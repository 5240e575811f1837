"""market_end, restart: two whole listings, never while the agent reports; an empty account blames nobody."""

from __future__ import annotations

from proverfleet.domain.events import End, Marked, Restart
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import market_end, restart
from tests.builders import ago, fleet, rental, row


def check(r, rule=market_end, **fields):
    f = fleet(r, **fields)
    return rule.check(f, r, pending_for(f))


def stopped(listings=2, *, heard_s=300.0, **fields):
    return rental(1, heard_s=heard_s, market_stopped_listings=listings,
                  row=row(1, "exited", intended_status="stopped"), **fields)


def test_ends_after_two_whole_listings():
    said = check(stopped())
    assert isinstance(said, End) and (said.verdict, said.cause) == ("expired", "market_stopped")
    assert check(stopped(bid_usd_per_hour=0.2)).verdict == "outbid"
    assert check(stopped(1)) is None


def test_never_while_its_agent_reports():
    assert check(stopped(heard_s=30.0)) is None


def test_never_on_an_untrusted_listing():
    assert check(stopped(), list_ok=False) is None


def test_an_empty_account_marks_it_and_a_top_up_restarts_it():
    said = check(stopped(), credit_usd=0.0)
    assert isinstance(said, Marked) and (said.name, said.on) == ("stopped", True)
    r = stopped(stopped=True)
    assert check(r, credit_usd=0.0) is None
    assert check(r, credit_usd=50.0, credit_low_heard_ns=ago(60)) is None
    assert isinstance(check(r, restart, credit_usd=50.0, credit_low_heard_ns=ago(60)), Restart)
    assert check(r, restart, credit_usd=0.0) is None
    r.restart_asked_beat = 5998
    assert check(r, restart, credit_usd=50.0, credit_low_heard_ns=ago(60)) is None


def test_what_did_not_come_back_within_15_min_ends():
    r = stopped(stopped=True)
    assert isinstance(check(r, credit_usd=50.0, credit_low_heard_ns=ago(900)), End)
    assert check(r, restart, credit_usd=50.0, credit_low_heard_ns=ago(900)) is None


def test_running_again_takes_the_mark_off():
    said = check(rental(1, stopped=True))
    assert isinstance(said, Marked) and not said.on


def test_a_host_that_is_offline_for_half_an_hour():
    def at(age_s, **fields):
        return check(rental(1, offline_listed_ns=ago(age_s), **{"heard_s": 2000.0, **fields}))
    said = at(1950)
    assert isinstance(said, End) and (said.verdict, said.cause, said.blame) == ("lost", "host_offline", "nobody")
    assert at(1949) is None
    assert at(5000, heard_s=30.0) is None


def test_a_contract_that_never_ran_is_left_to_loading():
    r = rental(1, "loading", market_stopped_listings=5, status_moved=False, row=row(1, "created"))
    assert check(r) is None
