"""arrival: condemns only what cannot reach min_rate by any reading; a reading that failed condemns nobody."""

from __future__ import annotations

import pytest

from proverfleet.domain.pending import pending_for
from proverfleet.domain.report import GpuFact
from proverfleet.domain.rules import arrival
from tests.builders import fleet, rental, report


def check(min_rate=38.0, num_gpus=1, **found):
    r = rental(1, "setup", last=report("params", **{"proofs_accepted": 0, **found}), min_rate=min_rate,
               num_gpus=num_gpus)
    f = fleet(r)
    return arrival.check(f, r, pending_for(f))


def test_a_healthy_machine_passes():
    assert check() is None


@pytest.mark.parametrize(("found", "cause"), [
    ({"gpus": ()}, "no_gpu"),
    ({"limit_gib": 80.0}, "ram_below_offer"),
    ({"limit_gib": 120.0}, "ram_below_offer"),
    ({"pcie_gb_per_s": 0.25}, "pcie_slow"),
    ({"disk_free_gb": 20.0, "bytes_received": 0}, "disk_below_offer"),
    ({"gpus": (GpuFact("GPU-1", "GTX 1070", 8_192),)}, "gpu_other"),
    ({"gpus": (GpuFact("GPU-1", "RTX 3090", 24_576, foreign_load=0.9),)}, "ghost_gpu"),
])
def test_unfit(found, cause):
    said = check(**found)
    assert (said.verdict, said.cause, said.blame) == ("unfit", cause, "machine")
    assert "min_rate 38" in said.reason


@pytest.mark.parametrize("found", [
    {"gpus": None}, {"limit_gib": None}, {"pcie_gb_per_s": None}, {"disk_free_gb": None},
    {"gpus": (GpuFact("GPU-1"),)}, {"facts_read": False, "gpus": ()},
])
def test_a_reading_that_failed_condemns_nobody(found):
    assert check(**found) is None


def test_fewer_cards_condemn_only_where_the_rest_cannot_do_it():
    one = (GpuFact("GPU-1", "RTX 3090"),)
    assert check(num_gpus=2, gpus=one) is None
    said = check(num_gpus=4, gpus=one, min_rate=200.0)
    assert said.cause == "gpu_missing" and "1 of 4" in said.reason


def test_a_disk_that_fills_up_during_the_fetch_is_no_arrival():
    assert check(disk_free_gb=0.0, bytes_received=2 * 10**9) is None


def test_never_once_it_has_proved():
    assert check(gpus=(), proofs_accepted=1) is None


def test_a_disk_that_we_asked_too_small_is_our_fault():
    from proverfleet.domain.policy import Policy
    r = rental(1, "setup", last=report("params", proofs_accepted=0, disk_free_gb=20.0, bytes_received=0))
    f = fleet(r, policy=Policy(disk_gb=120.0))
    assert arrival.check(f, r, pending_for(f)).blame == "us"


def test_no_limit_at_all_is_no_limit():
    assert check(limit_gib=float("inf")) is None
