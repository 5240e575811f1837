"""gone, duplicate: a destroy is believed when absence is proven; what comes back is destroyed again."""

from __future__ import annotations

import pytest

from proverfleet.domain.events import Alerted, Gone
from proverfleet.domain.fleet import DestroyState, ExtraContract
from proverfleet.domain.ids import mark
from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import duplicate, gone
from tests.builders import FLEET, ago, fleet, rental, row


def check(f, rule=gone):
    pending = pending_for(f)
    return rule.check(f, pending), pending


def destroying(**state):
    r = rental(1, "destroying", destroy=DestroyState(**state))
    r.row = None
    r.stage_heard_ns["destroying"] = ago(120)
    return r


def test_proven():
    said, _ = check(fleet(destroying(attempts=1, acknowledged=True, absent_reads=1, absent_listings=2)))
    assert len(said) == 1 and isinstance(said[0], Gone) and said[0].contract_id == 1


@pytest.mark.parametrize("state", [
    {"acknowledged": False, "absent_reads": 5, "absent_listings": 5}, {"acknowledged": True, "absent_listings": 5},
    {"acknowledged": True, "absent_reads": 5, "absent_listings": 1},
])
def test_never_on_less(state):
    assert check(fleet(destroying(**state)))[0] == []


def test_asks_by_id_once_acknowledged():
    assert list(check(fleet(destroying(acknowledged=True)))[1].contracts) == [1]


def test_alerts_after_15_min():
    r = destroying(attempts=9, last_error="HTTP 500")
    r.stage_heard_ns["destroying"] = ago(900)
    said, _ = check(fleet(r))
    assert isinstance(said[0], Alerted) and "HTTP 500" in said[0].text
    assert check(fleet(r, alerts={"destroy_pending:r0001": 1}))[0] == []


def test_an_extra_contract_is_proven_the_same_way():
    done = ExtraContract(9, "r0009", "duplicate", "", DestroyState(1, 0, False, True, 1, 2))
    said, _ = check(fleet(extras={9: done}))
    assert [g.contract_id for g in said] == [9]


def test_a_contract_that_was_proven_gone_and_is_back_is_destroyed_again():
    r = rental(1)
    f = fleet(r)
    r.stage = "gone"
    said, _ = check(f, duplicate)
    assert [e.contract_id for e in said] == [1] and "listed again" in said[0].reason


def test_a_late_contract_of_an_intent_that_ended_is_destroyed():
    r = rental(1, "requested")
    f = fleet(r)
    r.stage = "gone"
    f.rows[5] = row(5, label=mark(FLEET, "r0001"))
    assert [e.contract_id for e in check(f, duplicate)[0]] == [5]


def test_the_second_contract_of_an_intent_is_ended_and_the_first_kept():
    f = fleet(rental(1))
    f.rows[5] = row(5, label=mark(FLEET, "r0001"))
    said, _ = check(f, duplicate)
    assert [(e.contract_id, e.verdict) for e in said] == [(5, "duplicate")]
    f.extras[5] = ExtraContract(5, "r0001", "duplicate", "")
    assert check(f, duplicate)[0] == []


def test_foreign_contracts_are_never_touched():
    f = fleet(rental(1))
    f.rows[5] = row(5, label="pf.other.r0001")
    f.rows[6] = row(6, label=None)
    f.rows[7] = row(7, label="pf.testfleet.r0001x")
    assert check(f, duplicate)[0] == []


def test_an_untrusted_listing_shows_no_duplicates():
    f = fleet(rental(1), list_ok=False)
    f.rows[5] = row(5, label=mark(FLEET, "r0001"))
    assert check(f, duplicate)[0] == []
