"""Programs and their processes: started again 5 s after an error, not after a crash from outside, cleanly stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from sim.loop import NS
from sim.process import Process
from sim.spec import Scenario
from sim.supervisor import Supervised
from sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Scenario("a test"), 1)
    made.loop.at(10**6 * NS, lambda: None)
    yield made
    made.close()


def supervised(
    world: World, main: Callable[[Process], Coroutine[Any, Any, None]], log: list[tuple[str, float]],
    again: str = "always",
) -> Supervised:
    return Supervised(
        world, "p", world.box("p"), main, again=again,
        started=lambda process: log.append(("start", world.now_ns() / NS)),
        ended=lambda process, how: log.append((how, world.now_ns() / NS)),
    )


def test_an_error_starts_it_again_after_5_s_and_is_kept(world: World) -> None:
    log: list[tuple[str, float]] = []

    async def main(process: Process) -> None:
        await process.clock.sleep(10)
        raise ValueError("a bug")

    program = supervised(world, main, log)
    program.start()
    world.loop.run_until(22 * NS)
    assert log == [("start", 0.0), ("error", 10.0), ("start", 15.0)]
    assert "a bug" in world.errors[0][2] and program.exits == 1


@pytest.mark.parametrize(("again", "starts"), [("always", 2), ("failed", 1)])
def test_a_clean_return(world: World, again: str, starts: int) -> None:
    log: list[tuple[str, float]] = []

    async def main(process: Process) -> None:
        await process.clock.sleep(10)

    supervised(world, main, log, again).start()
    world.loop.run_until(16 * NS)
    assert [what for what, _ in log].count("start") == starts


def test_a_crash_from_outside_is_not_undone_and_a_stop_is_clean(world: World) -> None:
    log: list[tuple[str, float]] = []

    async def main(process: Process) -> None:
        try:
            await asyncio.sleep(1e5)
        finally:
            log.append(("finally", world.now_ns() / NS))

    program = supervised(world, main, log)
    program.start()
    world.loop.run_until(10 * NS)
    assert program.crash()
    world.loop.run_until(50 * NS)
    assert log == [("start", 0.0), ("crash", 10.0)]
    program.start_in(1.0)
    world.loop.run_until(60 * NS)
    assert program.stop()
    program.start()
    world.loop.run_until(70 * NS)
    assert log[2:] == [("start", 51.0), ("finally", 60.0), ("stop", 60.0), ("start", 60.0)]


def test_a_stop_that_hangs_is_ended(world: World) -> None:
    log: list[tuple[str, float]] = []

    async def main(process: Process) -> None:
        while True:
            try:
                await asyncio.sleep(1e5)
            except asyncio.CancelledError:
                log.append(("stubborn", world.now_ns() / NS))

    program = supervised(world, main, log)
    program.start()
    world.loop.run_until(10 * NS)
    program.stop()
    world.loop.run_until(50 * NS)
    assert log == [("start", 0.0), ("stubborn", 10.0), ("stop", 20.0)]
