"""The ``--json`` object and the exit codes, on real runs of small worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from sim import result as results
from sim.cli import invoke
from sim.expect import TOP_KEYS
from sim.pytest_plugin import outcome
from sim.run import RunResult, run
from sim.scenario import load, parse

ROW_KEYS = {
    "intent", "contract_id", "machine_id", "host_id", "stage", "verdict", "cause", "reason", "rate_proofs_per_hour",
    "min_rate_proofs_per_hour", "min_rate_from", "attempts", "proofs", "cost_usd", "created_s", "decided_s", "ended_s",
    "stages_s", "observed_s", "restarts", "longest_silence_s",
}
SMALL = """
name = "small"
hours = 2
{more}
[fleet]
deploy = [{{ machine = 7, at = "0m" }}]
[[machine]]
id = 7
host = 70
ram_gib = 504
price_usd_per_hour = 0.32
rate_proofs_per_hour = 60
"""


def small(more: str = "") -> str:
    return SMALL.format(more=more)


@pytest.fixture(scope="module")
def m1475() -> tuple[RunResult, dict[str, Any]]:
    done = run(load("m1475"), 1475)
    return done, results.build(done)


def test_every_key_of_the_contract(m1475: tuple[RunResult, dict[str, Any]]) -> None:
    _, found = m1475
    assert set(TOP_KEYS) <= set(found)
    assert set(found["rentals"][0]) >= ROW_KEYS
    assert set(found["kills"]) == {"total", "wrong", "by_verdict"}
    assert set(found["money"]) == {"spent_usd", "leaked_usd", "wasted_usd", "usd_per_proof", "best_usd_per_proof"}
    assert set(found["calls"]["create"]) == {"sent", "ok", "failed", "at_s"}
    assert set(found["calls"]["list"]) == {"sent", "ok", "failed"}
    assert set(found["contracts"]) == {"most_at_once", "list"}
    assert set(found["work"]) == {"accepted", "rejected", "lost"}
    assert set(found["controller"]) == {"starts", "exits", "beats", "beats_failed", "beat_max_s"}
    assert set(found["at_stake"]) == {*(f"INV-{i}" for i in range(1, 14)), "LIVE-1"}
    orjson.dumps(found)


def test_the_field_case(m1475: tuple[RunResult, dict[str, Any]]) -> None:
    _, found = m1475
    row = found["rentals"][0]
    assert found["verdict"] == "ok" and found["kills"]["total"] == 0
    assert (row["stage"], row["attempts"], row["verdict"], row["kills"]) == ("active", 2, None, 0)
    stages = list(row["stages_s"].values())
    assert stages == sorted(stages) and row["created_s"] == row["stages_s"]["requested"]
    assert row["cost_usd"] == pytest.approx(found["contracts"]["list"][0]["paid_usd"], abs=1e-3)


def test_the_old_manager_is_found_out() -> None:
    found = outcome("m1475", 1475, legacy=True).json
    assert (found["verdict"], found["policy"]) == ("violated", "legacy")
    assert [v["invariant"] for v in found["violations"]] == ["INV-1"]
    assert (found["kills"]["total"], found["kills"]["wrong"], found["kills"]["by_verdict"]["slow"]) == (1, 1, 1)
    assert found["rentals"][0]["decided_s"] <= found["rentals"][0]["ended_s"]


def test_a_negative_test_holds_when_its_violation_appears(tmp_path: Path) -> None:
    path = tmp_path / "negative.toml"
    text = (Path(__file__).parents[3] / "scenarios" / "incidents" / "m1475.toml").read_text().split("[expect]")[0]
    path.write_text(text + '[policy]\nrules = "legacy"\n[expect]\nviolations = ["INV-1"]\n')
    assert outcome(str(path), 1475).json["verdict"] == "ok"
    path.write_text(text + '[expect]\nviolations = ["INV-1"]\n')
    found = outcome(str(path), 1475).json
    assert found["failed_checks"] == ["violations: INV-1 was expected and did not appear"]
    assert found["verdict"] == "violated"


def test_a_stepped_clock_reorders_no_times() -> None:
    scenario = parse(small('[[fault]]\nkind = "controller.clock_step"\nat = "40m"\nby_s = -1800'))
    found = results.build(run(scenario, 1))
    row = found["rentals"][0]
    assert list(row["stages_s"].values()) == sorted(row["stages_s"].values())
    assert found["faults"] == {"controller.clock_step": 1}
    assert row["stages_s"]["active"] > 2400


def test_silence_is_what_nobody_could_hear() -> None:
    scenario = parse(small('[[fault]]\nkind = "tunnel.down"\nat = "1h"\nfor = "25m"'))
    found = results.build(run(scenario, 1))
    assert 1400 < found["rentals"][0]["longest_silence_s"] < 1600
    assert [(f["kind"], f["from_s"], f["until_s"]) for f in found["fired"]] == [("tunnel.down", 3600.0, 5100.0)]


def test_a_fault_that_never_fired_is_counted_as_such() -> None:
    scenario = parse(small('[[fault]]\nkind = "prover.crash"\nat = "draining+5s"'))
    assert results.build(run(scenario, 1))["faults"] == {"prover.crash": 0}


@pytest.mark.parametrize(("expect", "code"), [
    ("", 0),
    ('[expect]\nchecks = ["kills.total == 5"]', 1),
    ('[expect]\nchecks = ["kills.nothing == 5"]', 1),
    ('[[expect.rental]]\nmachine = 7\nends = "active"\nkills = 0', 0),
    ('[[expect.rental]]\nmachine = 7\nends = "slow"', 1),
])
def test_exit_codes(expect: str, code: int, tmp_path: Path, capfdbinary: Any) -> None:
    path = tmp_path / "small.toml"
    path.write_text(f"{small()}\n{expect}\n")
    assert invoke(["run", str(path), "--json"]) == code
    out, _ = capfdbinary.readouterr()
    assert out.count(b"\n") == 1
    assert orjson.loads(out)["verdict"] == ("violated" if code else "ok")
    assert invoke(["run", str(path)]) == code
    out, _ = capfdbinary.readouterr()
    assert b"small" in out and b"sim run" in out
