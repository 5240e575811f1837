"""The virtual loop: one order for both sorts of time, whole ns, no real waiting, errors that end the run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.loop import NS, Deadlock, Forbidden, Livelock, RunFailed, VirtualLoop

ROOT = Path(__file__).parents[3]


def test_one_order_for_timers_and_simpy_at_one_instant() -> None:
    loop, seen = VirtualLoop(), []
    for i in range(6):
        if i % 2:
            event = loop.env.timeout(5 * NS)
            assert event.callbacks is not None
            event.callbacks.append(lambda _, i=i: seen.append(i))
        else:
            loop.call_later(5.0, seen.append, i)
    loop.at(5 * NS, lambda: seen.append(6))
    loop.run_until(5 * NS)
    assert seen == [0, 1, 2, 3, 4, 5, 6]


def test_equal_deadlines_keep_their_order_whatever_was_cancelled() -> None:
    for cancelled in range(5):
        loop, seen = VirtualLoop(), []
        for timer in [loop.call_later(1.0, seen.append, -1) for _ in range(cancelled)]:
            timer.cancel()
        for i in range(10):
            loop.call_later(1.0, seen.append, i)
        loop.run_until(NS)
        assert seen == list(range(10))


def test_consequences_of_an_entry_come_before_the_next_entry_of_that_instant() -> None:
    loop, seen = VirtualLoop(), []
    loop.call_later(1.0, lambda: loop.call_soon(seen.append, "consequence"))
    loop.call_later(1.0, seen.append, "next")
    loop.run_until(NS)
    assert seen == ["consequence", "next"]


def test_sleeps_of_a_tenth_add_up_to_whole_nanoseconds() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(0.1)

    loop.run(main())
    assert loop.now_ns == 100 * NS


def test_cancelled_timers_do_not_pile_up() -> None:
    loop = VirtualLoop()
    fired: list[int] = []
    loop.call_later(1e6, fired.append, 1)
    for _ in range(10_000):
        loop.call_later(5e5, fired.append, 0).cancel()
    assert len(loop.heap) < 1_000
    loop.run_until(10**6 * NS)
    assert fired == [1]


def test_a_task_awaits_a_simpy_process_and_sees_its_own_exception() -> None:
    class TwoArguments(Exception):
        def __init__(self, one: int, *, two: int) -> None:
            super().__init__(one)

    loop = VirtualLoop()

    def body(fails: bool):  # type: ignore[no-untyped-def]
        yield loop.env.timeout(3 * NS)
        if fails:
            raise TwoArguments(1, two=2)
        return "done"

    async def main() -> str:
        with pytest.raises(TwoArguments):
            await loop.event_future(loop.env.process(body(True)))
        result: str = await loop.event_future(loop.env.process(body(False)))
        return result

    assert loop.run(main()) == "done"
    assert loop.now_ns == 6 * NS


def test_simpy_refuses_float_time() -> None:
    with pytest.raises(TypeError, match="integer ns"):
        VirtualLoop().env.timeout(0.5)


def test_an_error_in_a_callback_or_a_lost_task_ends_the_run() -> None:
    loop = VirtualLoop()
    loop.call_later(1.0, lambda: 1 // 0)
    with pytest.raises(RunFailed, match="ZeroDivisionError") as caught:
        loop.run_until(2 * NS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)

    loop = VirtualLoop()

    async def fails() -> None:
        raise KeyError("nobody looks")

    loop.call_later(1.0, lambda: loop.create_task(fails()) and None)
    loop.at(3 * NS, lambda: None)
    with pytest.raises(RunFailed, match="nobody looks"):
        loop.run_until(3 * NS)


def test_nothing_left_and_endless_callbacks_are_named() -> None:
    loop = VirtualLoop()

    async def waits() -> None:
        await loop.create_future()

    task = loop.create_task(waits(), name="the-one-that-waits")
    with pytest.raises(Deadlock, match="the-one-that-waits"):
        loop.run_until(NS)
    task.cancel()
    loop.run_until(0)

    loop = VirtualLoop()

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(Livelock):
        loop.run_until(NS)


def test_threads_and_names_are_forbidden() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        with pytest.raises(Forbidden):
            await asyncio.to_thread(print)
        with pytest.raises(Forbidden):
            await loop.getaddrinfo("example.org", 80)

    loop.run(main())


def test_timeouts_locks_and_groups_of_asyncio_work() -> None:
    loop = VirtualLoop()

    async def main() -> list[str]:
        seen = []
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(100)
        lock = asyncio.Lock()

        async def one(name: str) -> None:
            async with lock:
                await asyncio.sleep(1)
                seen.append(name)

        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(one(name))
        return seen

    assert loop.run(main()) == ["a", "b", "c"]
    assert loop.now_ns == 13 * NS


SCRIPT = """
import asyncio, hashlib
from sim.loop import VirtualLoop
loop, seen = VirtualLoop(), []
async def child(i):
    try:
        await asyncio.sleep(i % 7)
        seen.append(f"done {i}")
        if i == 70:
            raise ValueError
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        seen.append(f"cancelled {i} {asyncio.current_task().get_name()}")
        raise
async def main():
    try:
        async with asyncio.TaskGroup() as group:
            for i in range(140):
                group.create_task(child(i))
    except* ValueError:
        pass
    done, _ = await asyncio.wait([loop.create_task(asyncio.sleep(1, i)) for i in range(50)])
    seen.append(str([t.result() for t in done]))
loop.run(main())
print(hashlib.sha256("|".join(seen).encode()).hexdigest())
"""


def test_the_same_order_in_fresh_processes_under_any_hash_seed() -> None:
    seen = set()
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=env)
        seen.add(out.stdout)
    assert len(seen) == 1
