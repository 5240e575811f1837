"""What the commands of ``sim`` do, once their arguments are read."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from proverfleet.domain.policy import Policy
from sim import scenario as files
from sim.faults.catalogue import KINDS
from sim.faults.catalogue import nearest as nearest_kind
from sim.journal import RunFile, read_run
from sim.spec import Scenario
from sim.table import ScenarioError

OK, FAILED, NOT_DETERMINISTIC = 0, 1, 4
RULES = ("default", "legacy")
WIDTH_OF_A_FILE = 160  # output that goes into a file or a pipe is not folded at 80


def out() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_A_FILE)


# ---------------------------------------------------------------- what is to be run


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario (None: the swarm's world of the seed) under a policy, as the command line said it."""

    scenario: Scenario | None
    named: str | None
    seed: int
    adapter: str
    policy: str | None
    fields: dict[str, Any]

    def world(self, seed: int) -> Scenario:
        """What runs under ``seed``, nothing random left in it; under the old manager where ``--policy`` says so."""
        from sim.swarm import draw

        scenario = files.resolve(self.scenario, seed) if self.scenario is not None else draw(seed)
        if self.policy in RULES:
            scenario.rules = self.policy
        return scenario

    def policy_for(self, scenario: Scenario) -> Policy | None:
        """The file's fields over the scenario's own; None: the scenario's policy as it is."""
        return Policy.of({**scenario.policy, **self.fields}) if self.fields else None

    def again(self, seed: int) -> str:
        """The line that runs this again."""
        parts = ["sim", "run", *([self.named] if self.named else []), "--seed", str(seed)]
        if self.adapter != "direct":
            parts += ["--adapter", self.adapter]
        if self.policy:
            parts += ["--policy", self.policy]
        return shlex.join(parts)


def ask(named: str | None, seed: int, adapter: str, policy: str | None) -> Asked:
    """Checks everything that the command line names, before anything runs or is written. ScenarioError."""
    scenario = files.load(named) if named is not None else None
    fields = {} if policy in (None, *RULES) else files.read_policy(str(policy))
    if scenario is not None and fields:
        Policy.of({**scenario.policy, **fields})
    from sim.wiring import ADAPTERS

    if adapter not in ADAPTERS:
        raise ScenarioError(f'--adapter {adapter}: there is no such wiring here; use {" or ".join(ADAPTERS)}')
    return Asked(scenario, named, seed, adapter, policy, fields)


# ---------------------------------------------------------------- run


def run(asked: Asked, *, as_json: bool, journal: Path | None, twice: bool) -> int:
    from sim import summary
    from sim.result import EXIT

    if twice:
        with tempfile.TemporaryDirectory(prefix="sim-") as folder:
            first = journal or Path(folder) / "first.journal"
            result = _run(asked, first)
            code = _compare_with_second(asked, first, Path(folder) / "second.journal")
    else:
        result, code = _run(asked, journal), OK
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(result) + b"\n")
        sys.stdout.flush()
    else:
        summary.show(result, out(), asked.again(asked.seed))
    return code or EXIT[result["verdict"]]


def _run(asked: Asked, journal: Path | None) -> dict[str, Any]:
    from sim import progress, result
    from sim.run import run as run_world

    scenario = asked.world(asked.seed)
    with progress.of_run(scenario.name) as update:
        done = run_world(scenario, asked.seed, adapter=asked.adapter, policy=asked.policy_for(scenario),
                         journal=journal, progress=update)
    return result.build(done, asked.policy)


def _compare_with_second(asked: Asked, first: Path, second: Path) -> int:
    """The same run in a fresh interpreter with another hash seed; what differs goes to stderr."""
    args = asked.again(asked.seed).split(" ", 1)[1]
    env = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-m", "sim.cli", *shlex.split(args), "--json", "--journal", str(second)]
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if not second.exists():
        raise ScenarioError(f"the second run did not start: {done.stderr.strip()}")
    a, b = read_run(first), read_run(second)
    text = _difference(a, b)
    console = Console(stderr=True, highlight=False)
    if text is None:
        console.print(f"[green]deterministic[/]: {len(a.lines):,} events twice, byte for byte")
        return OK
    console.print("[bold red]not deterministic[/]")
    console.print(text, markup=False, soft_wrap=True)
    return NOT_DETERMINISTIC


# ---------------------------------------------------------------- replay and diff


def replay(journal: Path, policy: str | None) -> int:
    from proverfleet.controller.brain import Brain, DefaultBrain
    from sim.legacy.brain import LegacyBrain
    from sim.replay import backtest
    from sim.replay import replay as replay_file
    from sim.units import in_words

    fields = {} if policy in (None, *RULES) else files.read_policy(str(policy))
    file = read_run(journal)
    _say_cut(file)
    legacy = policy == "legacy" or (policy is None and file.header.get("rules") == "legacy")
    brain: Brain = LegacyBrain() if legacy else DefaultBrain()
    console = out()
    if policy is None:
        done = replay_file(file, brain)
        counted = f"{done.events:,} events, {done.beats:,} beats, {done.decisions:,} decisions"
        if done.unrecorded:
            counted += f"; {done.unrecorded} beats decided what never reached the store"
        if done.first is not None:
            console.print(f"[bold red]differs[/] after {counted}")
            console.print(done.first.in_words(), markup=False, soft_wrap=True)
            return NOT_DETERMINISTIC
        console.print(f"[green]the same decisions[/]: {counted}")
        return OK
    done, changes = backtest(file, brain, Policy.of(fields) if fields else None)
    counted = f"{done.beats:,} beats, {done.decisions:,} decisions recorded"
    differ = f"{len(changes)} decision{'' if len(changes) == 1 else 's'} would differ"
    console.print(f"{policy}: {differ} ({counted})", soft_wrap=True)
    if changes:
        console.print("[dim]after the first of them the record is another world's: run the scenario to see the end[/]",
                      soft_wrap=True)
    for c in changes:
        was = "never" if c.recorded_s is None else f"at {in_words(round(c.recorded_s))}"
        now = "never" if c.decided_s is None else f"at {in_words(round(c.decided_s))}"
        console.print(f"  {c.what}: recorded {was}, would be {now}  {c.text}", markup=False, soft_wrap=True)
    return OK


def diff(a: Path, b: Path) -> int:
    first, second = read_run(a), read_run(b)
    for file in (first, second):
        _say_cut(file)
    text = _difference(first, second)
    if text is None:
        out().print(f"[green]the same[/]: {len(first.lines):,} events")
        return OK
    for key in ("scenario", "seed", "adapter", "policy", "rules", "scenario_sha256"):
        if first.header.get(key) != second.header.get(key):
            out().print(f"other runs: {key} {_short(first.header.get(key))} | {_short(second.header.get(key))}",
                        markup=False, soft_wrap=True)
    out().print(text, markup=False, soft_wrap=True)
    return FAILED


def _difference(a: RunFile, b: RunFile) -> str | None:
    """The first differing event in words; None where there is none."""
    from sim.replay import differing_keys, first_difference
    from sim.units import in_words

    found = first_difference(a, b)
    if found is None:
        return None
    number, x, y = found
    if x is None or y is None:
        shorter, line = (a, y) if x is None else (b, x)
        return f"line {number}: {shorter.path} ends here; the other goes on with {_line(line)}"
    when = in_words(round(x["t"] / 1e9, 3))
    rows = [f"line {number}, at {when}: {x['src']} {x.get('kind', '')}"]
    for key, u, v in differing_keys(x, y)[:12]:
        rows.append(f"  {key}: {_short(u)} | {_short(v)}")
    return "\n".join(rows)


def _line(line: dict[str, Any] | None) -> str:
    return f"{line['src']} {line.get('kind', '')} at {line['t'] / 1e9:.3f} s" if line else "nothing"


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 100 else text[:97] + "..."


def _say_cut(file: RunFile) -> None:
    if file.cut:
        print(f"{file.path}: its last line was only begun; read up to line {len(file.lines) + 1}", file=sys.stderr)


# ---------------------------------------------------------------- sweep


def sweep(asked: Asked, seeds: range, jobs: int, store: Path | None, *, as_json: bool) -> int:
    from sim import progress, result, sweep_show
    from sim.run import run as run_world
    from sim.sweep import Sweep, facts
    from sim.sweep import sweep as sweep_seeds

    if store is not None and store.exists() and not store.is_dir():
        raise ScenarioError(f"--store {store}: is no folder; name one")

    def one(seed: int) -> dict[str, Any]:
        scenario = asked.world(seed)
        done = run_world(scenario, seed, adapter=asked.adapter, policy=asked.policy_for(scenario))
        return facts(result.build(done, asked.policy), done.truth, done.scenario)

    swarm = asked.scenario is None
    with progress.bar(asked.named or "swarm") as update:
        def seen(so_far: Sweep) -> None:
            bad = len({f.seed for f in so_far.failures})
            update(so_far.seeds, len(seeds), f"{so_far.seeds} of {len(seeds)} worlds, {bad} failed")

        found = sweep_seeds(seeds, jobs, one, seen)
    if store is not None:
        _store(asked, sorted({f.seed for f in found.failures}), store)
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(found.to_json(swarm)) + b"\n")
        sys.stdout.flush()
    else:
        sweep_show.show(found, out(), swarm=swarm, again=asked.again)
    only_live = {f.invariant for f in found.failures} == {"LIVE-1"} and not found.problems(swarm)
    return 3 if only_live else FAILED if found.failures or found.problems(swarm) else OK


def _store(asked: Asked, seeds: list[int], folder: Path) -> None:
    for seed in seeds:
        path = store_failure(asked.world(seed), seed, folder)
        print(f"stored {path}", file=sys.stderr)


def store_failure(scenario: Scenario, seed: int, folder: Path) -> Path:
    """Writes the resolved scenario of a failing seed, with the line that runs it; returns its path."""
    from sim.scenario_toml import to_toml

    resolved = files.resolve(scenario, seed)
    folder.mkdir(parents=True, exist_ok=True)
    name = resolved.name if resolved.name.endswith(f"-{seed}") else f"{resolved.name}-{seed}"
    path = folder / f"{re.sub('[^A-Za-z0-9_.-]+', '_', name).lstrip('.')}.toml"  # a name is no path
    path.write_text(f"# sim run {path} --seed {seed}\n{to_toml(resolved)}", encoding="utf-8")
    return path


# ---------------------------------------------------------------- lists and import


def scenarios() -> int:
    from sim import show

    rows: list[tuple[str, Path, str, float]] = []
    for name, path in files.names().items():
        try:
            found = files.load(path)
            rows.append((name, path, found.about, float(found.hours)))
        except ScenarioError as error:
            rows.append((name, path, f"!{error}", 0.0))
    show.scenarios(rows, out())
    return OK if not any(about.startswith("!") for _, _, about, _ in rows) else FAILED


def faults(kind: str | None) -> int:
    from sim import show

    if kind is None:
        show.every_kind(out())
        return OK
    if kind not in KINDS:
        near = nearest_kind(kind)
        mend = f'did you mean "{near}"?' if near else "see `sim faults`"
        raise ScenarioError(f'"{kind}" is no kind of fault; {mend}')
    show.one_kind(kind, out())
    return OK


def import_log(log: Path) -> int:
    from sim.import_log import read, skeleton

    try:
        text = log.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{log}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{log}: is not UTF-8 text; give the raw log") from None
    found = read(text)
    toml = skeleton(found, log.stem)
    for number, why, line in found.unused:
        print(f"{log}:{number}: not used ({why}): {line}", file=sys.stderr)
    print(toml, end="")
    return OK
