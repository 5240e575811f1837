"""setup: still while the source answers, too dear, or one file three times corrupt."""

from __future__ import annotations

from dataclasses import replace

from proverfleet.domain.events import End
from proverfleet.domain.fleet import NS
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import setup
from tests.builders import NOW_NS, ago, fleet, probed, rental, report

LIMIT_S = 750.0


def check(r, *others, **fields):
    f = fleet(r, *others, **{"source_ok": True, "source_beat": 6000, **fields})
    pending = pending_for(f)
    return setup.check(f, r, pending), pending


def still(age_s, **fields):
    last = report("params", bytes_received=10**9, bytes_hashed=0, proofs_accepted=0)
    return probed(rental(1, "setup", still_s=age_s, last=last, **fields), "answers")


def test_ends_at_the_limit_and_not_before():
    said, _ = check(still(LIMIT_S))
    assert isinstance(said, End) and said.verdict == "stalled"
    assert check(still(LIMIT_S - 1))[0] is None


def test_never_while_the_source_is_down():
    said, pending = check(still(5000), source_ok=False)
    assert said is None and pending.source


def test_the_time_in_which_the_source_was_down_does_not_count():
    assert check(still(5000), source_bad_heard_ns=ago(749))[0] is None
    assert isinstance(check(still(5000), source_bad_heard_ns=ago(750))[0], End)


def test_others_that_fetch_show_that_the_source_answers():
    other = rental(2, "setup", still_s=20)
    assert isinstance(check(still(LIMIT_S), other, source_ok=None, source_beat=-1)[0], End)
    assert check(still(LIMIT_S), rental(2, "setup", still_s=400), source_ok=None, source_beat=-1)[0] is None


def test_never_on_silence():
    assert check(still(5000, heard_s=900))[0] is None


def dear(left_gb, *, over_s=600, in_setup_s=1800):
    r = rental(1, "setup", still_s=5, last=report("params", bytes_received=10**10, bytes_hashed=0, proofs_accepted=0,
                                                  bytes_total=10**10 + left_gb * 10**9))
    r.setup_samples = [(NOW_NS - 600 * NS, 10**10 - 6 * 10**8), (NOW_NS, 10**10)]  # 1 MB/s
    r.setup_over_cap_heard_ns = ago(over_s)
    r.observed_ns["setup"] = in_setup_s * NS
    r.cost_usd = 0.2
    return r


def test_ends_when_the_forecast_is_above_the_cap_for_ten_minutes():
    said, _ = check(dear(100))
    assert isinstance(said, End) and (said.verdict, said.cause) == ("budget", "setup_cost")
    assert check(dear(100, over_s=599))[0] is None
    assert check(dear(100, in_setup_s=1799))[0] is None
    assert check(dear(20))[0] is None


def test_three_checksum_failures_blame_who_is_to_blame():
    last = report("params", file_failures=3, digests_differ=True)
    said, _ = check(rental(1, "setup", last=last))
    assert (said.verdict, said.cause, said.blame) == ("crashed", "corrupt_params", "machine")
    said, _ = check(rental(1, "setup", last=replace(last, digests_differ=False)))
    assert said.blame == "source"
    assert check(rental(1, "setup", last=replace(last, file_failures=2)))[0] is None
