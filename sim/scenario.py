"""Scenario files: TOML → :class:`sim.spec.Scenario`. Format: contracts.md section 1.

Everything that a file gets wrong is a :class:`ScenarioError` of one line, which names the file, the place, the mistake
and the mend. Ranges stay ranges until :func:`resolve` draws them from the seed; after that nothing in a scenario is
random.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from proverfleet.domain.policy import Policy, PolicyError
from sim.expect import CheckError, compile_check, endings, invariants
from sim.inventory import draw_machines
from sim.legacy.rules import Limits
from sim.scenario_faults import check_rhythm, read_fault
from sim.scenario_machines import read_machines
from sim.spec import DeploySpec, Expect, ExpectRental, MachineSpec, Scenario
from sim.streams import Streams
from sim.table import ScenarioError, Table, nearest, shown
from sim.units import Range

__all__ = ["ScenarioError", "find", "load", "names", "parse", "read_policy", "resolve"]

ROOT = Path(__file__).resolve().parents[1]
HOURS_MAX = 24 * 60
RULES = ("default", "legacy")
MACHINES_MAX, TARGET_MAX = 10_000, 1_000
NAME_MAX = 100
FILE_MAX = 4 << 20


# ---------------------------------------------------------------- files


def folders() -> list[Path]:
    """Where names are looked up: ``scenarios/`` of this project, then of the folder in which the command runs."""
    return list(dict.fromkeys([ROOT / "scenarios", Path.cwd() / "scenarios"]))


def names() -> dict[str, Path]:
    """Every scenario that can be named, in order of folder and name."""
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.rglob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def find(name_or_path: str) -> Path:
    """The file behind a name (``m1475``) or a path. ScenarioError names the nearest scenario when there is none."""
    path = Path(name_or_path)
    try:
        if path.is_file():
            return path
    except OSError as error:  # a name that no file can have
        raise ScenarioError(f"{shown(name_or_path)}: {error.strerror}; see `sim scenarios`") from None
    known = names()
    if name_or_path in known:
        return known[name_or_path]
    if path.is_dir():
        raise ScenarioError(f"{name_or_path}: is a folder; name one scenario file in it")
    stem = path.stem if path.suffix == ".toml" else name_or_path
    near = difflib.get_close_matches(stem, known, 1, 0.5)
    mend = f'did you mean "{near[0]}"?' if near else "see `sim scenarios`, or give the path of a file"
    raise ScenarioError(f"{name_or_path}: no such scenario; {mend}")


def load(name_or_path: str | Path) -> Scenario:
    """Reads and checks one scenario; ranges are still open (see :func:`resolve`)."""
    path = find(str(name_or_path))
    return parse(_text_of(path), str(path))


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_MAX:
            raise ScenarioError(f"{path}: is larger than {FILE_MAX >> 20} MiB; give a scenario or policy file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise ScenarioError(f"{path}: cannot be read: {reason}") from None


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ScenarioError(f"{file}: is no TOML that can be read: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError is one; so is what int() says of 5,000 digits
        raise ScenarioError(f"{file}: is no TOML: {error}") from None


def parse(text: str, file: str = "scenario") -> Scenario:
    """A scenario from TOML text; ``file`` is how errors name it."""
    top = Table(_toml(text, file), "", file)
    scenario = Scenario(name=top.text("name"), path=file)
    if len(scenario.name) > NAME_MAX or not scenario.name.isprintable():
        top.fail(f"name must be one line of at most {NAME_MAX} characters")
    scenario.about = top.words("about")
    scenario.source = top.texts("source")
    scenario.hours = top.number("hours", 6.0, above=0, most=HOURS_MAX)
    scenario.policy, scenario.rules = _policy(top.table("policy"))
    scenario.legacy = _legacy(top.table("legacy"))
    market = top.table("market")
    scenario.random_machines = market.count("machines", 0, most=MACHINES_MAX)
    scenario.credit_usd = market.number("credit_usd", 100.0)
    market.finish()
    scenario.machines = read_machines(top.tables("machine"), MACHINES_MAX)
    _fleet(top.table("fleet"), scenario)
    scenario.faults = [read_fault(t, i, scenario) for i, t in enumerate(top.tables("fault"))]
    _expect(top.table("expect"), scenario)
    top.finish()
    if not scenario.machines and not scenario.random_machines:
        top.fail("has no machine; add a [[machine]], or machines = N under [market]")
    return scenario


def read_policy(path: str | Path) -> dict[str, Any]:
    """Policy fields from a TOML file: a [policy] table, or the fields alone. For ``--policy FILE``."""
    file = Path(path)
    if not file.is_file():
        raise ScenarioError(f'{path}: no such policy file; give a TOML file of policy fields, or "legacy"')
    top = Table(_toml(_text_of(file), str(path)), "", str(path))
    if "policy" in top:
        table = top.table("policy")
        top.finish()
    else:
        table = Table(_toml(_text_of(file), str(path)), "[policy]", str(path))
    if "rules" in table:
        table.fail("rules cannot be chosen by a policy file; use --policy default or --policy legacy")
    policy, _ = _policy(table)
    for name, value in policy.items():
        if isinstance(value, Range):
            table.fail(f"{name} may be a range only in a scenario, where the seed draws it; write one number")
    return policy


# ---------------------------------------------------------------- parts


def _policy(table: Table) -> tuple[dict[str, Any], str]:
    rules = table.text("rules", "default", RULES)
    known = [f.name for f in fields(Policy)]
    values: dict[str, Any] = {}
    for name in known:
        if name in table:
            value = table.raw(name)
            values[name] = table.as_number(name, value, least=None) if isinstance(value, str) else value
            if isinstance(value, int | float) and not isinstance(value, bool):
                table.as_number(name, value, least=None)
    table.finish(known)
    check_policy(table, values)
    return values, rules


def _legacy(table: Table) -> dict[str, float]:
    """[legacy]: the old manager's age limits, where the case had others than its last ones."""
    values = {f.name: table.number(f.name, None, above=0) for f in fields(Limits) if f.name in table}
    table.finish([f.name for f in fields(Limits)])
    return values


def check_policy(table: Table, values: dict[str, Any]) -> None:
    """Fails where the policy cannot be, at either end of its ranges."""
    for end in ("lo", "hi"):
        try:
            Policy.of({k: getattr(v, end) if isinstance(v, Range) else v for k, v in values.items()})
        except PolicyError as error:
            table.fail(str(error).removeprefix("policy: "))
    check_rhythm(table, values)


def _fleet(table: Table, scenario: Scenario) -> None:
    scenario.target = table.count("target", 0, most=TARGET_MAX)
    known = {m.id for m in scenario.machines}
    for row in table.tables("deploy", "[fleet] deploy"):
        machine = row.fixed("machine", None)
        if machine not in known:
            row.fail(no_such_machine(machine, scenario.machines))
        mark, at_s = row.moment("at", "0m")
        if mark:
            row.fail('at must be a time such as "0m": an order follows no stage mark')
        deploy = DeploySpec(machine, at_s)
        for name in ("min_rate", "disk_gb", "bid_usd_per_hour"):
            if name in row:
                setattr(deploy, name, row.number(name, None, above=0))
            else:
                row.raw(name)
        row.finish()
        scenario.deploy.append(deploy)
    table.finish()


def no_such_machine(machine: int, machines: list[MachineSpec]) -> str:
    ids = [str(m.id) for m in machines]
    mend = nearest(str(machine), ids) if ids else "add a [[machine]] with that id"
    return f"machine {machine} does not exist; {mend}"


def _expect(table: Table, scenario: Scenario) -> None:
    out = Expect(table.texts("violations"), table.texts("checks"))
    for name in out.violations:
        if name not in invariants():
            table.fail(f'violations: "{name}" is no invariant; {nearest(name, invariants())}')
    for text in out.checks:
        try:
            compile_check(text)
        except CheckError as error:
            table.fail(f"checks: `{text if len(text) <= 100 else text[:97] + '...'}`: {error}")
    known = {m.id for m in scenario.machines}
    for row in table.tables("rental", "[[expect.rental]]"):
        machine = row.fixed("machine", None)
        if machine not in known:
            row.fail(no_such_machine(machine, scenario.machines))
        ends = row.raw("ends")
        wanted = None if ends is None else [ends] if isinstance(ends, str) else row.texts("ends")
        for end in wanted or []:
            if end not in endings():
                row.fail(f'ends = "{end}" is neither a stage nor a verdict; {nearest(end, endings())}')
        kills = row.raw("kills")
        if kills is not None and (isinstance(kills, bool) or kills not in (0, 1)):
            row.fail(f"kills = {shown(kills)} must be 0 or 1")
        row.finish()
        out.rentals.append(ExpectRental(machine, wanted, kills))
    table.finish()
    scenario.expect = out


# ---------------------------------------------------------------- the seed


def resolve(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with every range drawn and the market's random machines added: nothing random is left.

    Each number has a stream of its own, so that taking one fault away moves the dice of no other."""
    out = copy.deepcopy(scenario)
    streams = Streams(seed)

    def drawn(value: Any, place: str) -> Any:
        if isinstance(value, Range):
            return value.draw(streams.fresh(f"scenario:{place}"))
        if isinstance(value, dict):
            return {k: drawn(v, f"{place}.{k}") for k, v in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            for f in fields(value):
                setattr(value, f.name, drawn(getattr(value, f.name), f"{place}.{f.name}"))
        return value

    out.hours = drawn(out.hours, "hours")
    out.credit_usd = drawn(out.credit_usd, "credit_usd")
    out.target = drawn(out.target, "target")
    out.random_machines = drawn(out.random_machines, "machines")
    out.policy = drawn(out.policy, "policy")
    for machine in out.machines:
        drawn(machine, f"machine.{machine.id}")
    for i, deploy in enumerate(out.deploy):
        drawn(deploy, f"deploy.{i}")
    for fault in out.faults:
        drawn(fault, f"fault.{fault.index}")
    if out.random_machines:
        taken = [m.id for m in out.machines]
        hosts = [m.host for m in out.machines]
        out.machines += draw_machines(streams.fresh("inventory"), out.random_machines, taken, hosts)
        out.random_machines = 0
    return out
