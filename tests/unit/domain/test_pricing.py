from __future__ import annotations

import pytest

from proverfleet.domain import pricing
from proverfleet.domain.policy import Policy
from tests.builders import fleet, rental


@pytest.mark.parametrize(
    ("price", "number"), [(0.296, 37), (0.24, 30), (0.32, 40), (0.2961, 38), (0.008, 1), (0.56, 70)])
def test_min_rate_is_the_price_over_the_target_rounded_up(price: float, number: float) -> None:
    got, text = pricing.min_rate(price, Policy())
    assert got == number
    assert text == f"ceil({price:g} $/h / 0.008 $/proof) = {number:g} proofs/h"


def test_every_whole_multiple_of_the_target_is_itself() -> None:
    assert all(pricing.min_rate(n * 0.008, Policy())[0] == n for n in range(1, 2000))


def test_explicit_numbers_win_and_say_so() -> None:
    policy = Policy(min_rate_proofs_per_hour=33.0)
    assert pricing.min_rate(0.296, policy, 29.0) == (29.0, "explicit in the deploy order: 29 proofs/h")
    assert pricing.min_rate(0.296, policy) == (33.0, "policy min_rate_proofs_per_hour = 33 proofs/h")


def test_a_price_within_the_margin_changes_nothing() -> None:
    r = rental(price_usd_per_hour=0.296, priced_usd_per_hour=0.296)
    assert pricing.repriced(r, 0.31, Policy()) is None
    found = pricing.repriced(r, 0.37, Policy())
    assert found is not None and found[0] == 47 and "price moved from 0.296 $/h" in found[1]
    r.min_rate_explicit = True
    assert pricing.repriced(r, 0.37, Policy()) is None


def test_what_is_not_proven_gone_counts_as_spending() -> None:
    a, b, c = rental(1), rental(2, "destroying"), rental(3)
    c.stage = "gone"
    f = fleet(a, b, c, policy=Policy(cap_usd_per_hour=1.0, cap_usd_per_day=5.0), spent_today_usd=4.0)
    assert pricing.spend_usd_per_hour(f) == pytest.approx(0.60)
    assert pricing.room_usd_per_hour(f) == pytest.approx(0.40)
    assert pricing.room_today_usd(f) == pytest.approx(1.0)
    assert pricing.credit_floor_usd(f) == pytest.approx(0.60)
