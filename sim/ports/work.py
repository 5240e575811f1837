"""The Work port of one controller process, and the consumer's pool behind it.

The consumer (curio) always has tasks unless work.starved says otherwise; what it accepts is its own word.
In scope: starvation, refusals of valid proofs (of everybody or of one machine), counts by intent. Out of scope:
deadlines of single tasks, priorities, who else proves for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proverfleet.domain.ids import IntentId
from proverfleet.errors import LinkDown
from proverfleet.ports import WorkCount, WorkState
from sim.net import PROBE
from sim.truth import NS

if TYPE_CHECKING:
    from sim.process import Process
    from sim.spec import FaultSpec
    from sim.world import World

DEADLINE_NS = 10 * NS


@dataclass(slots=True)
class Refusing:
    """One ``work.rejected`` that is on: since when (ns), for which machine (None: all), how many more (None: any)."""

    fault: FaultSpec
    machine_id: int | None
    since: int
    left: int | None


class WorkPool:
    """The consumer. ``counts``: [accepted, rejected] by intent, since the beginning."""

    __slots__ = ("_dice", "_starving", "counts", "refusing", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts: dict[str, list[int]] = {}
        self.refusing: list[Refusing] = []
        self._starving: dict[tuple[int, int | None], None] = {}
        self._dice = world.streams.get("work")

    def available(self, machine_id: int | None) -> bool:
        """Does the consumer have a task for this machine? None: for anybody."""
        return not any(scope is None or scope == machine_id for _, scope in self._starving)

    def deliver(self, contract_id: int, machine_id: int, at_ns: int, valid: bool) -> bool:
        """A proof arrives; True when the consumer accepts it."""
        accepted = valid and not self._refused(machine_id, at_ns)
        intent = self.world.truth.contracts[contract_id].intent
        if intent is not None:
            count = self.counts.setdefault(intent, [0, 0])
            count[0 if accepted else 1] += 1
        return accepted

    def _refused(self, machine_id: int, at_ns: int) -> bool:
        for one in self.refusing:
            if one.machine_id not in (None, machine_id) or at_ns < one.since:
                continue
            if self._dice.random() >= float(one.fault.params["share"]):
                continue
            if one.left is not None:
                one.left -= 1
                if one.left <= 0:
                    self.world.faults.ended(one.fault, one.machine_id)
                    self.refusing.remove(one)
            return True
        return False

    def starve(self, fault: FaultSpec, machine_id: int | None, on: bool) -> None:
        """work.starved begins or ends."""
        if on:
            self._starving[fault.index, machine_id] = None
        else:
            self._starving.pop((fault.index, machine_id), None)
        self.world.changed()


class DirectWork:
    __slots__ = ("_process", "_world")

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    async def state(self) -> WorkState:
        """Raises LinkDown when the consumer cannot be reached."""
        pool = self._world.work

        async def serve() -> WorkState:
            counts = {IntentId(intent): WorkCount(*count) for intent, count in pool.counts.items()}
            return WorkState(pool.available(None), counts)

        return await self._world.net.call(
            self._process, "work", "", serve, latency=PROBE, path=self._world.net.controller_reachable,
            deadline_ns=DEADLINE_NS, late=lambda: LinkDown("no answer within 10 s"),
        )
