"""Prints what the virtual loop costs beside raw SimPy, in operations per CPU second. It asserts nothing.

Run: ``python tests/bench/bench_loop.py``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any

import simpy

from sim.loop import NS, VirtualLoop
from sim.process import Process
from sim.spec import Scenario
from sim.world import World

N = 200_000
PARALLEL = 100


def simpy_timeouts(env: Any, count: int) -> Generator[Any, Any, None]:
    for _ in range(count):
        yield env.timeout(1000)


def raw_simpy() -> int:
    env = simpy.Environment()
    for _ in range(PARALLEL):
        env.process(simpy_timeouts(env, N // PARALLEL))
    env.run()
    return N


def simpy_on_the_loop() -> int:
    loop = VirtualLoop()
    for _ in range(PARALLEL):
        loop.env.process(simpy_timeouts(loop.env, N // PARALLEL))
    loop.run_until(1000 * (N // PARALLEL))
    return N


def timers() -> int:
    loop, left = VirtualLoop(), N

    def again() -> None:
        nonlocal left
        left -= 1
        if left >= PARALLEL:
            loop.call_later(1.0, again)

    for _ in range(PARALLEL):
        loop.call_later(1.0, again)
    loop.run_while(lambda: left > 0)
    return N


def plain_calls() -> int:
    loop, left = VirtualLoop(), N

    def again() -> None:
        nonlocal left
        left -= 1
        if left >= PARALLEL:
            loop.at(loop.now_ns + NS, again)

    for _ in range(PARALLEL):
        loop.at(NS, again)
    loop.run_until((N // PARALLEL) * NS)
    return N


def process_sleeps() -> int:
    world = World(Scenario("bench"), 1)
    process = Process(world, "p")

    async def sleeper() -> None:
        for _ in range(N // PARALLEL):
            await process.clock.sleep(1.0)

    for _ in range(PARALLEL):
        process.spawn(sleeper(), "sleeper")
    world.loop.run_until((N // PARALLEL) * NS)
    return N


def asyncio_sleeps() -> int:
    loop = VirtualLoop()

    async def sleeper() -> None:
        for _ in range(N // PARALLEL):
            await asyncio.sleep(1.0)

    for _ in range(PARALLEL):
        loop.create_task(sleeper())
    loop.run_until((N // PARALLEL) * NS)
    return N


def requests() -> int:
    world = World(Scenario("bench"), 1)
    client, server = Process(world, "client"), Process(world, "server")

    async def serve() -> int:
        return 1

    async def asks() -> None:
        for _ in range(N // PARALLEL):
            await world.net.call(client, "send", 1, serve, callee=server)

    for _ in range(PARALLEL):
        client.spawn(asks(), "asks")
    world.loop.at(10**6 * NS, lambda: None)
    world.loop.run_until(10**4 * NS)
    return N


def measure(name: str, run: Callable[[], int]) -> None:
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        count = run()
        best = max(best, count / (time.process_time() - start))
    print(f"{name:28} {best:12,.0f} /s")


if __name__ == "__main__":
    for what in (raw_simpy, simpy_on_the_loop, timers, plain_calls, process_sleeps, asyncio_sleeps, requests):
        measure(what.__name__.replace("_", " "), what)
