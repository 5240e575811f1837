"""Whole small worlds: every kind has an owner, the controller comes back from everything, a seed is one journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.faults.catalogue import CRASH_POINTS, KINDS
from sim.journal import read_run
from sim.run import RunResult, run
from sim.spec import FaultSpec, MachineSpec, Scenario
from sim.swarm import draw
from sim.wiring import build

ROOT = Path(__file__).parents[3]


def scenario(*faults: FaultSpec, hours: float = 1.0, machines: int = 2, target: int = 1) -> Scenario:
    for index, fault in enumerate(faults):
        fault.index = index
        fault.params = {**KINDS[fault.kind].defaults(), **fault.params}
    fleet = [MachineSpec(42000 + i, 7000 + i, rate_proofs_per_hour=55.0) for i in range(machines)]
    return Scenario("small", hours=hours, target=target, machines=fleet, faults=list(faults))


def test_every_kind_happens_by_itself_or_is_asked_for() -> None:
    wired = build(scenario(), 1)
    applied = set(wired.world.faults._apply)
    wired.close()
    left = {name for name, kind in KINDS.items() if not kind.per_call} - applied
    assert left == set()


def fired(result: RunResult, kind: str) -> int:
    return sum(f.kind == kind for f in result.truth.fired)


@pytest.mark.parametrize("point", [p for p in CRASH_POINTS if p != "snapshot.saved"])  # that takes 50 000 events
def test_the_controller_comes_back_from_a_crash_at_each_point(point: str) -> None:
    faults = [FaultSpec("controller.crash", params={"point": point})]
    if point.startswith(("destroy", "post_mortem")):
        faults.append(FaultSpec("operator.kill", mark="active", at_s=60.0))
    if point.startswith("orders"):
        faults.append(FaultSpec("operator.target", at_s=600.0, params={"value": 1}))
    if point.startswith("start"):
        faults.append(FaultSpec("market.credit_exhausted", mark="active", at_s=60.0, for_s=600.0))
    result = run(scenario(*faults), 1)
    assert fired(result, "controller.crash") == 1
    assert result.truth.controller_starts == 2 and result.errors == ()
    assert result.verdict.live == "ok"


@pytest.mark.parametrize(("kind", "params", "starts"), [
    ("controller.crash", {}, 2), ("controller.restart", {}, 2), ("controller.suspend", {}, 1),
    ("controller.offline", {}, 1), ("controller.clock_step", {"by_s": -5700.0}, 1), ("controller.db_locked", {}, 1),
    ("controller.db_full", {}, 1), ("controller.upgrade", {"back": True}, 3), ("controller.second_instance", {}, 1),
    ("controller.second_instance", {"same_store": False}, 1), ("controller.db_restored", {"age": 1800.0}, 2),
])
def test_the_controller_comes_back_from_every_fault_of_its_own(kind: str, params: dict[str, Any], starts: int) -> None:
    result = run(scenario(FaultSpec(kind, mark="active", at_s=300.0, params=params), hours=2.0), 1)
    assert fired(result, kind) == 1
    assert result.truth.controller_starts == starts and result.errors == ()
    assert result.verdict.live == "ok"
    assert result.verdict.violations == ()


@pytest.mark.parametrize("kind", ["agent.crash", "agent.restart", "agent.hang"])
def test_an_agent_comes_back(kind: str) -> None:
    result = run(scenario(FaultSpec(kind, mark="active", at_s=300.0), hours=2.0), 1)
    [contract] = [c for c in result.truth.contracts.values() if c.ours]
    assert fired(result, kind) == 1 and contract.gone is None
    assert contract.restarts_agent == (0 if kind == "agent.hang" else 1)
    assert result.verdict.violations == () and result.errors == ()


def test_a_lock_that_only_a_restart_clears() -> None:
    lock = FaultSpec("controller.db_locked", at_s=1200.0, params={"cleared_by": "controller_restart"})
    result = run(scenario(lock, FaultSpec("controller.restart", at_s=1800.0), hours=1.0), 1)
    [row] = [f for f in result.truth.fired if f.kind == "controller.db_locked"]
    assert row.end is not None and 1800 <= row.end / 1e9 <= 1830


def test_one_seed_is_one_journal_in_this_process_and_in_any_other(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    result = run(draw(3), 3, journal=first, liveness=False)
    assert run(draw(3), 3, journal=second, liveness=False).journal_sha256 == result.journal_sha256
    assert first.read_bytes() == second.read_bytes()
    assert len(read_run(first).lines) == result.events
    code = "from sim.run import run; from sim.swarm import draw; print(run(draw(3), 3, liveness=False).journal_sha256)"
    for hash_seed in ("0", "4711"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        assert out.stdout.strip() == result.journal_sha256


def test_a_run_leaves_nothing_behind() -> None:
    import gc

    def left() -> int:
        run(scenario(FaultSpec("controller.crash", at_s=1200.0), FaultSpec("agent.crash", mark="active")), 1)
        gc.collect()
        return len(gc.get_objects())

    left()
    before = left()
    for _ in range(3):
        after = left()
    assert after <= before + 50


def test_what_reputation_knows_beforehand_is_in_the_store() -> None:
    world = scenario(machines=3)
    world.machines[2].known_rate_proofs_per_hour = 90.0
    result = run(world, 1, liveness=False)
    assert result.fleet is not None
    measured = result.fleet.measured[42002][0]  # type: ignore[index]
    assert measured.rate_proofs_per_hour == 90.0
    assert [c.machine_id for c in result.truth.contracts.values()] == [42002]
