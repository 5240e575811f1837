"""benchmark, active: a rate ends a rental only at the largest size that fits, and says which number did it."""

from __future__ import annotations

from dataclasses import replace

from proverfleet.domain.events import Directed, End, Judged, Marked
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import active, benchmark
from tests.builders import NOW_NS, exited, fleet, proofs, rental, report

BENCH = {"bench": (12, 0, 1000.0), "proofs_accepted": 13}


def check(rule, r):
    f = fleet(r)
    return rule.check(f, r, pending_for(f))


def batch(rate, *, p=10, limit_gib=400.0, count=12, rss_gib=None, **fields):
    rss_gib = 70 + 27.6 * p if rss_gib is None else rss_gib  # the card is the brake
    last = report("batch", p=p, limit_gib=limit_gib, rss_gib=rss_gib, **BENCH)
    return proofs(rental(1, "benchmark", last=last, **fields), rate, count)


def test_a_batch_passes():
    said = check(benchmark, batch(60))
    assert [type(x) for x in said] == [Judged] and said[0].outcome == "passed"


def test_an_undecided_one_goes_on_on_probation():
    judged, mark = check(benchmark, batch(38.0))
    assert judged.outcome == "undecided" and isinstance(mark, Marked) and mark.name == "probation" and mark.on


def test_a_slow_one_ends_with_its_numbers():
    judged, said = check(benchmark, batch(20.0))
    assert judged.outcome == "failed" and isinstance(said, End)
    assert (said.verdict, said.cause, said.blame) == ("slow", "rate", "machine")
    assert "rate 20.0 below min_rate 38 (ceil(0.3 $/h / 0.008 $/proof) = 38 proofs/h)" in said.reason


def test_hopeless_before_the_batch_is_over():
    last = report("batch", bench=None, proofs_accepted=5, mono_ns=NOW_NS)
    last = replace(last, rss_gib=346.0)
    r = proofs(rental(1, "benchmark", last=last), 6.0, 9)
    judged, said = check(benchmark, r)
    assert judged.outcome == "failed" and said.cause == "rate_early"
    assert check(benchmark, proofs(rental(1, "benchmark", last=last), 36.0, 9)) == []


def test_below_the_largest_size_it_goes_one_size_up_first():
    said, = check(benchmark, batch(20.0, p=3))
    assert isinstance(said, Directed) and said.what == "resize" and said.args["p"] == 5
    r = batch(20.0, p=3)
    r.directives = [(said.id, said.what, said.args)]
    assert check(benchmark, r) == []
    assert check(benchmark, batch(35.0, p=9))[0].args["p"] == 10


def test_no_larger_size_where_even_the_largest_could_not_reach_it():
    assert isinstance(check(benchmark, batch(20.0, p=9))[-1], End)


def test_no_size_between_ones_that_were_too_slow():
    cpu_bound = {"limit_gib": 504.0, "rss_gib": 270.0}
    assert check(benchmark, batch(36.0, p=10, too_slow_at=[13], **cpu_bound))[0].args["p"] == 16
    assert isinstance(check(benchmark, batch(36.0, p=10, too_slow_at=[13, 18], **cpu_bound))[-1], End)


def test_where_the_cpu_is_the_brake_more_fits():
    said, = check(benchmark, batch(30.0, p=5, limit_gib=252.0, rss_gib=170.0))
    assert said.what == "resize" and said.args["p"] == 7
    assert isinstance(check(benchmark, batch(20.0, p=7, limit_gib=252.0, rss_gib=210.0))[-1], End)
    assert isinstance(check(benchmark, batch(20.0, p=5, limit_gib=252.0))[-1], End)


def test_never_up_to_a_size_that_was_killed():
    assert check(benchmark, batch(35.0, p=6, oom_at_p=8, oom_retries=2))[0].args["p"] == 7
    assert isinstance(check(benchmark, batch(20.0, p=7, oom_at_p=8, oom_retries=2))[-1], End)
    assert check(benchmark, batch(35.0, p=7, oom_at_p=8, oom_retries=1))[0].args["p"] > 7


def test_a_batch_without_a_result_is_never_slow():
    for last in (report("batch"), report("batch", bench=(0, 12, 900.0)),
                 report("batch", exit=exited(1, what="bench"), waiting="retry")):
        assert check(benchmark, rental(1, "benchmark", last=last)) == []


def test_judged_once_and_a_held_end_is_asked_for_again():
    assert check(benchmark, batch(60, judged="passed")) == []
    assert [type(x) for x in check(benchmark, batch(20.0, judged="failed"))] == [End]


def works(rate, **fields):
    last = report(rss_gib=1.1 * 346.0)
    return proofs(rental(1, **{"judged": "passed", "last": last, **fields}), rate, 80)


def test_a_rental_that_earns_too_little_ends():
    said = check(active, works(20.0))
    assert [type(x) for x in said] == [End] and said[0].verdict == "slow"
    assert check(active, works(60.0)) == []


def test_a_rate_of_another_size_condemns_nobody():
    r = works(20.0)
    r.last = replace(r.last, attempt=1, p=11)
    assert check(active, r) == []


def test_probation_is_passed_in_active():
    judged, mark = check(active, works(60.0, judged="undecided", probation=True))
    assert judged.outcome == "passed" and not mark.on


def test_never_on_old_news_or_while_it_waits():
    assert check(active, works(20.0, heard_s=400.0)) == []
    assert check(active, works(20.0, last=report(waiting="retry", exit=exited(1)))) == []
