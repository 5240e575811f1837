"""``pytest scenarios/`` runs every scenario file, and tests get ``run_scenario``.

A failing scenario prints what broke and the one line that runs it again; the scenario as it was drawn is stored under
``reports/out/failures/``. The seed is 1, or ``--sim-seed N``, or ``SIM_SEED``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from sim.run import RunResult
    from sim.spec import Scenario

FAILURES = Path("reports") / "out" / "failures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("sim").addoption(
        "--sim-seed", default=os.environ.get("SIM_SEED", "1"), metavar="N", help="seed of the scenario files")


def pytest_configure(config: pytest.Config) -> None:
    seed_of(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".toml" and "scenarios" in file_path.parts:
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def seed_of(config: pytest.Config) -> int:
    text = str(config.getoption("--sim-seed"))
    if not text.isdecimal():
        raise pytest.UsageError(f"--sim-seed {text}: is no whole number; write it like --sim-seed 7")
    return int(text)


class ScenarioFile(pytest.File):
    """One TOML file, one test."""

    def collect(self) -> Iterator[pytest.Item]:
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class Broken(Exception):
    """A scenario that did not hold; the text says what, and how to see it again."""


class ScenarioItem(pytest.Item):
    def runtest(self) -> None:
        seed = seed_of(self.config)
        done = outcome(str(self.path), seed)
        if done.json["verdict"] != "ok":
            raise Broken(report(done, self.config.rootpath))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        from sim.table import ScenarioError

        if isinstance(excinfo.value, Broken | ScenarioError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"scenario {self.name}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run and its ``--json`` object."""

    run: RunResult
    json: dict[str, Any]

    @property
    def again(self) -> str:
        """The line that runs it again."""
        path = Path(self.run.scenario.path or self.run.scenario.name)
        shown = path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path
        legacy = " --policy legacy" if self.json["policy"] == "legacy" else ""
        return f"sim run {shown} --seed {self.run.seed}{legacy}"


def outcome(scenario: str | Scenario, seed: int, *, legacy: bool = False, **options: Any) -> Outcome:
    """Runs a scenario (a name, a path, or one made in the test); ``options`` as of :func:`sim.run.run`."""
    import copy

    from sim import result
    from sim.run import run
    from sim.scenario import load

    asked = load(scenario) if isinstance(scenario, str) else copy.deepcopy(scenario)
    if legacy:
        asked.rules = "legacy"
    done = run(asked, seed, **options)
    return Outcome(done, result.build(done))


def report(done: Outcome, root: Path) -> str:
    """What broke, where the drawn scenario was stored, and the line that runs it again."""
    from sim.commands import store_failure

    rows = [f"{done.json['scenario']}, seed {done.run.seed}: {done.json['verdict']}"]
    rows += [f"  {v['invariant']} at {v['at_s']:.0f} s, machine {v['machine_id']}: {v['text']}"
             for v in done.json["violations"]]
    rows += [f"  expected {text}" for text in done.json["failed_checks"]]
    stored = store_failure(done.run.scenario, done.run.seed, root / FAILURES)
    return "\n".join([*rows, f"stored: {stored}", f"again:  {done.again}"])


class RunScenario(Protocol):
    def __call__(self, scenario: str | Scenario, seed: int = 1, *, legacy: bool = False, **options: Any) -> Outcome: ...


@pytest.fixture
def run_scenario(request: pytest.FixtureRequest) -> RunScenario:
    """``run_scenario("m1475", seed=1475)`` → Outcome; ``legacy=True`` plugs the old manager in."""

    def call(scenario: str | Scenario, seed: int = 1, *, legacy: bool = False, **options: Any) -> Outcome:
        return outcome(scenario, seed, legacy=legacy, **options)

    return call
