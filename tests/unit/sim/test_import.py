"""``sim import``: the log of field case M1475 as it stands, and logs that say less."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.import_log import read, skeleton
from sim.scenario import ScenarioError, parse

LOG = Path(__file__).parents[2] / "data" / "m1475.log"


def test_everything_that_the_log_says() -> None:
    found = read(LOG.read_text())
    assert found.unused == []
    assert (found.proofs, found.concurrency, found.partition_workers) == (12, 3, 16)
    assert found.bench_start is not None and found.bench_end is not None
    assert found.bench_end - found.bench_start == 620
    assert (found.script, found.rate, found.min_rate) == ("benchmark.sh exited with error", 0.0, 29.0)
    assert (found.gpus, found.gpu, found.label) == (1, "RTX PRO 4000", "32733029")
    assert (found.price, found.ram_gib, found.age_min, found.usd_per_proof) == (0.296, 504.0, 46, 0.0054)
    assert found.params_ok == 2


def test_the_skeleton_runs_as_it_stands() -> None:
    text = skeleton(read(LOG.read_text()), "m1475")
    found = parse(text, "m1475.toml")
    machine = found.machines[0]
    assert (machine.gpu, machine.ram_gib, machine.price_usd_per_hour) == ("RTX PRO 4000", 504.0, 0.296)
    assert machine.first_sizing == {"partition_workers": 16, "concurrency": 3}
    assert machine.known_rate_proofs_per_hour == 54.8
    assert found.deploy[0].min_rate == 29.0
    fault = found.faults[0]
    assert (fault.kind, fault.mark, fault.at_s, fault.params["exit_code"]) == ("prover.bench_error", "batch", 620.0, 1)
    assert found.expect.rentals[0].ends == ["active"]
    assert "11:20:48" in text and "11:31:08" in text


def test_lines_that_say_nothing_are_named() -> None:
    log = LOG.read_text()
    found = read(f"hello there\n{log}[setup][entrypoint] 11:40:00 Something unheard of\n\n")
    assert [(n, line) for n, _, line in found.unused] == [
        (1, "hello there"), (log.count("\n") + 2, "[setup][entrypoint] 11:40:00 Something unheard of")]


def test_a_log_past_midnight_and_with_colours() -> None:
    found = read("\x1b[32m[setup][entrypoint] 23:58:00 Starting benchmark: 12 proofs, concurrency 2, "
                 "partition-workers 8\x1b[0m\n[setup][entrypoint] 00:08:30 benchmark.sh exited with error, code 137\n")
    assert found.bench_start is not None and found.bench_end is not None
    assert found.bench_end - found.bench_start == 630
    assert found.exit_code == 137
    assert parse(skeleton(found, "night"), "night.toml").faults[0].at_s == 630


def test_a_log_with_a_result() -> None:
    found = read("[x][entrypoint] 10:00:00 Starting benchmark: 12 proofs, concurrency 2, partition-workers 8\n"
                 "[x][entrypoint] 10:17:00 Benchmark result: 41.32 proofs/hour\n")
    text = skeleton(found, "norway")
    assert parse(text, "norway.toml").machines[0].rate_proofs_per_hour == 41.32
    assert "[[fault]]" not in text


def test_a_log_that_says_nothing() -> None:
    with pytest.raises(ScenarioError, match="neither a benchmark nor a dashboard row"):
        skeleton(read("nothing\n"), "empty")
