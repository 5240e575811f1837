"""The controller's store under faults: locked, full, answering with old states, replaced by an old backup.

In scope: the Store port's typed errors; writes of a dead process; backups as whole databases. Out of scope: torn
writes within one transaction (SQLite's own promise), a lost disk.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from proverfleet.controller.journal import encode
from proverfleet.controller.store import SqliteStore
from proverfleet.domain.events import Event, Ordered
from proverfleet.errors import StoreFull, StoreLocked
from sim.loop import NS
from sim.spec import FaultSpec

if TYPE_CHECKING:
    from sim.process import Process
    from sim.world import World

OLD_S = 600.0  # reads "old": what was stored this long ago
BACKUP_EVERY_S = 600.0
KNOWN_PROOFS = 100  # behind a rate that is known beforehand


class Database:
    """One database on the controller's disk: it outlives processes. ``locked`` and ``full``: the faults that are on.
    ``remembers``: a fault may ask when what was stored, so appends are noted."""

    __slots__ = ("_backups", "_log", "db", "full", "full_left", "hide_snapshots", "locked", "remembers", "world")

    def __init__(self, world: World, *, remember: bool) -> None:
        self.world = world
        self.db = sqlite3.connect(":memory:", timeout=0.0, isolation_level=None)
        SqliteStore(self.db)
        self.locked: FaultSpec | None = None
        self.full: FaultSpec | None = None
        self.full_left = 0.0
        self.hide_snapshots = False
        self.remembers = remember
        self._log: list[tuple[int, int]] = []  # (time, newest seq), only where a fault may ask for it
        self._backups: list[tuple[int, bytes]] = []

    def keep_backups(self) -> None:
        """Backs itself up now and every 10 min: for scenarios that restore one."""
        loop = self.world.loop
        self._backups.append((loop.now_ns, self.db.serialize()))
        loop.at(loop.now_ns + round(BACKUP_EVERY_S * NS), self.keep_backups)

    def restore(self, age_s: float) -> int:
        """Becomes its newest backup that is at least ``age_s`` old (the first one where none is). Returns that
        backup's time in ns. The fleet's id stays: it was made with the database."""
        wanted = self.world.loop.now_ns - round(age_s * NS)
        when, data = next(((t, d) for t, d in reversed(self._backups) if t <= wanted), self._backups[0])
        fleet = self.db.execute("SELECT value FROM meta WHERE name = 'fleet'").fetchone()
        self.db.deserialize(data)
        if fleet is not None:
            self.db.execute("INSERT OR REPLACE INTO meta VALUES ('fleet', ?)", fleet)
        return when

    def appended(self, seq: int) -> None:
        self._log.append((self.world.loop.now_ns, seq))

    def seq_at(self, when_ns: int) -> int:
        """The newest event's number as it was at ``when_ns``."""
        return next((seq for t, seq in reversed(self._log) if t <= when_ns), 0)

    def close(self) -> None:
        self.db.close()


class FaultStore:
    """The Store port of one controller process; what it appends goes into the run's journal, byte for byte."""

    __slots__ = ("_base", "_journal", "_process", "_store")

    def __init__(self, process: Process, base: Database) -> None:
        self._process = process
        self._base = base
        self._store = SqliteStore(base.db)
        self._journal = process.world.journal

    async def append(self, records: list[tuple[int, bytes]]) -> None:
        process, base = self._process, self._base
        if not process.alive:
            await process.never()
        if base.locked is not None or base.full is not None:
            self._check_write(sum(len(line) for _, line in records))
        await self._store.append(records)
        now, name, write = process.loop.now_ns, process.name, self._journal.controller
        for _, line in records:
            write(now, name, line)
        if base.remembers and records:
            base.appended(records[-1][0])

    async def load(self, after: int) -> list[bytes]:
        limit = self._check_read()
        lines = await self._store.load(after)
        return lines if limit is None else lines[: max(0, limit - after)]

    async def save_snapshot(self, seq: int, header: str, data: bytes) -> None:
        self._check_write(len(data))
        await self._store.save_snapshot(seq, header, data)

    async def newest_snapshot(self, header: str) -> tuple[int, bytes] | None:
        limit = self._check_read()
        if self._base.hide_snapshots:
            self._base.hide_snapshots = False  # one start cannot use them; what it saves itself, the next one can
            return None
        found = await self._store.newest_snapshot(header)
        return None if found is None or (limit is not None and found[0] > limit) else found

    async def fleet_id(self, fresh: str) -> str:
        if self._base.locked is not None:
            self._check_write(0)
        return await self._store.fleet_id(fresh)

    async def save_post_mortem(self, intent: str, data: bytes) -> None:
        self._check_write(len(data))
        await self._store.save_post_mortem(intent, data)

    async def post_mortem(self, intent: str) -> bytes | None:
        self._check_read()
        return await self._store.post_mortem(intent)

    def _check_write(self, size: int) -> None:
        base = self._base
        if base.locked is not None:
            raise StoreLocked("database is locked")
        if base.full is not None:
            base.full_left -= size
            if base.full_left < 0:
                raise StoreFull("database or disk is full")

    def _check_read(self) -> int | None:
        """StoreLocked where reads fail; the newest number that may be seen where they are old; None: all of it."""
        locked = self._base.locked
        how = "ok" if locked is None else locked.params.get("reads", "ok")
        if how == "fail":
            raise StoreLocked("database is locked")
        if how == "old":
            return self._base.seq_at(self._process.loop.now_ns - round(OLD_S * NS))
        return None


def remember(world: World, database: Database, image: str) -> None:
    """Writes what reputation knows before the run (``known_rate_proofs_per_hour``) where a fleet that was there before
    would have left it: in the store, as orders that stand before the first start."""
    seq, wall_ns = 0, world.truth.start_wall_ns
    for m in world.scenario.machines:
        if m.known_rate_proofs_per_hour is None:
            continue
        seq += 1
        line = encode(Event(seq, wall_ns, Ordered("history", {
            "machine_id": m.id, "gpu_name": m.gpu, "num_gpus": m.gpus, "gpu_frac": m.gpu_frac, "image": image,
            "rate_proofs_per_hour": m.known_rate_proofs_per_hour, "proofs": KNOWN_PROOFS,
        })))
        database.db.execute("INSERT INTO events VALUES (?, ?)", (seq, line))
        world.journal.controller(0, "controller", line)
