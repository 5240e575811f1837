"""The run's file: two streams, one hash, read back to the last whole line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.journal import JournalError, RunJournal, read_run


def write(path: Path | None, **header: object) -> RunJournal:
    journal = RunJournal(path, {"scenario": "x", "seed": 1, **header})
    journal.world(5, "mark", {"name": "created", "contract_id": 7})
    journal.controller(6, "controller", b'{"seq":1,"wall_ns":9,"kind":"beat","v":1}')
    journal.controller(7, "controller-2", b'{"seq":2,"wall_ns":9,"kind":"beat","v":1}')
    journal.flush()
    journal.world(8, "faults_end", {})
    return journal


def test_round_trip_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    journal = write(path, versions={"python": "3.11.7"})
    digest = journal.sha256()
    journal.close()
    back = read_run(path)
    assert back.header["seed"] == 1 and not back.cut
    assert [(x["src"], x["t"]) for x in back.lines] == [
        ("world", 5), ("controller", 6), ("controller", 7), ("world", 8)]
    assert next(iter(back.controller_lines())) == {"seq": 1, "wall_ns": 9, "kind": "beat", "v": 1}
    assert b'{"src":"controller","t":6,"seq":1,"wall_ns":9,"kind":"beat","v":1}\n' in path.read_bytes()
    assert write(None, versions={"python": "other"}).sha256() == digest
    assert write(None, other=1).sha256() != digest


def test_a_cut_off_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    write(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    back = read_run(path)
    assert back.cut and len(back.lines) == 3


@pytest.mark.parametrize("damage", ["cut", "zero", "swap"])
def test_damage_in_the_middle_is_one_clear_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.journal"
    write(path).close()
    data = path.read_bytes()
    middle = data.index(b'"seq":1')
    if damage == "cut":
        data = data[:middle] + data[middle + 60 :]
    elif damage == "zero":
        data = data[:middle] + b"\0" * 10 + data[middle + 10 :]
    else:
        lines = data.split(b"\n")
        lines[1], lines[4] = lines[4], lines[1]
        data = b"\n".join(lines)
    path.write_bytes(data)
    with pytest.raises(JournalError, match=r"line \d"):
        read_run(path)


def test_other_files_are_no_journals(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b'{"a":1}\n')
    with pytest.raises(JournalError, match="not a line of a run's journal"):
        read_run(path)
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="no whole line"):
        read_run(path)
    with pytest.raises(JournalError, match="cannot read"):
        read_run(tmp_path / "missing")
