"""Processes: a crash runs no finally, a suspension stands still, requests survive their callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from proverfleet.errors import LinkDown
from sim.loop import NS
from sim.process import Process
from sim.spec import Scenario
from sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Scenario("a test"), 1)
    made.loop.at(10**6 * NS, lambda: None)
    yield made
    made.close()


def test_a_crash_runs_no_finally_and_resumes_nothing(world: World) -> None:
    process, seen = Process(world, "p"), []

    async def child() -> None:
        try:
            await asyncio.sleep(50)
        finally:
            seen.append("child's finally")

    async def main() -> None:
        try:
            async with asyncio.timeout(30), asyncio.TaskGroup() as group:
                group.create_task(child())
                group.create_task(child())
        finally:
            seen.append("finally")

    async def ready() -> None:
        while True:
            await asyncio.sleep(0)
            if world.now_ns() >= 10 * NS:
                seen.append("resumed")
            await process.clock.sleep(10)

    process.spawn(main(), "main")
    process.spawn(ready(), "ready")
    world.loop.at(10 * NS, process.crash)
    world.loop.run_until(200 * NS)
    assert seen == ["resumed"] * 0 or seen == ["resumed"]
    before = list(seen)
    world.loop.run_until(500 * NS)
    assert seen == before and "finally" not in "".join(seen)
    assert not process.alive


def test_a_process_that_crashes_itself_stops_at_once(world: World) -> None:
    process, seen = Process(world, "p"), []

    async def main() -> None:
        try:
            process.crash()
            await process.never()
        finally:
            seen.append("finally")

    process.spawn(main(), "main")
    world.loop.run_until(10 * NS)
    assert seen == []


def test_a_suspended_process_stands_still_and_sleeps_longer(world: World) -> None:
    process, woke = Process(world, "p"), []
    mono = process.clock.monotonic_ns()
    wall = process.clock.wall_ns()

    async def main() -> None:
        await process.clock.sleep(60)
        woke.append(world.now_ns())
        async with asyncio.timeout(100):
            await asyncio.sleep(50)
        woke.append(world.now_ns())

    process.spawn(main(), "main")
    for at, what in ((30, process.suspend), (630, process.resume), (680, process.suspend), (1280, process.resume)):
        world.loop.at(at * NS, what)
    world.loop.run_until(2000 * NS)
    assert woke == [660 * NS, 1310 * NS]
    assert process.clock.monotonic_ns() - mono == (2000 - 1200) * NS
    assert process.clock.wall_ns() - wall == 2000 * NS


def test_ready_tasks_wait_as_well_while_suspended(world: World) -> None:
    process, seen = Process(world, "p"), []

    async def spins() -> None:
        for i in range(3):
            await asyncio.sleep(0)
            seen.append((i, world.now_ns()))

    process.spawn(spins(), "spins")
    process.suspend()
    world.loop.run_until(5 * NS)
    assert seen == []
    process.resume()
    world.loop.run_until(6 * NS)
    assert seen == [(i, 5 * NS) for i in range(3)]


def test_wall_clock_skew_drift_and_step(world: World) -> None:
    process = Process(world, "p")
    start = world.truth.start_wall_ns
    process.skew(120 * NS, ppm=100.0)
    world.loop.run_until(1000 * NS)
    assert process.clock.wall_ns() == start + 1120 * NS + NS // 10
    process.skew(-120 * NS)
    process.step_wall(-5700 * NS)
    world.loop.run_until(2000 * NS)
    assert process.clock.wall_ns() == start + 2000 * NS - 5700 * NS + NS // 10


def test_a_request_is_done_although_its_caller_gave_up_or_died(world: World) -> None:
    patient, hasty, doomed = Process(world, "a"), Process(world, "b"), Process(world, "c")
    done: list[str] = []

    async def serve(name: str) -> str:
        await world.loop.event_future(world.env.timeout(10 * NS))
        done.append(name)
        return name

    async def waits() -> None:
        done.append("answer to " + await world.net.call(patient, "m", 1, lambda: serve("a")))

    async def gives_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await world.net.call(hasty, "m", 1, lambda: serve("b"))
        done.append("b gave up")

    async def dies() -> None:
        done.append("answer to " + await world.net.call(doomed, "m", 1, lambda: serve("c")))

    for process, coro in ((patient, waits()), (hasty, gives_up()), (doomed, dies())):
        process.spawn(coro, "main")
    world.loop.at(6 * NS, doomed.crash)
    world.loop.run_until(60 * NS)
    assert sorted(done) == ["a", "answer to a", "b", "b gave up", "c"]


def test_a_server_that_dies_suspends_or_is_dead(world: World) -> None:
    client, server = Process(world, "client"), Process(world, "server")
    seen: list[object] = []

    async def serve() -> str:
        try:
            await asyncio.sleep(10)
            return "ok"
        finally:
            seen.append("server's finally")

    async def main() -> None:
        for _ in range(2):
            try:
                seen.append(await world.net.call(client, "m", 1, serve, callee=server))
            except LinkDown as exc:
                seen.append(str(exc))

    client.spawn(main(), "main")
    world.loop.at(5 * NS, server.crash)
    world.loop.run_until(60 * NS)
    assert seen == ["connection reset", "connection refused"]

    seen.clear()
    sleepy = Process(world, "sleepy")
    sleepy.suspend()

    async def asks() -> None:
        seen.append(await world.net.call(client, "m", 2, serve, callee=sleepy))
        seen.append(world.now_ns() > 660 * NS)

    client.spawn(asks(), "asks")
    world.loop.at(600 * NS, sleepy.resume)
    world.loop.run_until(650 * NS)
    assert seen == ["server's finally", "ok", False]


def test_a_served_request_belongs_to_the_server(world: World) -> None:
    client, server = Process(world, "client"), Process(world, "server")
    seen: list[object] = []

    async def background() -> None:
        await asyncio.sleep(100)
        seen.append("went on")

    async def serve() -> None:
        asyncio.get_running_loop().create_task(background())

    async def main() -> None:
        await world.net.call(client, "m", 1, serve, callee=server)

    client.spawn(main(), "main")
    world.loop.at(50 * NS, client.crash)
    world.loop.run_until(200 * NS)
    assert seen == ["went on"]
    server.crash()


def test_latency_is_keyed_and_within_its_bounds(world: World) -> None:
    a, b = Process(world, "a"), Process(world, "b")
    mine = [world.net.latency_ns(a, "m", 1) for _ in range(500)]
    other = World(Scenario("a test"), 1)
    interleaved = []
    for _ in range(500):
        other.net.latency_ns(Process(other, "b"), "m", 1)
        interleaved.append(other.net.latency_ns(Process(other, "a"), "m", 1))
    assert mine == interleaved
    assert all(80_000_000 <= x <= 3 * NS for x in mine)
    assert [world.net.latency_ns(b, "m", 1) for _ in range(500)] != mine
    other.close()
