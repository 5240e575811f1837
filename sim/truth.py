"""The world's own record: what really happened, whatever anybody believes. Written by the world, read by the oracle.

Nothing in here comes from the controller's mind. ``CallTruth`` is written when a call *leaves* the controller's
process (so a request that is lost on the way still counts as sent). All times are virtual ns since the start.

Intervals are closed lists of ``[start, end]``; the last one may have ``end`` None (still going).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

NS = 1_000_000_000


class Spans:
    """Ordered, non-overlapping intervals of something being so. Open and close as it happens."""

    __slots__ = ("spans",)

    def __init__(self) -> None:
        self.spans: list[list[int | None]] = []

    @property
    def on(self) -> bool:
        return bool(self.spans) and self.spans[-1][1] is None

    def open(self, now: int) -> None:
        if self.on:
            return
        if self.spans and self.spans[-1][1] == now:
            self.spans[-1][1] = None
            return
        self.spans.append([now, None])

    def close(self, now: int) -> None:
        if self.on:
            self.spans[-1][1] = now

    def last_on(self, at: int) -> int | None:
        """The latest moment <= ``at`` at which it was so; None: never before."""
        best: int | None = None
        for start, end in self.spans:
            if start is not None and start > at:
                break
            best = at if end is None or end >= at else end
        return best

    def covers(self, start: int, end: int) -> bool:
        """Was it so during the whole of [start, end]?"""
        return any(a is not None and a <= start and (b is None or b >= end) for a, b in self.spans)

    def total(self, start: int, end: int) -> int:
        """ns within [start, end] in which it was so."""
        out = 0
        for a, b in self.spans:
            assert a is not None
            lo, hi = max(a, start), min(end if b is None else b, end)
            if hi > lo:
                out += hi - lo
        return out


class Steps:
    """A piecewise constant value over time: [(t, value)], rising t."""

    __slots__ = ("times", "values")

    def __init__(self, value: float = 0.0) -> None:
        self.times: list[int] = [0]
        self.values: list[float] = [value]

    def set(self, now: int, value: float) -> None:
        if self.values[-1] == value:
            return
        if self.times[-1] == now:
            self.values[-1] = value
        else:
            self.times.append(now)
            self.values.append(value)

    def at(self, t: int) -> float:
        return self.values[max(0, bisect_right(self.times, t) - 1)]

    def mean(self, start: int, end: int) -> float:
        """Time-weighted mean over [start, end]; the value at ``start`` when the span is empty."""
        if end <= start:
            return self.at(start)
        total, i = 0.0, max(0, bisect_right(self.times, start) - 1)
        t = start
        while t < end:
            nxt = self.times[i + 1] if i + 1 < len(self.times) else end
            nxt = min(nxt, end)
            total += self.values[i] * (nxt - t)
            t, i = nxt, i + 1
        return total / (end - start)


@dataclass(slots=True)
class ExitTruth:
    """An end of the prover (or bench) by its own failure. ``kind``: oom | crash | bench_error | gpu | params."""

    at: int
    kind: str
    fault: int | None  # index of the fault that caused it; None: the memory model, by itself


@dataclass(slots=True)
class ContractTruth:
    """One contract of the market, ours or not, and what its container really did."""

    contract_id: int
    machine_id: int
    host_id: int
    label: str | None
    ours: bool
    intent: str | None
    price_usd_per_hour: float
    created: int
    gone: int | None = None
    gone_by: str = ""  # destroy | market | lease
    running: int | None = None
    paid_usd: float = 0.0
    paid: Steps = field(default_factory=Steps)  # $/h as billed, over time
    marks: dict[str, list[int]] = field(default_factory=dict)  # stage mark -> times at which it began
    progress: Spans = field(default_factory=Spans)  # units of work of its stage were being finished
    work_available: Spans = field(default_factory=Spans)  # there was something to do (own or given)
    busy: Spans = field(default_factory=Spans)  # the prover had proofs in flight
    stage: Steps = field(default_factory=Steps)  # index into STAGES
    potential: Steps = field(default_factory=Steps)  # proofs/h at the best size that fits, as things stand
    accepted: list[int] = field(default_factory=list)  # times of proofs that the consumer accepted (active)
    proofs: list[int] = field(default_factory=list)  # times of valid proofs of any stage
    invalid: list[int] = field(default_factory=list)  # times of wrong proofs
    exits: list[ExitTruth] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)  # times of proofs that the consumer refused, right or wrong
    accounted: Spans = field(default_factory=Spans)  # in the controller's books: open rental, pending destroy
    broken: Spans = field(default_factory=Spans)  # container exited, or cannot start (the market says so)
    price: Steps = field(default_factory=Steps)  # $/h agreed for it, over time
    setup_left_s: Steps = field(default_factory=Steps)  # fetch + hash time left at that moment's rate
    unfit: str = ""  # cause, when no size on this machine can reach its min_rate
    market_stopped: Spans = field(default_factory=Spans)
    host_offline: Spans = field(default_factory=Spans)
    dark: Spans = field(default_factory=Spans)  # every evidence channel was dark
    agent_reachable: Spans = field(default_factory=Spans)  # reports pass
    proof_s: float = 0.0  # mean time of a proof in flight (latency), for drains
    in_flight: Spans = field(default_factory=Spans)
    lost_proofs: int = 0
    attempts: int = 0
    lease_called: int | None = None
    bandwidth_mbps: float = 0.0
    restarts_agent: int = 0
    restarts_prover: int = 0
    restarts_container: int = 0


STAGES = ("requested", "created", "running", "registered", "params", "warmup", "batch", "active", "draining",
          "destroying", "gone")


@dataclass(slots=True)
class CallTruth:
    """A call of the controller on the market: when it left, what came of it in the world."""

    op: str
    sent: int
    by: str  # name of the controller process
    contract_id: int | None = None
    machine_id: int | None = None
    label: str | None = None
    done: bool = False  # the deed was done in the world
    failed: bool = False  # the caller saw an error


@dataclass(slots=True)
class FiredTruth:
    kind: str
    index: int
    machine_id: int | None
    start: int
    end: int | None
    blame: str


@dataclass(slots=True)
class OrderTruth:
    """What the scenario's operator really asked for."""

    at: int
    what: str
    machine_id: int | None = None
    value: Any = None


@dataclass(slots=True)
class ListEntryTruth:
    """A blacklist entry as the controller made it known (its journal line), with the world's time."""

    at: int
    machine_id: int
    reason: str


@dataclass(slots=True)
class Truth:
    start_wall_ns: int = 0
    contracts: dict[int, ContractTruth] = field(default_factory=dict)
    calls: list[CallTruth] = field(default_factory=list)
    fired: list[FiredTruth] = field(default_factory=list)
    orders: list[OrderTruth] = field(default_factory=list)
    listed: list[ListEntryTruth] = field(default_factory=list)
    target: Steps = field(default_factory=Steps)
    controller_up: Spans = field(default_factory=Spans)  # runs, not suspended
    controller_hears: Spans = field(default_factory=Spans)  # runs, not suspended, a packet could reach it
    beats: list[int] = field(default_factory=list)
    beats_failed: int = 0
    controller_starts: int = 0
    controller_exits: int = 0
    credit: Steps = field(default_factory=Steps)
    potential: dict[int, Steps] = field(default_factory=dict)  # by machine_id, rented or not
    policy: dict[str, float] = field(default_factory=dict)  # the numbers that the run started with
    hours_end: int = 0  # when the scenario's hours were over
    faults_end: int = 0  # when the last fault cleared (liveness phase starts)
    end: int = 0
