"""What every Store has to do, on a file and in memory."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from proverfleet.controller.store import SqliteStore, connect
from proverfleet.errors import StoreError, StoreFenced, StoreFull, StoreLocked

T = TypeVar("T")


def do(coro: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coro)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(":memory:" if request.param == "memory" else tmp_path / "pf.db")
    yield made
    made.close()


def test_what_was_appended_is_loaded_in_order(store: SqliteStore) -> None:
    do(store.append([(1, b"a"), (2, b"b")]))
    do(store.append([(3, b"c")]))
    do(store.append([]))
    assert do(store.load(0)) == [b"a", b"b", b"c"]
    assert do(store.load(2)) == [b"c"]
    assert store.last_seq() == 3


def test_long_events_come_back_as_they_were_and_take_less_room_in_a_file(store: SqliteStore) -> None:
    line = b'{"seq":1,"kind":"reported","report":{' + b",".join(b'"counter_%d":%d' % (n, n) for n in range(60)) + b"}}"
    do(store.append([(1, line)]))
    do(store.append([(2, line), (3, b"{}")]))
    assert do(store.load(0)) == [line, line, b"{}"]
    kept = store._db.execute("SELECT length(body) FROM events WHERE seq = 1").fetchone()[0]
    assert kept == len(line) or kept < 0.6 * len(line)


@pytest.mark.parametrize("seqs", [[1], [2], [5], [2, 3], [5, 6]])
def test_an_append_out_of_order_is_fenced_and_writes_nothing(store: SqliteStore, seqs: list[int]) -> None:
    do(store.append([(1, b"a"), (2, b"b")]))
    with pytest.raises(StoreFenced) as caught:
        do(store.append([(n, b"x") for n in seqs]))
    assert (caught.value.expected, caught.value.found) == (seqs[0] - 1, 2)
    assert do(store.load(0)) == [b"a", b"b"]
    do(store.append([(3, b"c")]))


def test_a_batch_that_breaks_in_the_middle_writes_nothing(store: SqliteStore) -> None:
    with pytest.raises(StoreError):
        do(store.append([(1, b"a"), (2, b"b"), (2, b"again")]))
    assert do(store.load(0)) == []
    do(store.append([(1, b"a")]))


def test_the_newest_snapshot_with_this_header(store: SqliteStore) -> None:
    do(store.append([(n, b"x") for n in range(1, 101)]))
    for seq in (10, 20, 30):
        do(store.save_snapshot(seq, "fold=1", b"at %d" % seq))
    do(store.save_snapshot(90, "fold=2", b"other"))
    assert do(store.newest_snapshot("fold=1")) == (30, b"at 30")
    assert do(store.newest_snapshot("fold=3")) is None


def test_a_snapshot_ahead_of_the_journal_is_not_used(store: SqliteStore) -> None:
    do(store.append([(1, b"a")]))
    do(store.save_snapshot(7, "h", b"of a journal that was replaced by its backup"))
    assert do(store.newest_snapshot("h")) is None


def test_fleet_id_and_post_mortems(store: SqliteStore) -> None:
    assert do(store.fleet_id("abcd")) == "abcd"
    assert do(store.fleet_id("efgh")) == "abcd"
    assert do(store.post_mortem("i1")) is None
    do(store.save_post_mortem("i1", b"one"))
    do(store.save_post_mortem("i1", b"two"))
    assert do(store.post_mortem("i1")) == b"two"


def test_a_locked_file_is_said_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "pf.db")
    other = sqlite3.connect(tmp_path / "pf.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for records in ([(1, b"a")], [(1, b"a"), (2, b"b")]):
        with pytest.raises(StoreLocked):
            do(store.append(records))
    other.execute("ROLLBACK")
    other.close()
    do(store.append([(1, b"a")]))
    assert do(store.load(0)) == [b"a"]
    store.close()


def test_a_full_disk_is_said_and_leaves_the_store_usable(tmp_path: Path) -> None:
    db = connect(tmp_path / "pf.db")
    store = SqliteStore(db)
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull):
        do(store.append([(1, os.urandom(100_000))]))
    with pytest.raises(StoreFull):
        do(store.append([(1, b"a"), (2, os.urandom(100_000))]))
    db.execute("PRAGMA max_page_count = 100000")
    do(store.append([(1, b"a"), (2, b"b")]))
    assert do(store.load(0)) == [b"a", b"b"]
    store.close()


def test_what_is_on_disk_survives_and_a_second_writer_is_fenced(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "pf.db")
    do(first.append([(1, b"a")]))
    second = SqliteStore(tmp_path / "pf.db")
    assert do(second.load(0)) == [b"a"]
    do(second.append([(2, b"b")]))
    with pytest.raises(StoreFenced):
        do(first.append([(2, b"other")]))
    first.close()
    second.close()


def test_a_schema_of_another_version_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "pf.db")
    db.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    db.execute("INSERT INTO meta VALUES ('schema', '99')")
    db.commit()
    db.close()
    db = connect(tmp_path / "pf.db")
    with pytest.raises(StoreError, match="schema 99"):
        SqliteStore(db)
    db.close()


def test_a_path_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "pf.db").write_text("this is a text, and a long one, so that its head is no database's\n" * 20)
    with pytest.raises(StoreError):
        SqliteStore(tmp_path / "pf.db")
    with pytest.raises(StoreError, match=r"nowhere"):
        SqliteStore(tmp_path / "nowhere" / "pf.db")
