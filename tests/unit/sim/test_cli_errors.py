"""Wrong use of ``sim``: exit code 2, one line on stderr that names the mend, nothing on stdout, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.cli import app, invoke

MACHINE = '[[machine]]\nid = 7\nhost = 70\nprice_usd_per_hour = 0.3\n'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(f'name = "good"\n{MACHINE}')
    (tmp_path / "bad-key.toml").write_text(f'name = "x"\nhoures = 6\n{MACHINE}')
    (tmp_path / "bad-kind.toml").write_text(f'name = "x"\n[[fault]]\nkind = "tunel.down"\n{MACHINE}')
    (tmp_path / "bad-unit.toml").write_text(f'name = "x"\n[[fault]]\nkind = "tunnel.down"\nat = "25x"\n{MACHINE}')
    (tmp_path / "bad-machine.toml").write_text(
        f'name = "x"\n[fleet]\ndeploy = [{{ machine = 8, at = "0m" }}]\n{MACHINE}')
    (tmp_path / "bad-policy.toml").write_text("silence_s = 5")
    (tmp_path / "bad.toml").write_text("name = ")
    (tmp_path / "folder").mkdir()
    (tmp_path / "cut.journal").write_text('{"src":"header","format":1}\n{"src":"world","t":')
    (tmp_path / "corrupt.journal").write_text('{"src":"header","format":1}\nno\n{"src":"world","t":5,"kind":"x"}\n')
    (tmp_path / "no.journal").write_text("hello\n")
    (tmp_path / "empty.journal").write_text("")
    (tmp_path / "nothing.log").write_text("nothing\n")
    return tmp_path


@pytest.mark.parametrize(("line", "says"), [
    ("rnu", "Did you mean 'run'?"),
    ("run --seed x", "--seed x: is no whole number"),
    ("run --seed -3", "must be from 0 to"),
    ("run --seed", "requires an argument"),
    ("run --sed 3", "No such option"),
    ("run m1457", 'did you mean "m1475"?'),
    ("run none.toml", "no such scenario"),
    ("run folder", "is a folder"),
    ("run bad.toml", "is no TOML"),
    ("run bad-key.toml", 'did you mean "hours"?'),
    ("run bad-kind.toml", 'did you mean "tunnel.down"?'),
    ("run bad-unit.toml", 'unknown unit "x"'),
    ("run bad-machine.toml", "machine 8 does not exist"),
    ("run good.toml --policy none.toml", "no such policy file"),
    ("run good.toml --policy bad-policy.toml", "silence_s = 5 is below"),
    ("run good.toml --policy legaci", "no such policy file"),
    ("run good.toml --adapter served", "no such wiring"),
    ("run good.toml --journal folder", "is a folder"),
    ("run good.toml --journal nowhere/x.journal", "there is no folder"),
    ("run good.toml extra", "unexpected extra argument"),
    ("replay", "Missing argument"),
    ("replay none.journal", "cannot read the journal"),
    ("replay no.journal", "line 1"),
    ("replay empty.journal", "no whole line"),
    ("replay corrupt.journal", "line 2"),
    ("replay folder", "cannot read the journal"),
    ("diff no.journal", "Missing argument"),
    ("diff cut.journal none.journal", "cannot read the journal"),
    ("sweep --seeds 5..1", "runs backwards"),
    ("sweep --seeds a..b", "is no range"),
    ("sweep good.toml --seeds 1..2 -j 0", "-j 0"),
    ("sweep good.toml --seeds 1..2 -j many", "-j many"),
    ("sweep good.toml --seeds 1..2 --store good.toml", "is no folder"),
    ("faults tunel.down", 'did you mean "tunnel.down"?'),
    ("import none.log", "cannot be read"),
    ("import nothing.log", "neither a benchmark nor a dashboard row"),
])
def test_wrong_use(line: str, says: str, elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(p.name for p in elsewhere.rglob("*"))
    assert invoke(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    lines = err.strip().splitlines()
    assert lines[-1].startswith("sim")
    assert all(" not used (" in one for one in lines[:-1])
    assert sorted(p.name for p in elsewhere.rglob("*")) == before


@pytest.mark.parametrize("command", ["", "run", "replay", "diff", "sweep", "scenarios", "faults", "import"])
def test_help_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*command.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert "Usage: sim" in out and err == ""


def test_commands_of_later_are_not_listed() -> None:
    named = [c.name or c.callback.__name__ for c in app.registered_commands if c.callback]
    assert sorted(named) == ["diff", "faults", "import", "replay", "run", "scenarios", "sweep"]


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["scenarios"]) == 0
    assert "m1475" in capsys.readouterr().out
    assert invoke(["faults"]) == 0
    assert "half_open" in capsys.readouterr().out
    assert invoke(["faults", "controller.crash"]) == 0
    assert "create.replied" in capsys.readouterr().out


def test_import_prints_a_scenario_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    from sim.scenario import parse

    log = Path(__file__).parents[2] / "data" / "m1475.log"
    assert invoke(["import", str(log)]) == 0
    out, err = capsys.readouterr()
    assert parse(out).machines[0].price_usd_per_hour == 0.296
    assert err == ""


def test_a_journal_never_overwrites_anything_else(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("name = 'mine'")
    assert invoke(["run", "m1475", "--seed", "1", "--journal", str(mine)]) == 2
    assert mine.read_text() == "name = 'mine'"


def test_a_journal_with_a_line_missing_is_no_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = tmp_path / "run.jsonl"
    assert invoke(["run", "oom", "--seed", "1", "--journal", str(whole)]) == 0
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.write_bytes(b"".join(lines[:500] + lines[503:]))
    assert invoke(["replay", str(whole)]) == 2
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["silence_s = nan", "cap_usd_per_day = inf", "lost_listings = 0", "price_margin = 9",
                                  "start_backoff_s = [-1]", "creates_per_beat = 0", "rate_early_share = 5"])
def test_a_policy_that_cannot_be(tmp_path: Path, line: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(line)
    assert invoke(["run", "m1475", "--policy", str(path)]) == 2
