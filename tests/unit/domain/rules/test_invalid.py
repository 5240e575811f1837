"""invalid: three in a row or two of a hundred; the consumer's word does not count while it refuses everybody."""

from __future__ import annotations

from proverfleet.domain.pending import pending_for
from proverfleet.domain.report import GpuFact
from proverfleet.domain.rules import invalid
from tests.builders import fleet, rental, report


def check(r, *others):
    f = fleet(r, *others)
    return invalid.check(f, r, pending_for(f))


def refused(n, count, *, in_a_row=None):
    in_a_row = count if in_a_row is None else in_a_row
    return rental(n, work_results=[True] * 20 + [False] * count, rejected_in_a_row=in_a_row)


def test_three_in_a_row_by_the_self_check():
    said = check(rental(1, last=report(fails_in_a_row=3)))
    assert (said.verdict, said.blame) == ("invalid", "machine")
    assert check(rental(1, last=report(fails_in_a_row=2))) is None


def test_two_of_the_last_hundred():
    last = report(proofs_accepted=198, proofs_failed=2)
    assert check(rental(1, last=last, failed_at=[101, 200])).verdict == "invalid"
    assert check(rental(1, last=last, failed_at=[100, 200])) is None


def test_the_consumers_word_condemns_one_among_many():
    assert check(refused(1, 3), refused(2, 0), refused(3, 0)).blame == "machine"
    assert check(refused(1, 2, in_a_row=0), refused(2, 0), refused(3, 0)).blame == "machine"
    assert check(refused(1, 1), refused(2, 0)) is None


def test_never_while_the_consumer_refuses_everybody_nor_right_after():
    assert check(refused(1, 5), refused(2, 4), refused(3, 0)) is None
    assert check(refused(1, 5, in_a_row=0), refused(2, 5, in_a_row=0), refused(3, 5, in_a_row=0)) is None


def test_alone_it_ends_but_lists_nobody():
    assert check(refused(1, 3)).blame == "nobody"


def test_a_card_in_error_is_a_crash():
    last = report(fails_in_a_row=5, gpus=(GpuFact("GPU-1", xid=79),))
    said = check(rental(1, last=last))
    assert (said.verdict, said.cause) == ("crashed", "gpu_error")
