"""The journal's bytes: the hot path writes what the codec says, and what is no event is named as such."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from fakes_ports import FakeClock, FlakyStore, Life, run
from samples import SAMPLES
from shell import rent

from proverfleet.controller.journal import Journal, decode, encode
from proverfleet.domain import codec, fold
from proverfleet.domain.events import Alerted, Booted, Event, EventBody, Ordered
from proverfleet.errors import StoreLocked


def test_there_is_a_sample_of_every_kind() -> None:
    assert {type(b).KIND for b in SAMPLES} == {k.KIND for k in EventBody.__subclasses__()}


@pytest.mark.parametrize("body", SAMPLES, ids=lambda b: b.KIND)
def test_encode_writes_what_the_codec_says_and_decode_reads_it_back(body: EventBody) -> None:
    event = Event(7, 1_772_323_200_000_000_000, body)
    line = encode(event)
    assert list(orjson.loads(line)) == list(codec.event_to_dict(event))
    assert orjson.loads(line) == orjson.loads(orjson.dumps(codec.event_to_dict(event)))
    assert decode(line) == event


@pytest.mark.parametrize("data", [
    b"", b"{", b"null", b"[]", b"17", b"\xff\xfe", b"{}", b'{"seq":1}',
    b'{"seq":1,"wall_ns":1,"kind":"nonsense","v":1}',
    b'{"seq":1,"wall_ns":1,"kind":"beat","v":1}', b'{"seq":1,"wall_ns":1,"kind":"beat","v":1,"n":',
])
def test_garbage_is_named(data: bytes) -> None:
    with pytest.raises(codec.CodecError):
        decode(data)


def test_what_is_not_stored_is_not_believed() -> None:
    async def main() -> None:
        store = FlakyStore()
        seen: list[tuple[int, bytes]] = []
        journal = Journal(store, FakeClock(Life()), fold.new_fleet(), 0, on_committed=lambda n, b: seen.append((n, b)))
        await journal.commit((Booted("b", "0", "f00d", {}, 2),))
        store.error = StoreLocked("locked")
        with pytest.raises(StoreLocked):
            await journal.commit((rent(),))
        assert journal.seq == 1 and not journal.fleet.rentals
        store.error = None
        await journal.commit((rent(), Alerted("a", "k", "t", None)))
        assert journal.seq == 3 and list(journal.fleet.rentals) == ["aaaa0001"]
        assert [n for n, _ in seen] == [1, 2, 3] and [b for _, b in seen] == await store.load(0)

    run(main())


def test_commits_keep_their_order_while_the_store_is_slow() -> None:
    async def main() -> list[Any]:
        class Slow(FlakyStore):
            async def append(self, records: list[tuple[int, bytes]]) -> None:
                await asyncio.sleep(1)
                await super().append(records)

        store = Slow()
        journal = Journal(store, FakeClock(Life()), fold.new_fleet(), 0)
        await journal.commit((Booted("b", "0", "f00d", {}, 2),))
        loop = asyncio.get_running_loop()
        orders = [Ordered("target", {"value": n}) for n in range(6)]
        tasks = [loop.create_task(journal.commit((order,))) for order in orders[:4]]
        await asyncio.sleep(0.5)
        tasks[2].cancel()

        async def both() -> None:
            async with journal.turn:
                await journal.write((orders[4],))
                await journal.write((orders[5],))

        tasks.append(loop.create_task(both()))
        for task in tasks:
            try:
                await task
            except asyncio.CancelledError:
                continue
        return [decode(line).body.args["value"] for line in (await store.load(1))]  # type: ignore[attr-defined]

    assert run(main()) == [0, 1, 3, 4, 5]
