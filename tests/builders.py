"""Builders for tests: a fleet, a rental, a report, an offer, with the numbers of a healthy one and knobs for the rest.

Times are given as ages in seconds: ``rental(..., still_s=700)`` is one whose last unit of work is 700 observed s old.
The clock of a built fleet stands at 100 h of observed time, so that any age fits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proverfleet.domain.events import OfferFact, RowFact
from proverfleet.domain.fleet import BATCH, EARNING, NS, Completed, Fleet, Rental
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId, mark
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import ExitFact, GpuFact, Report

NOW_S = 360_000.0
NOW_NS = int(NOW_S * NS)
FLEET = "testfleet"


def fleet(*rentals: Rental, policy: Policy | None = None, target: int | None = None, **fields: Any) -> Fleet:
    """A fleet in the middle of its life: trusted listing, no gap, work waiting, credit, 40 fresh ids."""
    out = Fleet(policy=policy or Policy(), fleet_id=FLEET, target=len(rentals) if target is None else target)
    out.beat, out.heard_ns, out.listed_ns, out.step_ns = 6000, NOW_NS, NOW_NS, 60 * NS
    out.wall_ns = 1_780_000_000 * NS
    out.list_ok, out.inbox_ok, out.list_trust = True, True, "trusted"
    out.credit_usd = 100.0
    out.ids = tuple(f"{i:08x}" for i in range(0xA000, 0xA028))
    for r in rentals:
        add(out, r)
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def add(to: Fleet, r: Rental) -> Rental:
    """Puts a rental (and its row) into a fleet's indices, as the fold would."""
    to.rentals[r.intent] = r
    if r.contract_id is not None:
        to.by_contract[r.contract_id] = r.intent
        if r.row is not None:
            to.rows[r.contract_id] = r.row
    return r


def report(stage: str = "active", **fields: Any) -> Report:
    """A healthy agent's report at one size (p 10, 400 GiB)."""
    base = Report(
        rental=IntentId("r0001"), token="t", boot="b1", seq=100, backlog=0, mono_ns=NOW_NS, clock_id="c1", stage=stage,
        attempt=0, p=10, concurrency=2, daemon="current", version="1", bytes_received=145_000_000_000,
        bytes_hashed=145_000_000_000, bytes_total=145_000_000_000, srs_bytes=47_000_000_000, partitions=500,
        proofs_accepted=50, proofs_failed=0, busy_s=4000.0, starved_s=0.0, restarts_agent=0, restarts_prover=0,
        restarts_container=0, rss_gib=300.0, limit_gib=400.0, disk_free_gb=60.0, rpc_ok=True, facts_read=True,
        gpus=(GpuFact("GPU-1", "RTX 4090", 24_564, 0.9),),
    )
    return replace(base, **fields)


def exited(code: int | None = 1, signal: int | None = None, what: str = "prover", *, oom: bool = False,
           gpu_oom: bool = False) -> ExitFact:
    return ExitFact(what, code, signal, oom, gpu_oom, "")


def row(contract: int = 1, status: str = "running", **fields: Any) -> RowFact:
    base = RowFact(ContractId(contract), MachineId(42_000 + contract), HostId(7_000 + contract), None, status,
                   "running", "running", "success, running image", 0.30, 90.0, 200.0)
    return replace(base, **fields)


def rental(n: int = 1, stage: str = "active", *, still_s: float = 10.0, silent_s: float | None = None,
           heard_s: float = 30.0, loading_s: float | None = None, last: Report | None = None, **fields: Any) -> Rental:
    """Rental ``n`` on machine 42000 + n of host 7000 + n, contract n, with a report unless it is still loading.

    ``still_s``: age of its last unit of work; ``silent_s``: of its last evidence on any channel (default:
    ``heard_s``, or ``still_s`` while loading); ``heard_s``: of its last report; ``loading_s``: of the last move of
    its pull.
    """
    intent = IntentId(f"r{n:04d}")
    out = Rental(intent, n - 1, "", MachineId(42_000 + n), HostId(7_000 + n), "RTX 4090", 1, 24_564, 1.0, 512_000, 0.30,
                 None, 38.0, "ceil(0.3 $/h / 0.008 $/proof) = 38 proofs/h", False, "proverfleet/agent")
    out.contract_id, out.stage, out.create_sent = ContractId(n), stage, True
    order = ("requested", "loading", "setup", "benchmark", "active", "draining", "destroying")
    for i, name in enumerate(order[: order.index(stage) + 1]):
        for stamps in (out.stage_heard_ns, out.stage_listed_ns):
            stamps[name] = NOW_NS - int((20_000 - 1000 * i) * NS)
        out.observed_ns[name] = 1000 * NS
    early = stage in ("requested", "loading")
    agent_stage = {"setup": "params", "benchmark": "batch"}.get(stage, "active")
    out.last = last if last is not None else None if early else report(agent_stage)
    if out.last is not None:
        out.last = replace(out.last, rental=intent)
    out.row = row(n, "loading" if early else "running", label=mark(FLEET, intent))  # type: ignore[arg-type]
    if stage == "requested":
        out.contract_id, out.row = None, None
    quiet_s = silent_s if silent_s is not None else still_s if early else heard_s
    out.progress_heard_ns = ago(still_s)
    out.evidence_heard_ns = ago(quiet_s)
    out.report_heard_ns = ago(heard_s)
    out.status_moved_listed_ns = ago(still_s if loading_s is None else loading_s)
    out.status_moved = early
    out.by_id_ok_beat = 6000
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def ago(seconds: float) -> int:
    """The stamp of something that is so old."""
    return NOW_NS - int(seconds * NS)


def probed(r: Rental, outcome: str, beats_ago: int = 1) -> Rental:
    """Its last probe: what it found, and when."""
    r.probe_outcome, r.probe_beat, r.probe_heard_ns = outcome, 6000 - beats_ago, ago(60.0 * beats_ago)
    return r


def proofs(r: Rental, rate_per_hour: float, count: int = 80) -> Rental:
    """Gives it ``count`` accepted proofs at an even rate, the last one just now, in the phase of its stage."""
    step_s = 3600 / rate_per_hour
    p = r.last.p if r.last is not None and r.last.p is not None else 10
    r.phase, r.phase_attempt = BATCH if r.stage == "benchmark" else EARNING, 0
    r.completed = [
        Completed(i + 1, NOW_NS - int((count - 1 - i) * step_s * NS), "c1", 0, p, 0.0, r.phase, 0, i, i * step_s,
                  i * step_s * step_s)
        for i in range(count)
    ]
    return r


def offer(n: int = 1, price: float = 0.30, rate: float = 50.0, **fields: Any) -> OfferFact:
    base = OfferFact(OfferId(9_000 + n), MachineId(50_000 + n), HostId(8_000 + n), "RTX 4090", 1, 24_564, 1.0, "EPYC",
                     512_000, 2000.0, 1000.0, price, price, rate, price / rate)
    return replace(base, **fields)
