"""loading: only a pull that stood still ends; its age alone never does."""

from __future__ import annotations

import pytest

from proverfleet.domain.events import End
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import loading
from tests.builders import ago, fleet, rental, row


def check(r, **fields):
    f = fleet(r, **fields)
    pending = pending_for(f)
    return loading.check(f, r, pending), pending


@pytest.mark.parametrize(("moved", "limit_s"), [(True, 750), (False, 2850)])
def test_ends_at_the_limit_and_not_before(moved, limit_s):
    def at(age_s):
        r = rental(1, "loading", still_s=age_s, status_moved=moved)
        r.stage_listed_ns["loading"] = r.status_moved_listed_ns
        return check(r)[0]
    said = at(limit_s)
    assert isinstance(said, End) and (said.verdict, said.cause) == ("never_started", "loading_stuck")
    assert at(limit_s - 1) is None


def test_age_alone_never_ends_it():
    r = rental(1, "loading", still_s=60)
    r.stage_listed_ns["loading"] = 0
    assert check(r)[0] is None


def test_asks_for_the_log_before_the_limit():
    assert list(check(rental(1, "loading", still_s=300))[1].logs) == [1]


def test_never_on_an_untrusted_listing_or_after_a_gap():
    assert check(rental(1, "loading", still_s=5000), list_ok=False)[0] is None
    r = rental(2, last=rental(2).last, caught_up=False)
    f = fleet(rental(1, "loading", still_s=5000), r, gap_heard_ns=fleet().heard_ns)
    assert loading.check(f, f.rentals["r0001"], pending_for(f)) is None


def test_never_once_it_runs_or_somebody_said_hello():
    assert check(rental(1, "loading", still_s=5000, running_listed_ns=0))[0] is None
    assert check(rental(1, "loading", still_s=5000, hello_refused=True))[0] is None


@pytest.mark.parametrize(("text", "cause", "blame"), [
    ("exited with code 1", "image_error", "us"),
    ("OCI runtime create failed", "image_error", "machine"),
    ("Error response from daemon: manifest unknown", "image_error", "us"),
    ("no space left on device", "disk_full", "machine"),
])
def test_an_error_on_three_beats_ends_it(text, cause, blame):
    def at(beats):
        bad = row(1, "exited", status_msg=text)
        return check(rental(1, "loading", still_s=200, bad_status_beats=beats, row=bad))[0]
    said = at(3)
    assert isinstance(said, End) and (said.cause, said.blame) == (cause, blame)
    assert at(2) is None


def test_an_error_does_not_end_what_still_speaks():
    r = rental(1, "loading", still_s=200, silent_s=30, bad_status_beats=3, row=row(1, "exited"))
    assert check(r)[0] is None


def test_a_contract_that_is_only_stopped_has_its_45_minutes():
    r = rental(1, "loading", still_s=200, status_moved=False, bad_status_beats=9, market_stopped_listings=9,
               row=row(1, "exited", status_msg="stopped"))
    r.stage_listed_ns["loading"] = ago(200)
    assert check(r)[0] is None
    r.row = row(1, "loading", status_msg="Error response from daemon: manifest unknown")
    assert isinstance(check(r)[0], End)
