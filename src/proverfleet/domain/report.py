"""What an agent reports, and what it is answered (contracts.md section 3).

All counters are cumulative over restarts of daemon, agent and container, and never fall: loss, repetition and
reordering of reports cost nothing.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from proverfleet.domain.ids import IntentId
from proverfleet.domain.record import record

REPORT_VERSION = 1

AGENT_STAGES = ("hello", "tunnel", "params", "sizing", "warmup", "batch", "active", "draining", "stopped")


@record
class GpuFact:
    uuid: str
    name: str | None = None
    memory_mb: int | None = None
    util: float | None = None
    temp_c: float | None = None
    pcie_gb_per_s: float | None = None
    xid: int | None = None
    foreign_load: float | None = None


@record
class ExitFact:
    """The last end of daemon or benchmark in this attempt. ``what``: prover | bench | params."""

    what: str
    code: int | None
    signal: int | None
    oom_kill: bool
    gpu_oom: bool
    log_tail: str


@record
class Report:
    """One report. ``boot`` is the agent's boot id, ``seq`` rises over all boots of this rental.

    ``attempt`` counts proving attempts from 0; a changed ``attempt`` or ``sizing`` starts a new rate window.
    ``last_completions``: (running number over the rental's life, agent monotonic ns) of the newest accepted proofs
    at the current attempt (at most 20, oldest first); the clock is comparable only within one ``clock_id``.
    ``bench``: (accepted, failed, seconds) once the batch of this attempt ended with a result.
    ``waiting``: what the agent waits for ("retry" after an exit, "" otherwise).
    ``facts``: what arrival checks found (None before "sizing"; each value nullable).
    """

    rental: IntentId
    token: str
    boot: str
    seq: int
    backlog: int
    mono_ns: int
    clock_id: str
    stage: str
    attempt: int
    p: int | None
    concurrency: int | None
    daemon: str
    version: str
    bytes_received: int
    bytes_hashed: int
    bytes_total: int
    srs_bytes: int
    partitions: int
    proofs_accepted: int
    proofs_failed: int
    busy_s: float
    starved_s: float
    restarts_agent: int
    restarts_prover: int
    restarts_container: int
    last_completions: tuple[tuple[int, int], ...] = ()
    rss_gib: float | None = None
    limit_gib: float | None = None
    disk_free_gb: float | None = None
    down_mbps: float | None = None
    pcie_gb_per_s: float | None = None
    gpus: tuple[GpuFact, ...] | None = None
    rpc_ok: bool | None = None
    exit: ExitFact | None = None
    bench: tuple[int, int, float] | None = None
    bench_rate_proofs_per_hour: float | None = None
    waiting: str = ""
    file_failures: int = 0
    digests_differ: bool = False
    params_error: str | None = None
    fails_in_a_row: int = 0
    facts_read: bool = False
    acks: tuple[str, ...] = ()


@record
class Directive:
    """An order to an agent; it does each ``id`` once and acknowledges it in its next report.

    ``what``: retry {p, concurrency} | restart_prover {} | resize {p} | drain {} | repair_tunnel {} | over {}.
    """

    id: str
    what: str
    args: dict[str, Any] = field(default_factory=dict)


@record
class Answer:
    """``over``: the rental has ended (or is unknown and not ours); the agent stops work."""

    directives: tuple[Directive, ...] = ()
    over: bool = False
