"""Replay decides the same beside the record, backtest lists what a policy would change, diff finds the first event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from proverfleet.controller.brain import DefaultBrain
from proverfleet.domain.policy import Policy
from sim.cli import invoke
from sim.journal import JournalError, read_run
from sim.replay import backtest, first_difference, replay, stored
from sim.run import run
from sim.scenario import load


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journals") / "slow-host.journal"
    run(load("slow-host"), 1, journal=path)
    return path


def changed(journal: Path, to: Path, of_kind: str, **fields: Any) -> Path:
    """The journal with fields of the first event of one kind changed."""
    lines, done = [], False
    for line in journal.read_bytes().splitlines():
        data = orjson.loads(line)
        if not done and data.get("src") == "controller" and data.get("kind") == of_kind:
            done = True
            line = orjson.dumps({**data, **fields})
        lines.append(line)
    to.write_bytes(b"\n".join(lines) + b"\n")
    return to


def test_the_same_code_decides_the_same(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = replay(read_run(journal), DefaultBrain())
    assert found.first is None and found.beats > 400 and found.decisions > 2
    assert any(r.verdict == "slow" for r in found.fleet.rentals.values())
    assert invoke(["replay", str(journal)]) == 0
    assert "the same decisions" in capsys.readouterr().out


def test_a_changed_decision_is_the_first_difference(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed(journal, tmp_path / "other.journal", "end", verdict="stalled")
    assert invoke(["replay", str(other)]) == 4
    out = capsys.readouterr().out
    assert "differs" in out and "verdict was 'stalled', is 'slow'" in out


def test_it_reads_up_to_the_last_whole_line(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.journal"
    cut.write_bytes(journal.read_bytes()[: journal.stat().st_size * 2 // 3])
    assert invoke(["replay", str(cut)]) == 0
    assert "only begun" in capsys.readouterr().err


def test_another_policy_is_a_backtest(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, changes = backtest(read_run(journal), DefaultBrain(), Policy.of({"rate_early_share": 0.9}))
    assert all(c.recorded_s != c.decided_s for c in changes)
    _, same = backtest(read_run(journal), DefaultBrain(), Policy())
    assert same == []
    policy = tmp_path / "p.toml"
    policy.write_text("oom_retries = 3")
    assert invoke(["replay", str(journal), "--policy", str(policy)]) == 0
    assert "0 decisions would differ" in capsys.readouterr().out


def test_a_line_that_is_no_event_is_named(journal: Path, tmp_path: Path) -> None:
    other = changed(journal, tmp_path / "other.journal", "listed", kind="nonsense")
    with pytest.raises(JournalError, match=r"line \d+: no event of a controller"):
        stored(read_run(other))
    assert invoke(["replay", str(other)]) == 2


def test_diff(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(journal, tmp_path / "other.journal", "end", verdict="stalled")
    found = first_difference(read_run(journal), read_run(other))
    assert found is not None and found[1] is not None and found[1]["kind"] == "end"
    assert invoke(["diff", str(journal), str(other)]) == 1
    out = capsys.readouterr().out
    assert 'verdict: "slow" | "stalled"' in out
    assert invoke(["diff", str(journal), str(journal)]) == 0


def test_determinism_is_checked_against_a_fresh_process(capfd: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "slow-host", "--seed", "3", "--check-determinism"]) == 0
    assert "byte for byte" in capfd.readouterr().err
