"""What the world notes about the controller from outside: when it runs and hears, and whose books hold which contract.

It reads the stored books (the fold of what was committed) only to say that a contract is in them; nothing here judges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from proverfleet.errors import StoreError
from sim.truth import ListEntryTruth

if TYPE_CHECKING:
    from proverfleet.controller.controller import Controller
    from proverfleet.domain.fleet import Fleet
    from sim.world import World

KIND = b'"kind":"'
REPORTED = b'reported"'
HEAD = 96  # bytes of a line within which its kind stands
KEPT = frozenset((b"alerted", b"braked", b"blacklisted", b"struck", b"end", b"judged", b"ordered", b"extra"))


class Books:
    """Watches the controller's lines as they are stored. ``kept``: (world ns, line) of the kinds that results need."""

    def __init__(self, world: World, controller: Callable[[], Controller | None]) -> None:
        self.world = world
        self.kept: list[tuple[int, dict[str, Any]]] = world.kept_lines
        self._controller = controller
        self._due = False

    def attach(self) -> None:
        self.world.journal.on_line = self._line
        self.world.on_change.append(self._spans)

    def _line(self, line: bytes) -> None:
        start = line.find(KIND, 0, HEAD) + len(KIND)
        if line.startswith(REPORTED, start):
            return
        kind = line[start : line.index(b'"', start)]
        world = self.world
        if not self._due:
            self._due = True
            world.loop.at(world.loop.now_ns, self._look)
        if kind in KEPT:
            self._keep(orjson.loads(line))

    def _keep(self, event: dict[str, Any]) -> None:
        now = self.world.loop.now_ns
        self.kept.append((now, event))
        if event["kind"] == "blacklisted" and event.get("on", True):
            self.world.truth.listed.append(ListEntryTruth(now, event["machine_id"], event["reason"]))

    def _spans(self) -> None:
        world, now = self.world, self.world.loop.now_ns
        process = world.controller
        up = process is not None and process.alive and not process.suspended
        _set(world.truth.controller_up, up, now)
        _set(world.truth.controller_hears, up and world.net.controller_reachable(), now)

    def _look(self) -> None:
        """Which contracts of ours do the stored books hold: as an open rental, or as a destroy that is pending?"""
        self._due = False
        fleet = self._fleet()
        if fleet is None:
            return
        now = self.world.loop.now_ns
        for c in self.world.truth.contracts.values():
            if not c.ours:
                continue
            if c.gone is not None:
                c.accounted.close(c.gone)
                continue
            intent = fleet.by_contract.get(c.contract_id)  # type: ignore[call-overload]
            rental = fleet.rentals.get(intent) if intent is not None else None
            held = (rental is not None and rental.paid) or c.contract_id in fleet.extras
            _set(c.accounted, held, now)

    def _fleet(self) -> Fleet | None:
        controller = self._controller()
        if controller is None:
            return None
        try:
            return controller.fleet
        except StoreError:
            return None  # it is starting: what the books held, they hold


def _set(spans: Any, on: bool, now: int) -> None:
    if on:
        spans.open(now)
    else:
        spans.close(now)
