"""crash: retried first, smaller after an out-of-memory; then ended with its exit, never as a rate."""

from __future__ import annotations

from proverfleet.domain.events import Directed, End
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import crash
from tests.builders import exited, fleet, rental, report


def check(r):
    f = fleet(r)
    return crash.check(f, r, pending_for(f))


def failed(exit_, *, p=16, attempt=0, **fields):
    return rental(1, "benchmark", last=report("batch", exit=exit_, waiting="retry", p=p, attempt=attempt,
                                              limit_gib=504.0), **fields)


def test_after_an_oom_it_is_tried_smaller():
    said = check(failed(exited(137, 9, oom=True)))
    assert isinstance(said, Directed)
    assert said.what == "retry" and said.args["p"] == 9


def test_never_above_what_the_limit_allows():
    said = check(failed(exited(137, 9, oom=True), p=40))
    assert said.args["p"] == 13


def test_after_another_crash_once_as_it_was():
    said = check(failed(exited(139, 11)))
    assert said.what == "retry" and said.args["p"] == 16


def test_each_exit_is_handled_once():
    r = failed(exited(139, 11))
    said = check(r)
    r.directives = [(said.id, said.what, said.args)]
    assert check(r) is None
    r.directives, r.acked = [], [said.id]
    assert check(r) is None


def test_ends_when_the_retries_are_spent():
    said = check(failed(exited(137, 9, oom=True), attempt=2, oom_retries=2))
    assert isinstance(said, End)
    assert (said.verdict, said.cause, said.blame) == ("out_of_memory", "kernel_oom", "us")
    said = check(failed(exited(134, 6), attempt=1, crash_retries=1))
    assert (said.verdict, said.cause, said.blame) == ("crashed", "signal", "machine")
    assert "rate" not in said.reason and said.evidence["exit_signal"] == 6
    said = check(failed(exited(1, what="bench"), attempt=1, crash_retries=1))
    assert (said.verdict, said.cause) == ("crashed", "bench_error")


def test_an_oom_on_the_card_is_the_images_affair():
    said = check(failed(exited(1, gpu_oom=True), attempt=2, oom_retries=2))
    assert (said.verdict, said.cause, said.blame) == ("out_of_memory", "gpu_oom", "us")


def test_an_oom_after_a_crash_has_its_own_retries():
    assert isinstance(check(failed(exited(137, 9, oom=True), attempt=1, crash_retries=1)), Directed)


def test_a_loop_of_restarts_without_work_is_a_crash():
    r = rental(1, "setup", still_s=1050, last=report("params", restarts_agent=7), progress_restarts=2)
    said = check(r)
    assert isinstance(said, End) and said.verdict == "crashed"
    assert check(rental(1, "setup", still_s=1049, last=report("params", restarts_agent=7), progress_restarts=2)) is None
    assert check(rental(1, "setup", still_s=1050, last=report("params", restarts_agent=6), progress_restarts=2)) is None


def test_never_while_it_works():
    assert check(rental(1)) is None
    assert check(rental(1, last=report(exit=exited(1)))) is None
