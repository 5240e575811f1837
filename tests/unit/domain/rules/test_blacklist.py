"""blacklist: who is struck, who is listed, and what blames nobody."""

from __future__ import annotations

from proverfleet.domain.events import Blacklisted, End, Struck
from proverfleet.domain.fleet import NS, Failure, ListEntry, Strike
from proverfleet.domain.pending import end, pending_for
from proverfleet.domain.rules import blacklist
from tests.builders import ago, fleet, rental


def struck(f, r, verdict="stalled", cause="no_progress", blame="machine"):
    pending = pending_for(f)
    pending.take(end(r, "stall", verdict, cause, "why", blame))
    return blacklist.strikes(f, pending)


def before(n, hours=1.0, intent="r0099"):
    return Strike(42_000 + n, intent, False, "x", fleet().wall_ns - int(hours * 3600 * NS))


def test_a_hard_strike_lists_at_once_for_a_week():
    r = rental(1)
    f = fleet(r)
    strike, entry = struck(f, r, "unfit", "no_gpu")
    assert isinstance(strike, Struck) and strike.hard and isinstance(entry, Blacklisted)
    assert entry.until_wall_ns == f.wall_ns + 7 * 86_400 * NS and not entry.evict


def test_a_soft_one_lists_at_the_second_rental_within_a_day():
    r = rental(1)
    assert [type(x) for x in struck(fleet(r), r)] == [Struck]
    assert [type(x) for x in struck(fleet(r, strikes=[before(1)]), r)] == [Struck, Blacklisted]
    assert [type(x) for x in struck(fleet(r, strikes=[before(1, 25)]), r)] == [Struck]
    assert [type(x) for x in struck(fleet(r, strikes=[before(2)]), r)] == [Struck]


def test_what_is_not_the_machines_fault_is_no_strike():
    r = rental(1)
    for verdict, cause, blame in (("out_of_memory", "kernel_oom", "us"), ("lost", "absent", "nobody"),
                                  ("crashed", "corrupt_params", "source"), ("systemic", "systemic", "nobody"),
                                  ("outbid", "market_stopped", "market"), ("stalled", "no_progress", "nobody")):
        assert struck(fleet(r, strikes=[before(1)]), r, verdict, cause, blame) == []


def alike(r, n, age_s=3000.0):
    key = end(r, "stall", "stalled", "no_progress", "", "machine").evidence["fingerprint"]
    return Failure(key, 42_000 + n, 7_000 + n, f"r{n:04d}", "RTX 4090", r.image, ago(age_s), 0, True)


def test_nobody_is_listed_while_another_host_failed_alike_and_nothing_got_past():
    r = rental(1, "benchmark")
    f = fleet(r, strikes=[before(1)], failures=[alike(r, 2)])
    assert [type(x) for x in struck(f, r)] == [Struck]
    past = rental(3)
    past.stage_heard_ns["active"] = ago(100)
    f = fleet(r, past, strikes=[before(1)], failures=[alike(r, 2)])
    assert [type(x) for x in struck(f, r)] == [Struck, Blacklisted]


def test_evict_ends_a_rental_and_a_plain_entry_does_not():
    r = rental(1)
    f = fleet(r, blacklist={42_001: ListEntry(42_001, "dust", 0, None, True, True)})
    said = blacklist.evict(f, r, pending_for(f))
    assert isinstance(said, End) and said.cause == "evicted"
    f.blacklist[42_001].evict = False
    assert blacklist.evict(f, r, pending_for(f)) is None
