"""What a rental must reach to be worth its price, and what the fleet spends (rules.md section 2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proverfleet.domain.policy import Policy

if TYPE_CHECKING:
    from proverfleet.domain.fleet import Fleet, Rental

_FLOAT_NOISE = 1e-9  # 0.296 / 0.008 is 37.00000000000001 in floats, and the operators mean 37


def min_rate(price_usd_per_hour: float, policy: Policy, explicit: float | None = None) -> tuple[float, str]:
    """Proofs per hour that this price asks for, and where the number comes from, in words.

    ``explicit`` (a deploy order's own number) wins, then the policy's, then ``ceil(price / target)``.
    """
    if explicit is not None:
        return float(explicit), f"explicit in the deploy order: {explicit:g} proofs/h"
    if policy.min_rate_proofs_per_hour is not None:
        own = policy.min_rate_proofs_per_hour
        return own, f"policy min_rate_proofs_per_hour = {own:g} proofs/h"
    ratio = price_usd_per_hour / policy.target_usd_per_proof
    number = float(math.ceil(ratio - _FLOAT_NOISE * max(1.0, ratio)))
    return number, (
        f"ceil({price_usd_per_hour:g} $/h / {policy.target_usd_per_proof:g} $/proof) = {number:g} proofs/h"
    )


def repriced(rental: Rental, price_usd_per_hour: float, policy: Policy) -> tuple[float, str] | None:
    """The new ``(min_rate, provenance)`` after the market's price moved, or None where nothing changes.

    A move within ``price_margin`` of the price that the number rests on changes nothing (listings round, storage is
    added); an explicit number never changes.
    """
    if rental.min_rate_explicit or price_usd_per_hour <= 0:
        return None
    base = rental.priced_usd_per_hour or rental.price_usd_per_hour
    if base > 0 and abs(price_usd_per_hour - base) <= policy.price_margin * base:
        return None
    number, text = min_rate(price_usd_per_hour, policy)
    return number, f"{text} (price moved from {base:g} $/h)"


def spend_usd_per_hour(fleet: Fleet) -> float:
    """What everything that may be paid costs an hour: rentals until proven gone, extra contracts, orphans."""
    total = sum(r.price_usd_per_hour for r in fleet.rentals.values() if r.stage != "gone")
    for contract in (*fleet.extras, *fleet.orphans):
        row = fleet.rows.get(contract)
        total += (row.price_usd_per_hour or 0.0) if row is not None else 0.0
    return total


def credit_floor_usd(fleet: Fleet) -> float:
    """The credit below which nothing is rented: the policy's number, else one hour of the fleet as it is."""
    own = fleet.policy.credit_floor_usd
    return own if own is not None else spend_usd_per_hour(fleet)


def room_usd_per_hour(fleet: Fleet) -> float | None:
    """$/h that may still be added under the hourly cap; None: no cap. Negative: the cap is broken."""
    cap = fleet.policy.cap_usd_per_hour
    return None if cap is None else cap - spend_usd_per_hour(fleet)


def room_today_usd(fleet: Fleet) -> float | None:
    """$ that may still be spent today under the daily cap; None: no cap. Negative: the cap is broken."""
    cap = fleet.policy.cap_usd_per_day
    return None if cap is None else cap - fleet.spent_today_usd


def usd_per_proof(price_usd_per_hour: float, rate_proofs_per_hour: float) -> float:
    """Expected cost of one proof; infinite where no proof is expected."""
    return price_usd_per_hour / rate_proofs_per_hour if rate_proofs_per_hour > 0 else math.inf
