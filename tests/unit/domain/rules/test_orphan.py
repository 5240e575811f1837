"""orphan: adopted at once; ended only without any progress; too many mean a lost database."""

from __future__ import annotations

from proverfleet.domain.events import End
from proverfleet.domain.fleet import Orphan
from proverfleet.domain.ids import mark
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import orphan
from tests.builders import FLEET, NOW_NS, fleet, rental, row


def with_orphans(f, *numbers):
    for n in numbers:
        x = row(n, label=mark(FLEET, f"o{n:04d}"))
        f.rows[n] = x
        f.orphans[n] = Orphan(n, f"o{n:04d}", NOW_NS, x)
    return f


def test_adopted_at_once_under_the_intent_of_its_label():
    f = with_orphans(fleet(rental(1)), 9)
    said = orphan.adopt(f, pending_for(f))
    assert [(a.intent, a.contract_id, a.min_rate) for a in said] == [("o0009", 9, 38.0)]
    f.list_ok = False
    assert orphan.adopt(f, pending_for(f)) == []


def test_more_than_a_tenth_unknown_is_a_lost_database():
    f = fleet(*(rental(n) for n in range(1, 19)))
    assert orphan.too_many(with_orphans(f, 50, 51)) == ""
    assert "3 of 21" in orphan.too_many(with_orphans(f, 52))
    assert orphan.too_many(with_orphans(fleet(), 50)) == ""


def ends(r, **fields):
    f = fleet(r, **fields)
    return orphan.check(f, r, pending_for(f))


def test_ends_after_15_min_without_a_word():
    def adopted(still_s, **fields):
        return rental(1, "loading", still_s=still_s, adopted=True, row=row(1), **fields)
    said = ends(adopted(1050))
    assert isinstance(said, End) and (said.verdict, said.cause) == ("not_needed", "no_rental")
    assert ends(adopted(1049)) is None
    assert ends(adopted(1050), list_ok=False) is None
    assert ends(adopted(9000, hello_refused=True)) is None
    assert ends(adopted(9000, silent_s=60.0)) is None


def test_never_what_was_not_adopted():
    assert ends(rental(1, "loading", still_s=9000)) is None
