from __future__ import annotations

import pytest

from proverfleet.domain import reputation
from proverfleet.domain.events import Struck
from proverfleet.domain.fleet import NS, Failure, ListEntry, Measured, Strike
from proverfleet.domain.ids import HostId, IntentId, MachineId
from proverfleet.domain.market_facts import Offer
from tests.builders import fleet
from tests.unit.domain.test_search import an_offer

M = MachineId(42011)
DAY = 86_400 * NS


def struck(intent: str, hard: bool = False) -> Struck:
    return Struck("blacklist", M, IntentId(intent), hard, "f", "too slow")


@pytest.mark.parametrize(("verdict", "cause", "blame", "kind"), [
    ("unfit", "gpu_missing", "machine", "hard"), ("invalid", "wrong_proofs", "machine", "hard"),
    ("crashed", "corrupt_params", "machine", "hard"), ("crashed", "corrupt_params", "source", ""),
    ("slow", "rate", "machine", "soft"), ("crashed", "signal", "machine", "soft"), ("stalled", "", "machine", "soft"),
    ("never_started", "no_agent", "machine", "soft"), ("out_of_memory", "kernel_oom", "us", ""),
    ("never_started", "create_refused", "nobody", ""), ("outbid", "market_stopped", "market", ""),
    ("systemic", "systemic", "nobody", ""), ("operator", "order", "nobody", ""),
])
def test_only_what_the_machine_is_to_blame_for_strikes(verdict: str, cause: str, blame: str, kind: str) -> None:
    assert reputation.strike_of(verdict, cause, blame) == kind


def test_a_hard_strike_lists_at_once_and_a_soft_one_at_the_second_rental_within_a_day() -> None:
    f = fleet()
    assert reputation.must_list(f, struck("r1", hard=True))
    assert not reputation.must_list(f, struck("r1"))
    f.strikes.append(Strike(M, IntentId("r1"), False, "f", f.wall_ns))
    assert not reputation.must_list(f, struck("r1"))  # the same rental twice is one
    assert reputation.must_list(f, struck("r2"))
    f.wall_ns += DAY + NS
    assert not reputation.must_list(f, struck("r3"))


def test_an_entry_ends_and_its_canary_is_listed_again_at_one_strike() -> None:
    f = fleet()
    f.blacklist[M] = ListEntry(M, "slow", f.wall_ns, f.wall_ns + 7 * DAY, False, False)
    assert reputation.is_listed(f, M) and not reputation.canary(f, M)
    f.wall_ns += 7 * DAY
    assert not reputation.is_listed(f, M) and reputation.canary(f, M)
    assert reputation.must_list(f, struck("r9"))


def test_strikes_weigh_half_after_a_week() -> None:
    f = fleet()
    f.strikes.append(Strike(M, IntentId("r1"), False, "f", f.wall_ns - 7 * DAY))
    assert reputation.strike_weight(f, M) == pytest.approx(0.5)


def measured(rate: float, wall_ns: int, image: str = "proverfleet/agent") -> Measured:
    return Measured(M, "RTX PRO 4000", 1, image, rate, 0.02, 12, 1.0, wall_ns)


def test_history_has_no_eternal_maximum_and_knows_its_configuration() -> None:
    f = fleet()
    reputation.add_measure(f, measured(90.0, f.wall_ns - 60 * DAY))
    reputation.add_measure(f, measured(54.8, f.wall_ns))
    o: Offer = an_offer(machine=M, gpu="RTX PRO 4000")
    rate, source = reputation.expected_rate(f, o)
    assert source == "history" and 54.8 <= rate < 55.0
    assert reputation.expected_rate(f, an_offer(machine=M, gpu="RTX 4090"))[1] == "table"
    for i in range(30):
        reputation.add_measure(f, measured(50.0 + i, f.wall_ns))
    assert len(f.measured[M]) == reputation.KEPT_MEASURES


def test_the_table_lands_near_the_field_points() -> None:
    norway = an_offer(gpu="RTX 4090", cpu="AMD EPYC 7742", ram_gib=500)  # 41.32 proofs/h in the field, DDR4
    assert 30 < reputation.table_rate(norway) < 60
    pro = an_offer(gpu="RTX PRO 4000", cpu="AMD EPYC 7543", ram_gib=504)  # 54.8
    assert 40 < reputation.table_rate(pro) < 75


def test_three_machines_of_one_host_make_it_avoided_and_never_listed() -> None:
    f = fleet()
    for i in range(3):
        failed = Failure("f", MachineId(i), HostId(7), IntentId(f"r{i}"), "RTX 4090", "img", f.heard_ns, 0, True)
        f.failures.append(failed)
    assert reputation.host_avoided(f, HostId(7)) and not reputation.host_avoided(f, HostId(8))
    assert not f.blacklist
