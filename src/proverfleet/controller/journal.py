"""The journal: every event is stored first and believed afterwards.

``encode`` is the hot path (each report passes it): orjson writes the body's dataclass as it stands (a report without
its usual values), which gives the same keys as ``codec.event_to_dict`` (a test compares all kinds).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import orjson

from proverfleet.domain import codec, fold, terse
from proverfleet.domain.events import Event, EventBody, Reported
from proverfleet.domain.fleet import Fleet
from proverfleet.errors import StoreError, StoreFenced
from proverfleet.ports import Clock, Store

Committed = Callable[[int, bytes], None]

_HEADS: dict[type[EventBody], bytes] = {}


def _head(body_type: type[EventBody]) -> bytes:
    head = _HEADS[body_type] = b'"kind":"%s","v":%d' % (body_type.KIND.encode(), body_type.V)
    return head


def encode(event: Event) -> bytes:
    """One line of the journal, without a line end: ``{"seq":…,"wall_ns":…,"kind":…,"v":…, <the body's fields>}``."""
    body = event.body
    head = _HEADS.get(type(body)) or _head(type(body))
    fields = orjson.dumps({"report": terse.shortened(body.report)} if isinstance(body, Reported) else body)
    if fields == b"{}":
        return b'{"seq":%d,"wall_ns":%d,%s}' % (event.seq, event.wall_ns, head)
    return b'{"seq":%d,"wall_ns":%d,%s,%s' % (event.seq, event.wall_ns, head, fields[1:])


def decode(data: bytes) -> Event:
    """The event of one line; older versions are lifted. Raises ``codec.CodecError``, naming what is wrong."""
    try:
        line = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise codec.CodecError(f"not JSON ({exc}): {data[:80]!r}") from exc
    if not isinstance(line, dict):
        raise codec.CodecError(f"a journal line is an object, not {type(line).__name__}: {data[:80]!r}")
    return codec.event_from_dict(line)


class Journal:
    """Numbers, stores and applies events, one transaction at a time, in the order in which they were handed in.

    ``fleet`` is the folded view of exactly what is stored. ``on_committed(seq, line)`` sees each line after its commit.
    ``retired``: its boot is over; what still runs of that boot writes nothing any more (StoreFenced).
    """

    __slots__ = ("_batch", "_clock", "_on_committed", "_store", "fleet", "retired", "seq", "since_snapshot", "turn")

    def __init__(
        self, store: Store, clock: Clock, fleet: Fleet, seq: int, *, on_committed: Committed | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_committed = on_committed
        self.turn = asyncio.Lock()
        self._batch: list[tuple[EventBody, asyncio.Future[None]]] | None = None
        self.fleet = fleet
        self.seq = seq
        self.since_snapshot = 0
        self.retired = False

    async def commit(self, bodies: Sequence[EventBody]) -> None:
        """Stores ``bodies`` in one transaction, then applies them. Raises StoreError: nothing was stored or applied."""
        async with self.turn:
            await self.write(bodies)

    async def commit_with_others(self, body: EventBody) -> None:
        """As :meth:`commit`, in one transaction with whatever else arrives in this turn of the loop: what a store can
        do in a second is bound by its syncs. Raises StoreError, to all of them."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._batch is not None:
            self._batch.append((body, mine))
            await mine
            return
        batch = self._batch = [(body, mine)]
        failed: BaseException | None = None
        try:
            await asyncio.sleep(0)
            async with self.turn:
                self._batch = None
                await self.write([b for b, _ in batch])
        except BaseException as exc:
            self._batch = None if self._batch is batch else self._batch
            failed = exc if isinstance(exc, Exception) else StoreError("the commit was given up")
            raise
        finally:
            for _, turn in batch[1:]:
                if turn.done():
                    continue
                if failed is None:
                    turn.set_result(None)
                else:
                    turn.set_exception(failed)

    async def write(self, bodies: Sequence[EventBody]) -> None:
        """As :meth:`commit`, for a caller that holds ``turn`` so that nobody's event comes between its commits."""
        if not bodies:
            return
        if self.retired:
            raise StoreFenced(self.seq, self.seq)
        wall_ns = self._clock.wall_ns()
        seq = self.seq
        if len(bodies) == 1:  # a report: the hot path
            events = [Event(seq + 1, wall_ns, bodies[0])]
            lines = [(seq + 1, encode(events[0]))]
        else:
            events = [Event(seq + i, wall_ns, body) for i, body in enumerate(bodies, 1)]
            lines = [(event.seq, encode(event)) for event in events]
        await self._store.append(lines)
        # Stored: from here on it happened, and is believed.
        self.seq = seq + len(events)
        self.since_snapshot += len(events)
        broken: Exception | None = None
        fleet = self.fleet
        for event in events:
            try:
                fold.apply(fleet, event)
            except Exception as exc:  # one event that the fold cannot take must not keep the rest from it
                broken = broken or exc
        if self._on_committed is not None:
            for number, line in lines:
                self._on_committed(number, line)
        if broken is not None:
            raise broken
