from __future__ import annotations

from proverfleet.domain import search
from proverfleet.domain.fleet import ListEntry, Measured
from proverfleet.domain.ids import HostId, MachineId, OfferId
from proverfleet.domain.market_facts import Offer
from tests.builders import fleet, rental


def an_offer(n: int = 1, *, machine: int | None = None, host: int = 7, gpu: str = "RTX 4090", price: float = 0.3,
             ram_gib: float = 504.0, disk_gb: float = 2000.0, vram_mb: int = 24_564,
             cpu: str = "AMD EPYC 9554") -> Offer:
    return Offer(OfferId(n), MachineId(50_000 + n if machine is None else machine), HostId(host), gpu, 1, vram_mb, 1.0,
                 cpu, 64.0, int(ram_gib * 1024), disk_gb, 1000.0, 24.0, 0.99, price, price)


def test_the_ten_best_by_expected_cost_in_any_order_of_the_offers() -> None:
    offers = [an_offer(n, price=0.20 + 0.01 * (n % 7)) for n in range(1, 31)]
    got = search.choose(fleet(), offers)
    assert got == search.choose(fleet(), offers[::-1])
    assert len(got.best) == search.BEST and got.found == 30 and not got.excluded
    costs = [o.expected_usd_per_proof for o in got.best]
    assert costs == sorted(costs)
    assert [o.machine_id for o in got.best[:4]] == [50_007, 50_014, 50_021, 50_028]


def test_each_reason_of_exclusion_is_counted() -> None:
    f = fleet(rental(1))
    f.blacklist[MachineId(50_001)] = ListEntry(MachineId(50_001), "slow", 0, None, False, True)
    seven = MachineId(50_007)
    f.measured[seven] = [Measured(seven, "RTX 4090", 1, f.image, 20.0, 0.02, 12, 1.0, f.wall_ns)]
    offers = [an_offer(1), an_offer(2, machine=42_001), an_offer(3, price=0.0), an_offer(4, ram_gib=96),
              an_offer(5, disk_gb=100), an_offer(6, vram_mb=8_192), an_offer(7), an_offer(8)]
    got = search.choose(f, offers)
    assert got.excluded == dict.fromkeys(sorted(("blacklisted", "already_rented", "no_price", "ram_too_small",
                                                 "disk_too_small", "vram_too_small", "measured_too_slow")), 1)
    assert [o.offer_id for o in got.best] == [8]


def test_history_beats_the_table() -> None:
    f = fleet()
    two = MachineId(50_002)
    f.measured[two] = [Measured(two, "RTX 4090", 1, f.image, 120.0, 0.02, 12, 1.0, f.wall_ns)]
    got = search.choose(f, [an_offer(1), an_offer(2)])
    assert [o.offer_id for o in got.best] == [2, 1]
    assert got.best[0].expected_usd_per_proof == 0.0025


def test_a_wanted_machine_is_kept_whatever_its_rank() -> None:
    offers = [an_offer(n) for n in range(1, 20)] + [an_offer(99, machine=5, price=3.0, ram_gib=64)]
    got = search.choose(fleet(), offers, (MachineId(5),))
    assert [o.offer_id for o in got.ordered] == [99]
    assert got.excluded == {"ram_too_small": 1}


def test_one_machine_stands_once_among_the_best() -> None:
    got = search.choose(fleet(), [an_offer(1, machine=5, price=0.4), an_offer(2, machine=5, price=0.3), an_offer(3)])
    assert [o.offer_id for o in got.best] == [2, 3]
