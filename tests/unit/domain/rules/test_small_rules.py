"""operator, reprice, repair."""

from __future__ import annotations

from proverfleet.domain.pending import pending_for
from proverfleet.domain.rules import operator, repair, reprice
from tests.builders import fleet, rental, report, row


def check(rule, r, **fields):
    f = fleet(r, **fields)
    return rule.check(f, r, pending_for(f))


def test_an_order_ends_it():
    said = check(operator, rental(1), kills_ordered={"r0001": "too loud"})
    assert (said.verdict, said.reason) == ("operator", "ordered by the operator: too loud")
    assert check(operator, rental(1), kills_ordered={"r0002": ""}) is None


def test_min_rate_follows_the_price():
    said = check(reprice, rental(1, row=row(1, price_usd_per_hour=0.40)))
    assert said.min_rate == 50.0 and "0.4" in said.min_rate_from
    assert check(reprice, rental(1, row=row(1, price_usd_per_hour=0.31))) is None
    assert check(reprice, rental(1, row=row(1, price_usd_per_hour=0.40), min_rate_explicit=True)) is None
    assert check(reprice, rental(1, row=row(1, price_usd_per_hour=0.40)), list_ok=False) is None


def test_a_missing_rpc_port_is_repaired_every_ten_minutes():
    r = rental(1, last=report(rpc_ok=False))
    said = check(repair, r)
    assert said.what == "repair_tunnel"
    r.acked = [said.id]
    assert check(repair, r) is None
    assert check(repair, r, beat=6010) is not None
    r.directives = [(said.id, said.what, {})]
    assert check(repair, r, beat=6010) is None
    assert check(repair, rental(1)) is None
    assert check(repair, rental(1, last=report(rpc_ok=None))) is None
