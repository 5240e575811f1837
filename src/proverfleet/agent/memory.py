"""What the agent keeps on the container's disk, so that a restart resumes instead of starting over.

Everything is written at once with every report *before* that report can leave: what was reported can therefore never
be taken back by a crash, and cumulative counters never fall.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter, lt
from typing import Any, NamedTuple

from proverfleet.domain.report import AGENT_STAGES, ExitFact
from proverfleet.ports import ProverStatus

LAYOUT = 1
IDS_KEPT = 200
CLOCK_MOVED_NS = 60_000_000_000


class Counts(NamedTuple):
    """The daemon's counters: of this daemon (``last``), or of all the ones before it (``base``)."""

    srs_bytes: int = 0
    partitions: int = 0
    accepted: int = 0
    failed: int = 0
    busy_s: float = 0.0
    starved_s: float = 0.0

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3], self[4] + other[4],
            self[5] + other[5],
        )

    def fell_from(self, before: Counts) -> bool:
        """Is any counter lower than it was? Then another daemon is counting."""
        return any(map(lt, self, before))


@dataclass(slots=True)
class Memory:
    """``between``: the last daemon's counts are in ``base`` already; whatever a dead daemon still shows is not counted
    again. ``seen_n``/``acked_n``: running number of the newest completion put into a report, and acknowledged.
    ``daemon_*``: the daemon that was started last; ``daemon_up``: it has not been known to end.
    ``taken``: the directive in work; ``done``: ids never to be done again; ``unacked``: done, to be acknowledged.
    """

    rental: str
    layout: int = LAYOUT
    stage: str = "hello"
    attempt: int = 0
    p: int | None = None
    concurrency: int | None = None
    seq: int = 0
    # counters
    base: Counts = field(default_factory=Counts)
    last: Counts = field(default_factory=Counts)
    between: bool = True
    received_high: int = 0
    hashed_base: int = 0
    hashed_last: int = 0
    bytes_total: int = 0
    fails_in_a_row: int = 0
    acked_n: int = 0
    restarts_agent: int = 0
    restarts_prover: int = 0
    restarts_container: int = 0
    # clocks
    container: str = ""
    clock_id: str = ""
    mono_ns: int = 0
    wall_ns: int = 0
    answered_mono_ns: int = 0
    unit_mono_ns: int = 0
    # the machine
    facts_read: bool = False
    down_mbps: float | None = None
    pcie_gb_per_s: float | None = None
    # the daemon and its benchmark
    daemon_p: int | None = None
    daemon_concurrency: int | None = None
    daemon_up: bool = False
    restart_due: bool = False
    batch_on: bool = False
    batch_mono_ns: int = 0
    batch_accepted: int = 0
    batch_failed: int = 0
    bench: tuple[int, int, float] | None = None
    bench_rate: float | None = None
    exit: ExitFact | None = None
    waiting: str = ""
    # directives and the end
    taken: str = ""
    done: tuple[str, ...] = ()
    unacked: tuple[str, ...] = ()
    over: bool = False
    leased: bool = False

    @property
    def total(self) -> Counts:
        """Counts over the rental's life."""
        return self.base.plus(self.last)

    @property
    def bytes_hashed(self) -> int:
        return self.hashed_base + self.hashed_last

    def dump(self) -> dict[str, Any]:
        """Plain, immutable values in a fresh dict: whoever keeps it need not copy."""
        data = dict(zip(_NAMES, _VALUES(self), strict=True))
        data["base"] = tuple(self.base)
        data["last"] = tuple(self.last)
        if self.exit is not None:
            data["exit"] = (
                self.exit.what, self.exit.code, self.exit.signal, self.exit.oom_kill, self.exit.gpu_oom,
                self.exit.log_tail,
            )
        return data


_NAMES = tuple(f.name for f in fields(Memory))
_VALUES = attrgetter(*_NAMES)


def load(data: dict[str, Any] | None, rental: str) -> Memory | None:
    """What was kept, or None: no file, another rental's, another layout, or one that cannot be read."""
    if not isinstance(data, dict) or data.get("layout") != LAYOUT or data.get("rental") != rental:
        return None
    try:
        values = {name: data[name] for name in _NAMES if name in data}
        values["base"], values["last"] = Counts(*values["base"]), Counts(*values["last"])
        values["done"], values["unacked"] = tuple(values["done"]), tuple(values["unacked"])
        bench, end = values.get("bench"), values.get("exit")
        values["bench"] = (int(bench[0]), int(bench[1]), float(bench[2])) if bench is not None else None
        values["exit"] = ExitFact(*end) if end is not None else None
        memory = Memory(**values)
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    return memory if memory.stage in AGENT_STAGES else None


# ---------------------------------------------------------------- counting


def count_daemon(memory: Memory, status: ProverStatus) -> None:
    """Takes over what the daemon counts. Never lowers a total, whatever it shows."""
    if memory.between:
        if not status.alive:
            return
        memory.between = False
    now = Counts(
        status.srs_bytes, status.partitions, status.proofs_accepted, status.proofs_failed, status.busy_s,
        status.starved_s,
    )
    last = memory.last
    if now == last:
        return
    if now.fell_from(last):
        memory.base, last = memory.base.plus(last), Counts()
    if now.accepted > last.accepted:
        memory.fails_in_a_row = 0
    elif now.failed > last.failed:
        memory.fails_in_a_row += now.failed - last.failed
    memory.last = now


def close_daemon(memory: Memory) -> None:
    """This daemon counts no more: its counts go to ``base``. Call after it is gone, before another one starts."""
    memory.base, memory.last = memory.total, Counts()
    memory.between = True
    memory.batch_on = False


def count_params(memory: Memory, received: int, hashed: int, total: int) -> None:
    """Bytes of the fetch. A file that fails its checksum lowers ``received``: the highest is kept (rules.md section 2).
    Bytes hashed again after a restart are work done again, and count."""
    memory.received_high = max(memory.received_high, received)
    if hashed < memory.hashed_last:
        memory.hashed_base += memory.hashed_last
    memory.hashed_last = hashed
    memory.bytes_total = total


def units(memory: Memory) -> tuple[int, ...]:
    """Everything that is a unit of work; it rises exactly when one was finished."""
    base, last = memory.base, memory.last
    return (
        memory.received_high, memory.bytes_hashed, base.srs_bytes + last.srs_bytes, base.partitions + last.partitions,
        base.accepted + last.accepted, base.failed + last.failed,
    )


# ---------------------------------------------------------------- clocks


def wind_clocks(memory: Memory, mono_ns: int, wall_ns: int, fresh_id: str) -> None:
    """Decides at the start whether the monotonic clock is still the one of before.

    It is not when it fell, or when it moved by over a minute against the wall clock (a reboot in between; a step of the
    wall clock looks the same and only costs a fresh rate window). Ages then start anew.
    """
    same = (
        memory.clock_id != ""
        and mono_ns >= memory.mono_ns
        and abs((wall_ns - mono_ns) - (memory.wall_ns - memory.mono_ns)) <= CLOCK_MOVED_NS
    )
    if not same:
        memory.clock_id = fresh_id
        memory.answered_mono_ns = memory.unit_mono_ns = mono_ns
    memory.mono_ns, memory.wall_ns = mono_ns, wall_ns


# ---------------------------------------------------------------- directives


def take(memory: Memory, directive_id: str) -> None:
    """From here on this directive is never begun again; written before anything of it is done."""
    memory.taken = directive_id
    memory.done = (*memory.done, directive_id)[-IDS_KEPT:]


def finish(memory: Memory) -> None:
    """The directive in work is done: the next report acknowledges it. No-op when there is none."""
    if memory.taken:
        memory.unacked = (*memory.unacked, memory.taken)
        memory.taken = ""
