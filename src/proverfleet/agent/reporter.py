"""Makes reports out of what is known. Sends nothing, asks nothing, waits for nothing."""

from __future__ import annotations

from proverfleet.agent.memory import Memory
from proverfleet.agent.outbox import COMPLETIONS_MAX
from proverfleet.agent.settings import AgentSettings, Identity
from proverfleet.domain.report import GpuFact, Report
from proverfleet.ports import Gpu, ParamsStatus, ProverStatus, Readings

NO_LIMIT = float("inf")
PROVING = ("batch", "active", "draining", "stopped")


class Reporter:
    """One per boot of the agent. ``seen_n``: running number of the newest completion that a report carries."""

    __slots__ = ("_boot", "_gpus_made", "_gpus_read", "_identity", "_settings", "seen_n")

    def __init__(self, identity: Identity, settings: AgentSettings, boot: str, seen_n: int) -> None:
        self._identity = identity
        self._settings = settings
        self._boot = boot
        self._gpus_read: tuple[Gpu, ...] | None = None
        self._gpus_made: tuple[GpuFact, ...] | None = None
        self.seen_n = seen_n

    def make(
        self, memory: Memory, mono_ns: int, status: ProverStatus | None, params: ParamsStatus | None,
        readings: Readings, rpc_ok: bool | None,
    ) -> Report:
        """The next report: takes the next ``seq`` and the completions that none before it carried."""
        memory.seq += 1
        total = memory.total
        # The size that proves (a machine's own pinned one may differ from what was asked for); the small one of the
        # warm-up is no size to retry at.
        proves = status is not None and status.p > 0 and memory.stage in PROVING and not memory.between
        return Report(
            rental=self._identity.intent,
            token=self._identity.token,
            boot=self._boot,
            seq=memory.seq,
            backlog=0,
            mono_ns=mono_ns,
            clock_id=memory.clock_id,
            stage=memory.stage,
            attempt=memory.attempt,
            p=status.p if proves and status is not None else memory.p,
            concurrency=status.concurrency if proves and status is not None else memory.concurrency,
            daemon=self._settings.daemon,
            version=self._settings.version,
            bytes_received=memory.received_high,
            bytes_hashed=memory.bytes_hashed,
            bytes_total=memory.bytes_total,
            srs_bytes=total[0],
            partitions=total[1],
            proofs_accepted=total[2],
            proofs_failed=total[3],
            busy_s=total[4],
            starved_s=total[5],
            restarts_agent=memory.restarts_agent,
            restarts_prover=memory.restarts_prover,
            restarts_container=memory.restarts_container,
            last_completions=self._completions(memory, status) if memory.stage in PROVING else (),
            rss_gib=status.rss_gib if status is not None and status.alive else readings.rss_gib,
            limit_gib=readings.limit_gib if readings.limit_gib != NO_LIMIT else None,
            disk_free_gb=readings.disk_free_gb,
            down_mbps=memory.down_mbps,
            pcie_gb_per_s=memory.pcie_gb_per_s,
            gpus=self._gpus(readings.gpus),
            rpc_ok=rpc_ok,
            exit=memory.exit,
            bench=memory.bench,
            bench_rate_proofs_per_hour=memory.bench_rate,
            waiting=memory.waiting,
            file_failures=params.file_failures if params is not None else 0,
            digests_differ=params.digests_differ if params is not None else False,
            params_error=params.error if params is not None else None,
            fails_in_a_row=memory.fails_in_a_row,
            facts_read=memory.facts_read,
            acks=memory.unacked,
        )

    def _completions(self, memory: Memory, status: ProverStatus | None) -> tuple[tuple[int, int], ...]:
        """(running number over the rental's life, mono ns), oldest first; the rest of too many goes with the next."""
        if status is None or memory.between or not status.completions:
            return ()
        offset, seen = memory.base.accepted, self.seen_n
        if offset + status.completions[-1].n <= seen:
            return ()
        fresh: list[tuple[int, int]] = []
        for done in reversed(status.completions):
            if offset + done.n <= seen:
                break
            fresh.append((offset + done.n, done.mono_ns))
        fresh.reverse()
        carried = tuple(fresh[:COMPLETIONS_MAX])
        self.seen_n = carried[-1][0]
        return carried

    def _gpus(self, read: tuple[Gpu, ...] | None) -> tuple[GpuFact, ...] | None:
        if read is None:
            return None
        if read != self._gpus_read:
            self._gpus_read = read
            self._gpus_made = tuple(
                GpuFact(g.uuid, g.name, g.memory_mb, g.util, g.temp_c, g.pcie_gb_per_s, g.xid, g.foreign_load)
                for g in read
            )
        return self._gpus_made
