"""resolve: by label or by proof of absence, never by asking again."""

from __future__ import annotations

from proverfleet.domain.events import End, Gone, Resolved
from proverfleet.domain.ids import mark
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import resolve
from tests.builders import FLEET, ago, fleet, rental, row


def check(r, *rows, **fields):
    f = fleet(r, **fields)
    for x in rows:
        f.rows[x.contract_id] = x
    return resolve.check(f, r, pending_for(f), resolve.labels(f))


def doubtful(age_s=180.0, listings=2, **fields):
    return rental(1, "requested", in_doubt=True, doubt_heard_ns=ago(age_s), doubt_listings=listings, **fields)


def test_the_contract_with_its_label_is_it():
    said = check(doubtful(5, 0), row(7, label=mark(FLEET, "r0001")), row(8, label=None))
    assert said == [Resolved("resolve", "r0001", 7, said[0].why)]


def test_of_two_the_running_one():
    said = check(doubtful(), row(7, "loading", label=mark(FLEET, "r0001")), row(9, label=mark(FLEET, "r0001")))
    assert said[0].contract_id == 9


def test_absence_counts_after_two_listings_and_three_minutes():
    resolved, ended, gone = check(doubtful())
    assert isinstance(resolved, Resolved) and resolved.contract_id is None
    assert isinstance(ended, End) and (ended.verdict, ended.cause, ended.blame) == (
        "never_started", "create_lost", "nobody")
    assert isinstance(gone, Gone)
    assert check(doubtful(179.0)) == []
    assert check(doubtful(listings=1)) == []
    assert check(doubtful(), list_ok=False) == []


def test_look_alikes_are_not_it():
    assert check(doubtful(5, 0), row(7, label="pf.testfleet.r00012"), row(8, label="pf.other.r0001")) == []


def test_a_refused_create_ends_without_blame():
    ended, gone = check(rental(1, "requested", refused="no_such_ask"))
    assert (ended.cause, ended.blame) == ("create_refused", "nobody") and isinstance(gone, Gone)


def test_one_that_was_ended_in_doubt_keeps_its_first_reason():
    r = doubtful()
    r.stage = "destroying"
    assert [type(x) for x in check(r)] == [Resolved, Gone]
