"""The world of one run: everything that exists in it, whatever anybody believes about it.

Built by ``sim/wiring.py``, which alone knows which market, hosts, controller and agents stand in it.
"""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from sim.faults.engine import FaultEngine
from sim.journal import RunJournal
from sim.loop import SimTask, VirtualLoop
from sim.net import Net
from sim.process import BoxClock, Process
from sim.spec import Scenario
from sim.streams import Streams
from sim.truth import STAGES, Truth

if TYPE_CHECKING:
    from proverfleet.domain.report import Answer, Report
    from sim.host import Container, Host
    from sim.lines import Lines
    from sim.market import SimMarket

F = TypeVar("F")

START_WALL_NS = 1_772_323_200 * 1_000_000_000  # 2026-03-01T00:00:00Z
STAGE_INDEX = {name: i for i, name in enumerate(STAGES)}


def _unset(*args: Any) -> Any:
    raise RuntimeError("the wiring has not set this yet")


class World:
    """One run's world. Times are virtual ns since the start (``now_ns``)."""

    market: SimMarket
    lines: Lines  # between each machine and the controller
    source: Any  # sim.host: the parameter source
    work: Any  # sim.ports.work: the consumer's pool of tasks

    def __init__(
        self, scenario: Scenario, seed: int, adapter: str = "direct", journal: RunJournal | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.adapter = adapter
        self.loop = VirtualLoop()
        self.env = self.loop.env
        self.streams = Streams(seed)
        self.truth = Truth(start_wall_ns=START_WALL_NS)
        self.journal = journal or RunJournal(None)
        self.hosts: dict[int, Host] = {}
        self.boxes: dict[str, BoxClock] = {}  # clocks that outlive processes, by box name ("controller", "machine:N")
        self.controller: Process | None = None
        self.agents: dict[int, Process] = {}  # contract_id -> the agent process that runs in its container
        self.start_container: Callable[[Container], None] = _unset
        self.stop_container: Callable[[Container, str], None] = _unset
        self.order: Callable[[str, dict[str, Any]], Coroutine[Any, Any, None]] = _unset  # the operator's API
        self.receive: Callable[[Report], Coroutine[Any, Any, Answer]] = _unset  # serves a report, in the controller
        self.kept_lines: list[tuple[int, dict[str, Any]]] = []  # (ns, line) of the controller's that results need
        self.on_change: list[Callable[[], None]] = []
        self.on_mark: list[Callable[[str, int | None, int | None], None]] = []
        self.errors: list[tuple[int, str, str]] = []  # (ns, who, traceback): ends by an error that nobody decided about
        self._settling = False
        self._buried: list[Any] = []
        self.faults = FaultEngine(self)
        self.net = Net(self)

    def now_ns(self) -> int:
        return self.loop.now_ns

    def box(self, name: str, booted_ns: int = -3600 * 1_000_000_000) -> BoxClock:
        """The clocks of the box called ``name``; the same ones for every process that runs there."""
        clock = self.boxes.get(name)
        if clock is None:
            clock = self.boxes[name] = BoxClock(self.loop, self.truth.start_wall_ns, booted_ns)
        return clock

    def mark(self, name: str, contract_id: int | None, machine_id: int | None = None) -> None:
        """Stage ``name`` (one of truth.STAGES) began for a contract, or for a machine while it has none yet."""
        now = self.loop.now_ns
        contract = self.truth.contracts.get(contract_id) if contract_id is not None else None
        if contract is not None:
            contract.marks.setdefault(name, []).append(now)
            contract.stage.set(now, STAGE_INDEX[name])
            machine_id = contract.machine_id
        self.record("mark", name=name, contract_id=contract_id, machine_id=machine_id)
        for listener in self.on_mark:
            listener(name, contract_id, machine_id)
        self.faults.marked(name, machine_id)

    def record(self, kind: str, **fields: Any) -> None:
        """A line in the world's stream of the run's journal."""
        self.journal.world(self.loop.now_ns, kind, fields)

    def changed(self) -> None:
        """Something that truth's spans depend on changed: the listeners in ``on_change`` look again, at this
        instant, once."""
        if not self._settling:
            self._settling = True
            self.loop.at(self.loop.now_ns, self._settle)

    def _settle(self) -> None:
        self._settling = False
        for listener in self.on_change:
            listener()

    def note_error(self, who: str, error: BaseException | str) -> None:
        """A program ended, or went on, with an error that nobody decided about: kept for the result of the run."""
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        self.errors.append((self.loop.now_ns, who, text))
        self.record("error", who=who, text=text.strip().rsplit("\n", 1)[-1])

    # ------------------------------------------------------------ the end

    def bury(self, thing: F) -> F:
        """Keeps what a dead process left, so that no ``finally`` of it runs before the run is over."""
        self._buried.append(thing)
        return thing

    def close(self) -> None:
        """Takes the world apart; call once everything about it was read. Whatever code still runs in a ``finally``
        here finds every port cut and changes nothing; what it complains of is nobody's concern any more."""
        for process in (self.controller, *self.agents.values()):
            if process is not None:
                process.alive = False
        complain, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # "was never awaited": dropped, as a crash does
                self._drop_tasks()
                self.journal.close()
                self.loop.failures.clear()
                self.loop.close()
                self.__dict__.clear()
                gc.collect()
        finally:
            sys.unraisablehook = complain

    def _drop_tasks(self) -> None:
        left = [t for t in self._buried if isinstance(t, SimTask)]
        left += [t for t in _all_tasks(self.loop) if not t.done()]
        for task in sorted({t.number: t for t in left}.values(), key=lambda t: t.number):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro: Any = task.get_coro()
            for _ in range(8):  # one that awaits in a finally needs several
                with suppress(BaseException):
                    coro.close()
                    break
        self._buried.clear()


def _all_tasks(loop: VirtualLoop) -> list[SimTask]:
    import asyncio

    return [t for t in asyncio.all_tasks(loop) if isinstance(t, SimTask)]
