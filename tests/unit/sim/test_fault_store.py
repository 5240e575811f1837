"""The store under faults: locked, full, old reads, restored from a backup, and no write of a dead process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proverfleet.errors import StoreFull, StoreLocked
from sim.faults.store import Database, FaultStore
from sim.loop import NS
from sim.process import Process
from sim.spec import FaultSpec, Scenario
from sim.world import World

Rig = tuple[World, Process, Database, FaultStore]


@pytest.fixture
def rig() -> Iterator[Rig]:
    world = World(Scenario("a test"), 1)
    world.loop.at(10**6 * NS, lambda: None)
    process, database = Process(world, "controller"), Database(world, remember=True)
    yield world, process, database, FaultStore(process, database)
    world.close()
    database.close()


def line(seq: int) -> tuple[int, bytes]:
    return seq, b'{"seq":%d,"wall_ns":1,"kind":"beat","v":1}' % seq


def test_what_is_appended_stands_in_the_runs_journal(rig: Rig) -> None:
    world, _, _, store = rig
    world.loop.run(store.append([line(1), line(2)]))
    assert world.journal.lines == 2
    assert world.loop.run(store.load(0)) == [line(1)[1], line(2)[1]]


def test_locked_full_and_their_reads(rig: Rig) -> None:
    world, _, database, store = rig
    world.loop.run(store.append([line(1)]))
    database.locked = FaultSpec("controller.db_locked", params={"reads": "ok"})
    with pytest.raises(StoreLocked):
        world.loop.run(store.append([line(2)]))
    assert len(world.loop.run(store.load(0))) == 1
    database.locked = FaultSpec("controller.db_locked", params={"reads": "fail"})
    with pytest.raises(StoreLocked):
        world.loop.run(store.load(0))
    database.locked = FaultSpec("controller.db_locked", params={"reads": "old"})
    world.loop.run_until(700 * NS)
    assert len(world.loop.run(store.load(0))) == 1
    database.locked = None
    world.loop.run(store.append([line(2)]))
    database.locked = FaultSpec("controller.db_locked", params={"reads": "old"})
    assert len(world.loop.run(store.load(0))) == 1
    database.locked, database.full = None, FaultSpec("controller.db_full")
    database.full_left = 50.0
    world.loop.run(store.append([line(3)]))
    with pytest.raises(StoreFull):
        world.loop.run(store.append([line(4)]))


def test_a_backup_is_the_store_of_that_time_with_the_fleets_own_id(rig: Rig) -> None:
    world, _, database, store = rig
    database.keep_backups()
    assert world.loop.run(store.fleet_id("abcd")) == "abcd"
    world.loop.run(store.append([line(1)]))
    world.loop.run_until(650 * NS)
    world.loop.run(store.append([line(2)]))
    assert database.restore(30.0) == 600 * NS
    assert len(world.loop.run(store.load(0))) == 1
    assert database.restore(6 * 3600.0) == 0
    assert world.loop.run(store.load(0)) == []
    assert world.loop.run(store.fleet_id("other")) == "abcd"


def test_a_dead_process_writes_nothing(rig: Rig) -> None:
    world, process, _, store = rig
    process.spawn(store.append([line(1)]), "main")
    process.crash()
    world.loop.create_task(store.append([line(1)]))
    world.loop.run_until(10 * NS)
    assert world.journal.lines == 0
