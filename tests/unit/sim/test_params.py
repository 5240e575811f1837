"""The parameter fetch: time, progress, what stops it, what a bad file costs."""

from __future__ import annotations

import pytest
from boxes import MINUTE, Box, fault

from sim.model import fetch_s
from sim.params import TOTAL_BYTES
from sim.truth import NS

GIB = 1 << 30


def fetching(**fields: object) -> Box:
    box = Box(**fields)
    box.rent()
    while not box.container.up:
        box.run(10.0)
    box.do(box.container.params.fetch())
    return box


def params(box: Box):  # type: ignore[no-untyped-def]
    return box.do(box.container.params.status())


def until_done(box: Box, limit_s: float) -> float:
    began = box.now_s
    while not params(box).done:
        assert box.now_s - began < limit_s
        box.run(10.0)
    return box.now_s - began


def test_135_gib_at_100_mbit_take_193_minutes_and_hash_at_the_disks_speed() -> None:
    assert pytest.approx(135 * GIB, rel=0.001) == TOTAL_BYTES
    box = fetching(inet_down_mbps=100.0)
    assert until_done(box, 5 * 3600) == pytest.approx(193 * MINUTE, rel=0.03)
    status = params(box)
    assert (status.bytes_received, status.bytes_hashed, status.file_failures) == (TOTAL_BYTES, TOTAL_BYTES, 0)
    assert not status.running and not box.truth.progress.on
    assert box.truth.setup_left_s.values[-1] == 0.0


def test_a_fast_line_waits_for_the_disk() -> None:
    box = fetching(inet_down_mbps=10_000.0, disk_mb_per_s=200.0)
    assert until_done(box, 3600) == pytest.approx(fetch_s(TOTAL_BYTES, 10_000.0, 200.0), rel=0.1)


def test_looking_does_not_change_when_it_is_done() -> None:
    ends = []
    for step in (3.0, 1800.0):
        box = fetching(inet_down_mbps=2000.0)
        while box.now_s < 3600:
            box.run(step)
            params(box)
        ends.append(box.truth.progress.spans[-1][1])
    assert ends[0] == pytest.approx(ends[1], abs=1e6)


def test_the_source_is_down_then_back() -> None:
    box = fetching()
    box.run(MINUTE)
    undo = box.switch(fault("params.source_down"))
    before = params(box).bytes_received
    assert not box.world.source.serves() or box.world.source.active[0][1] == 1
    box.run(10 * MINUTE)
    assert params(box).bytes_received == before and not box.truth.progress.on
    undo()
    assert box.truth.progress.on
    until_done(box, 3600)


def test_a_mirror_takes_over() -> None:
    box = fetching()
    box.switch(fault("params.source_down", mirror_up=True))
    assert box.world.source.serves()
    until_done(box, 3600)


def test_a_source_that_everybody_misses_serves_nobody() -> None:
    box = fetching()
    undo = box.world.faults._apply["params.stall"](fault("params.stall"), None)
    assert not box.world.source.serves()
    undo()
    assert box.world.source.serves()


def test_a_slow_source_and_a_slow_network() -> None:
    box = fetching()
    box.switch(fault("params.slow", mbps=20))
    before = params(box).bytes_received
    box.run(100)
    assert params(box).bytes_received - before == pytest.approx(250e6, rel=0.01)
    box.switch(fault("host.slow_network", down_mbps=0))
    before = params(box).bytes_received
    box.run(100)
    assert params(box).bytes_received == before
    assert box.truth.bandwidth_mbps == 0


def test_a_file_that_fails_loses_its_bytes_and_is_fetched_again() -> None:
    box = fetching()
    assert box.switch(fault("params.corrupt", file=4)) is None
    box.run(3 * MINUTE)
    status = params(box)
    assert (status.file_failures, status.digests_differ) == (1, False)
    until_done(box, 3600)
    assert box.switch(fault("params.corrupt", file=4)) is False, "it has passed its check"


def test_three_failures_of_one_file_are_the_fetchers_end() -> None:
    box = fetching()
    for _ in range(3):
        box.switch(fault("params.corrupt", 7, file=4, same_digest=False))
    box.run(10 * MINUTE)
    status = params(box)
    assert (status.file_failures, status.digests_differ) == (3, True)
    assert [(e.kind, e.fault) for e in box.truth.exits] == [("params", 7)]


def test_a_restarted_container_goes_on_where_it_was() -> None:
    box = fetching()
    box.run(5 * MINUTE)
    before = params(box).bytes_received
    box.container.restart(20 * NS)
    assert not params(box).running
    box.run(MINUTE)
    assert box.container.up
    box.do(box.container.params.fetch())
    assert params(box).bytes_received >= before
    box.container.restart(20 * NS, keeps_disk=False)
    assert params(box).bytes_received == 0


def test_a_full_disk_stops_it() -> None:
    box = fetching()
    box.run(MINUTE)
    undo = box.switch(fault("host.disk_full", free_gb=10))
    before = params(box).bytes_received
    box.run(10 * MINUTE)
    status = params(box)
    assert status.error == "no space left on device"
    assert status.bytes_received - before == pytest.approx(10e9, rel=0.02)
    assert not box.truth.progress.on
    assert box.truth.unfit == "disk_full"
    undo()
    until_done(box, 3600)


def test_a_disk_too_small_for_the_set() -> None:
    box = Box()
    box.rent()
    box.container.disk_gb = 100.0
    while not box.container.up:
        box.run(10.0)
    box.do(box.container.params.fetch())
    box.run(3600)
    assert params(box).error == "no space left on device"
    assert box.container.disk_used_gb <= 100.5


def test_the_forecast_of_the_rest_falls() -> None:
    box = fetching(inet_down_mbps=100.0)
    box.run(30 * MINUTE)
    params(box)
    first = box.truth.setup_left_s.values[-1]
    box.run(60 * MINUTE)
    params(box)
    assert first - box.truth.setup_left_s.values[-1] == pytest.approx(3600, rel=0.05)
