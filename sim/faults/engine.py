"""Switches the scenario's faults on and off at their times and marks, and says which ones are on.

Two sorts. A kind with a registered ``apply`` happens by itself: the engine calls it, and its undo when ``for`` is over.
A kind without one acts on calls and messages: whoever serves those asks :meth:`FaultEngine.active` and reports a hit
with :meth:`FaultEngine.consume`. All that is random was drawn before the run (sim/scenario.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from sim.faults.catalogue import blame_of, duration_s
from sim.loop import NS
from sim.spec import FaultSpec
from sim.truth import FiredTruth

if TYPE_CHECKING:
    from sim.world import World

Undo = Callable[[], None] | None
Apply = Callable[[FaultSpec, "int | None"], "Undo | Literal[False]"]
"""``apply(spec, machine_id)`` switches a fault on and returns what switches it off (None: nothing to undo). False: it
took no effect (nothing runs there), so it did not fire; one that takes effect later calls :meth:`FaultEngine.fire`."""

EACH_MACHINE = ("host", "prover", "tunnel", "agent")
"""Families whose faults happen to machines: without ``machine`` they are applied to every one."""


class AnyMachine:
    """The type of ``ANY``: a question that is about no machine in particular."""


ANY: Final = AnyMachine()


@dataclass(slots=True)
class Active:
    """A fault that is on. ``machines`` None: everywhere. ``left``: calls that it still hits (None: no limit)."""

    spec: FaultSpec
    machines: frozenset[int] | None
    left: int | None
    undo: Undo = None
    fired: list[FiredTruth] = field(default_factory=list)


class FaultEngine:
    """The scenario's faults in one run. Built with the world; :meth:`start` once every ``apply`` is registered."""

    __slots__ = ("_apply", "_by_mark", "_on", "_reached", "_stopped", "counts", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts: dict[str, int] = {}  # kind -> times it really hit something
        self._apply: dict[str, Apply] = {}
        self._on: dict[str, list[Active]] = {}
        self._by_mark: dict[str, list[FaultSpec]] = {}
        self._reached: dict[tuple[int, int | None], int] = {}
        self._stopped = False

    # ------------------------------------------------------------ set-up

    def register(self, kind: str, apply: Apply) -> None:
        """``apply`` makes ``kind`` happen. One owner a kind."""
        if kind in self._apply:
            raise ValueError(f"fault kind {kind!r} has two owners")
        self._apply[kind] = apply

    def register_all(self, table: Mapping[str, Apply]) -> None:
        for kind, apply in table.items():
            self.register(kind, apply)

    def has(self, kind: str) -> bool:
        """Does the scenario schedule this kind at all?"""
        return any(spec.kind == kind for spec in self.world.scenario.faults)

    def start(self) -> None:
        """Schedules everything. Call at time 0."""
        for spec in self.world.scenario.faults:
            if spec.mark:
                self._by_mark.setdefault(spec.mark, []).append(spec)
            else:
                self._schedule(spec, round(spec.at_s * NS), spec.machines, repeats=1)

    @property
    def stopped(self) -> bool:
        """The faults have ended: what was only waiting for its moment must not happen any more."""
        return self._stopped

    # ------------------------------------------------------------ what is on

    def active(self, kind: str, machine_id: int | AnyMachine | None = ANY) -> FaultSpec | None:
        """The oldest fault of ``kind`` that is on for ``machine_id``; None when there is none.

        ``ANY`` (left out): any fault of the kind, whatever its scope. None: the call is about no machine, so only
        faults without a scope match."""
        on = self._on.get(kind)
        if not on:
            return None
        for entry in on:
            if machine_id is ANY or entry.machines is None or machine_id in entry.machines:
                return entry.spec
        return None

    def all_active(self, kind: str, machine_id: int | AnyMachine | None = ANY) -> list[FaultSpec]:
        """Every fault of ``kind`` that is on for ``machine_id``, oldest first."""
        on = self._on.get(kind)
        if not on:
            return []
        return [e.spec for e in on if machine_id is ANY or e.machines is None or machine_id in e.machines]

    def consume(self, spec: FaultSpec, machine_id: int | None = None) -> None:
        """A call or message was hit by ``spec``: counts it, records that it fired, ends it when ``times`` are used."""
        for entry in self._on.get(spec.kind, ()):
            if entry.spec is spec:
                if not entry.fired:
                    only = next(iter(entry.machines)) if entry.machines and len(entry.machines) == 1 else None
                    self._record(entry, only)
                else:
                    self._count(spec.kind)
                if entry.left is not None:
                    entry.left -= 1
                    if entry.left <= 0:
                        self._end(entry)
                return

    def ended(self, spec: FaultSpec, machine_id: int | None = None) -> None:
        """A fault came to its end by itself (a restart cured it) before its ``for`` was over; no undo is called."""
        for entry in list(self._on.get(spec.kind, ())):
            if entry.spec is spec and (entry.machines is None or machine_id is None or machine_id in entry.machines):
                entry.undo = None
                self._end(entry)

    # ------------------------------------------------------------ the schedule

    def marked(self, name: str, machine_id: int | None) -> None:
        """A stage mark was reached (sim/world.py calls this)."""
        specs = self._by_mark.get(name)
        if not specs:
            return
        for spec in specs:
            if spec.machines is not None and machine_id not in spec.machines:
                continue
            if self._stopped and not spec.always:
                continue
            lasting = spec.kind in self._apply
            key = (spec.index, machine_id)
            count = self._reached.get(key, 0) + 1
            self._reached[key] = count
            if lasting and count > (spec.times if spec.times is not None else 1):
                continue
            scope = None if spec.machines is None and not self._each_machine(spec) else [machine_id or 0]
            self._schedule(spec, self.world.loop.now_ns + round(spec.at_s * NS), scope, repeats=1)

    def _each_machine(self, spec: FaultSpec) -> bool:
        return spec.kind.partition(".")[0] in EACH_MACHINE

    def _schedule(self, spec: FaultSpec, at_ns: int, machines: list[int] | None, repeats: int) -> None:
        loop = self.world.loop

        def go() -> None:
            if self._stopped and not spec.always:
                return
            self._switch_on(spec, machines)
            if spec.every_s is not None and (spec.mark or spec.times is None or repeats < spec.times):
                self._schedule(spec, at_ns + round(spec.every_s * NS), machines, repeats + 1)

        if at_ns <= loop.now_ns and spec.kind not in self._apply:
            go()
        else:
            loop.at(max(at_ns, loop.now_ns), go)

    def _switch_on(self, spec: FaultSpec, machines: list[int] | None) -> None:
        apply = self._apply.get(spec.kind)
        if apply is None:
            scope = None if machines is None else frozenset(machines)
            on = self._on.setdefault(spec.kind, [])
            if any(e.spec is spec and e.machines == scope for e in on):
                return
            entry = Active(spec, scope, spec.times)
            on.append(entry)
            self._arm_end(entry)
            self.world.changed()
            return
        targets: list[int | None] = list(machines) if machines is not None else [None]
        if machines is None and self._each_machine(spec):
            targets = [m.id for m in self.world.scenario.machines]
        for machine_id in targets:
            self._apply_to(spec, machine_id, apply)
        self.world.changed()

    def _apply_to(self, spec: FaultSpec, machine_id: int | None, apply: Apply) -> None:
        undo = apply(spec, machine_id)
        if undo is not False:
            self.fire(spec, machine_id, undo)

    def fire(self, spec: FaultSpec, machine_id: int | None, undo: Undo = None, *, until_ended: bool = False) -> None:
        """An applied fault takes effect now: recorded, and undone when its duration (from now) is over.

        ``until_ended``: it has no duration; :meth:`ended` or the end of the faults ends it."""
        entry = Active(spec, None if machine_id is None else frozenset((machine_id,)), None, undo)
        self._record(entry, machine_id)
        for_s = None if until_ended else duration_s(spec)
        if for_s == 0 or (for_s is None and undo is None and not until_ended):
            self._close(entry)
            if undo is not None:
                undo()
            return
        self._on.setdefault(spec.kind, []).append(entry)
        if for_s is not None:
            self._arm_end(entry)

    def _arm_end(self, entry: Active) -> None:
        for_s = duration_s(entry.spec)
        if for_s is not None:
            loop = self.world.loop
            loop.at(loop.now_ns + round(for_s * NS), lambda: self._end(entry))

    def _end(self, entry: Active) -> None:
        on = self._on.get(entry.spec.kind)
        if on is None or entry not in on:
            return
        on.remove(entry)
        if not on:
            del self._on[entry.spec.kind]
        self._close(entry)
        if entry.undo is not None:
            entry.undo()
        self.world.changed()

    def _close(self, entry: Active) -> None:
        for fired in entry.fired:
            fired.end = self.world.loop.now_ns
            self.world.record("fault_ended", fault=fired.kind, index=fired.index, machine_id=fired.machine_id)

    # ------------------------------------------------------------ records

    def _record(self, entry: Active, machine_id: int | None) -> None:
        spec = entry.spec
        fired = FiredTruth(spec.kind, spec.index, machine_id, self.world.loop.now_ns, None, blame_of(spec))
        entry.fired.append(fired)
        self.world.truth.fired.append(fired)
        self._count(spec.kind)
        self.world.record("fault", fault=spec.kind, index=spec.index, machine_id=machine_id)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def stop_all(self) -> int:
        """The liveness phase begins: ends every fault but the ``always`` ones, starts none any more. Returns the
        moment in ns."""
        self._stopped = True
        for kind in list(self._on):
            for entry in list(self._on.get(kind, ())):
                if not entry.spec.always:
                    self._end(entry)
        self.world.record("faults_end")
        return self.world.loop.now_ns

