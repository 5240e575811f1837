"""The durable store on SQLite, called inline: nothing starts a thread, and a locked database never blocks.

One append is one transaction. It succeeds only where the last one ended: a second controller on the same file, or a
file that was replaced by its backup, shows as StoreFenced before anything is written. In scope: locked, full, fenced,
damaged (StoreError). Out of scope: bit rot that SQLite itself does not notice.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proverfleet.errors import StoreError, StoreFenced, StoreFull, StoreLocked

SCHEMA_VERSION = 1
SNAPSHOTS_KEPT = 3
PACK_FROM_BYTES = 512
PACK_LEVEL = 1  # a report of 1 000 bytes becomes about 550, for some 15 us

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS snapshots (seq INTEGER PRIMARY KEY, header TEXT NOT NULL, data BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS post_mortems (intent TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID",
)
_FIRST = "INSERT INTO events SELECT ?1, ?2 WHERE ?1 = (SELECT coalesce(max(seq), 0) + 1 FROM events)"
_NEXT = "INSERT INTO events VALUES (?, ?)"


def connect(path: str | Path) -> sqlite3.Connection:
    """A connection as this store needs it: no waiting for locks, WAL and a sync at every commit for files.

    Raises StoreError when the file cannot be opened (SQLite's own text names why)."""
    try:
        db = sqlite3.connect(str(path), timeout=0.0, isolation_level=None, cached_statements=32)
    except sqlite3.Error as exc:
        raise StoreError(f"cannot open the store {path}: {exc}") from exc
    with _typed():
        if str(path) != ":memory:":
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
    return db


@contextmanager
def _typed() -> Iterator[None]:
    """SQLite's errors as the port's own."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _as_port_error(exc) from exc


def _as_port_error(exc: sqlite3.Error) -> StoreError:
    name = getattr(exc, "sqlite_errorname", None) or ""
    text = str(exc)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or "locked" in text:
        return StoreLocked(text)
    if name.startswith("SQLITE_FULL") or "full" in text:
        return StoreFull(text)
    return StoreError(f"{name or type(exc).__name__}: {text}")


def _packed(line: bytes) -> bytes:
    return line if len(line) < PACK_FROM_BYTES else zlib.compress(line, PACK_LEVEL)


def _unpacked(data: bytes) -> bytes:
    """A line as it was handed in: JSON begins with ``{``, a packed one with zlib's own first byte."""
    if data[:1] != b"x":
        return data
    try:
        return zlib.decompress(data)
    except zlib.error as exc:
        raise StoreError(f"an event in the store is damaged: {exc}") from exc


class SqliteStore:
    """The Store port on one SQLite connection (or the path of a file; ":memory:" for a store that dies with us).

    In a file, long events are stored packed: 20 rentals write 40 MB a day at most. Either form is read back.
    """

    __slots__ = ("_db", "_pack")

    def __init__(self, db: sqlite3.Connection | str | Path) -> None:
        self._db = db if isinstance(db, sqlite3.Connection) else connect(db)
        self._pack = not isinstance(db, sqlite3.Connection) and str(db) != ":memory:"
        self._db.isolation_level = None
        with _typed():
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
            found = self._db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0]
        if found != str(SCHEMA_VERSION):
            raise StoreError(f"the store has schema {found}; this program reads schema {SCHEMA_VERSION}")

    async def append(self, records: list[tuple[int, bytes]]) -> None:
        """Appends (seq, bytes), in one transaction. The first must follow the store's last: else StoreFenced."""
        if not records:
            return
        db = self._db
        if self._pack:
            records = [(seq, _packed(line)) for seq, line in records]
        try:
            if len(records) == 1:
                # Alone it is its own transaction; begin and commit would double the cost of a report.
                done = db.execute(_FIRST, records[0]).rowcount
                if done == 1:
                    return
                raise StoreFenced(records[0][0] - 1, self.last_seq())
            db.execute("BEGIN IMMEDIATE")
            if db.execute(_FIRST, records[0]).rowcount != 1:
                raise StoreFenced(records[0][0] - 1, self.last_seq())
            db.executemany(_NEXT, records[1:])
            db.execute("COMMIT")
        except sqlite3.Error as exc:
            self._roll_back()
            raise _as_port_error(exc) from exc
        except StoreError:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        # A failed COMMIT (disk full) leaves the transaction open; the next append would be refused for that.
        if self._db.in_transaction:
            with _typed():
                self._db.execute("ROLLBACK")

    def last_seq(self) -> int:
        """The newest event's number; 0 in an empty store."""
        with _typed():
            found = self._db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        return int(found[0])

    async def load(self, after: int) -> list[bytes]:
        """Every event with a number above ``after``, in order."""
        with _typed():
            rows = self._db.execute("SELECT body FROM events WHERE seq > ? ORDER BY seq", (after,)).fetchall()
        return [_unpacked(row[0]) for row in rows]

    async def save_snapshot(self, seq: int, header: str, data: bytes) -> None:
        """Keeps the newest few; older ones go."""
        with _typed():
            self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (seq, header, data))
            self._db.execute(
                "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)",
                (SNAPSHOTS_KEPT,),
            )

    async def newest_snapshot(self, header: str) -> tuple[int, bytes] | None:
        """The newest one with exactly this header that the journal covers; None when there is none."""
        with _typed():
            row = self._db.execute(
                "SELECT seq, data FROM snapshots WHERE header = ? AND seq <= (SELECT coalesce(max(seq), 0) FROM events)"
                " ORDER BY seq DESC LIMIT 1",
                (header,),
            ).fetchone()
        return (int(row[0]), bytes(row[1])) if row else None

    async def fleet_id(self, fresh: str) -> str:
        """The id made with the database; ``fresh`` becomes it when there is none yet."""
        with _typed():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('fleet', ?)", (fresh,))
            return str(self._db.execute("SELECT value FROM meta WHERE name = 'fleet'").fetchone()[0])

    async def save_post_mortem(self, intent: str, data: bytes) -> None:
        with _typed():
            self._db.execute("INSERT OR REPLACE INTO post_mortems VALUES (?, ?)", (intent, data))

    async def post_mortem(self, intent: str) -> bytes | None:
        with _typed():
            row = self._db.execute("SELECT data FROM post_mortems WHERE intent = ?", (intent,)).fetchone()
        return bytes(row[0]) if row else None

    def close(self) -> None:
        self._db.close()
