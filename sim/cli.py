"""``sim``: the test-bed's command line. Thin: each command reads its arguments, calls one part, prints what came.

Exit codes: 0 all held, 1 an invariant or expectation was violated (or two things differ), 2 wrong use, 3 not live,
4 not deterministic, 130 interrupted. Wrong use is one line on stderr that names the mend, and leaves nothing behind.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

OK, FAILED, WRONG_USE, NOT_LIVE, NOT_DETERMINISTIC, INTERRUPTED = 0, 1, 2, 3, 4, 130

app = typer.Typer(
    name="sim", add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False,
    help="Runs the fleet on virtual time in a simulated market, injects faults, and judges what it did.",
    epilog="Start with [bold]sim run m1475 --seed 1475[/], or [bold]sim scenarios[/].",
)

ScenarioArg = Annotated[str | None, typer.Argument(
    metavar="SCENARIO|FILE", help="A name of `sim scenarios`, or a TOML file; left out: the seed's own swarm world.",
    show_default=False)]
SeedOption = Annotated[str, typer.Option("--seed", metavar="N", help="Everything random comes from it.")]
PolicyOption = Annotated[str | None, typer.Option(
    "--policy", metavar="FILE|default|legacy",
    help="Policy fields from a TOML file, our rules, or the old manager's.", show_default=False)]
AdapterOption = Annotated[str, typer.Option("--adapter", metavar="direct", help="Which wiring.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout and nothing else.")]


class WrongUse(Exception):
    """Exit code 2; the text is the one line."""


@app.command()
def run(
    scenario: ScenarioArg = None,
    seed: SeedOption = "1",
    adapter: AdapterOption = "direct",
    policy: PolicyOption = None,
    json: JsonOption = False,
    journal: Annotated[Path | None, typer.Option(
        "--journal", metavar="F", help="Write the run's journal to this file.", show_default=False)] = None,
    check_determinism: Annotated[bool, typer.Option(
        "--check-determinism", help="Run twice, the second time in a fresh process, and compare every event.")] = False,
) -> int:
    """Run one scenario, or the swarm's world of a seed, and judge it."""
    from sim import commands

    asked = commands.ask(scenario, seed_of(seed), adapter, policy)
    if journal is not None:
        writable(journal)
    return commands.run(asked, as_json=json, journal=journal, twice=check_determinism)


@app.command()
def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="A file that `sim run --journal` wrote.")],
    policy: PolicyOption = None,
) -> int:
    """Decide again beside a journal's record and show the first difference; under another policy: what would differ."""
    from sim import commands

    return commands.replay(journal, policy)


@app.command()
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A journal.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
) -> int:
    """Show the first event in which two journals differ (exit 1); 0 where they are the same."""
    from sim import commands

    return commands.diff(a, b)


@app.command()
def sweep(
    scenario: ScenarioArg = None,
    seeds: Annotated[str, typer.Option("--seeds", metavar="A..B", help="The seeds, both ends included.")] = "1..20",
    jobs: Annotated[str, typer.Option("-j", "--jobs", metavar="N", help="How many at a time.")] = str(
        os.cpu_count() or 1),
    adapter: AdapterOption = "direct",
    policy: PolicyOption = None,
    store: Annotated[Path | None, typer.Option(
        "--store", metavar="DIR", help="Write the scenario of each failing seed there.", show_default=False)] = None,
    json: JsonOption = False,
) -> int:
    """Run many seeds and group what failed; fails too when the sweep itself shows too little."""
    from sim import commands

    asked = commands.ask(scenario, 1, adapter, policy)
    return commands.sweep(asked, seeds_of(seeds), count_of("-j", jobs), store, as_json=json)


@app.command("scenarios")
def scenarios_() -> int:
    """List the scenarios that can be named."""
    from sim import commands

    return commands.scenarios()


@app.command()
def faults(
    kind: Annotated[str | None, typer.Argument(
        metavar="KIND", help="One kind, with all its values.", show_default=False)] = None,
) -> int:
    """List the kinds of fault with their parameters, units and defaults."""
    from sim import commands

    return commands.faults(kind)


@app.command("import")
def import_(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A raw log of the old manager's entrypoint.")],
) -> int:
    """Turn a raw instance log into a scenario skeleton on stdout; lines that say nothing are named on stderr."""
    from sim import commands

    return commands.import_log(log)


# ---------------------------------------------------------------- arguments


SEEDS_MAX = 1_000_000  # in one sweep
JOBS_MAX = 256
SEED_MAX = 2**63 - 1  # what a journal's line can hold


def seed_of(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        raise WrongUse(f"--seed {text}: is no whole number; write it like --seed 7") from None
    if not 0 <= seed <= SEED_MAX:
        raise WrongUse(f"--seed {text}: must be from 0 to {SEED_MAX}; write it like --seed 7")
    return seed


def seeds_of(text: str) -> range:
    first, dots, last = text.partition("..")
    try:
        a, b = int(first), int(last if dots else first)
    except ValueError:
        raise WrongUse(f"--seeds {text}: is no range; write it like --seeds 1..300") from None
    if b > SEED_MAX:
        raise WrongUse(f"--seeds {text}: must end at {SEED_MAX} or before; write it like --seeds 1..300")
    if a < 0 or b < a:
        raise WrongUse(f"--seeds {text}: runs backwards or below 0; write it like --seeds 1..300")
    if b - a >= SEEDS_MAX:
        raise WrongUse(f"--seeds {text}: more than {SEEDS_MAX:,} seeds; sweep them in parts")
    return range(a, b + 1)


def count_of(name: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= JOBS_MAX:
        raise WrongUse(f"{name} {text}: must be a whole number from 1 to {JOBS_MAX}; write it like {name} 2")
    return int(text)


def writable(path: Path) -> None:
    """WrongUse unless a file can be made at ``path``; makes nothing."""
    folder = path.parent
    if path.is_dir():
        raise WrongUse(f"--journal {path}: is a folder; name a file in it")
    if not folder.is_dir():
        raise WrongUse(f"--journal {path}: there is no folder {folder}; make it first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise WrongUse(f"--journal {path}: may not be written; choose another place")


# ---------------------------------------------------------------- entry


def wrong_uses() -> tuple[type[Exception], ...]:
    """Every error that means wrong use, whichever part raised it."""
    from proverfleet.domain.policy import PolicyError
    from sim.journal import JournalError
    from sim.table import ScenarioError

    return WrongUse, ScenarioError, JournalError, PolicyError


def invoke(args: Sequence[str]) -> int:
    """The exit code of ``sim ARGS``; prints what the command prints."""
    command: Any = typer.main.get_command(app)
    args = list(args) or ["--help"]
    name = f"sim {args[0]}" if args[0] in command.commands else "sim"
    try:
        code = int(command.main(args, prog_name="sim", standalone_mode=False) or 0)
    except TyperException as error:
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        return complain(name, f"{text.strip().rstrip('.')}; see `{name} --help`")
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        for cause in (error, error.__cause__):  # a full disk reaches the loop, which wraps it
            if isinstance(cause, wrong_uses()):
                return complain(name, str(cause))
        if isinstance(error, OSError):  # a path or an output that the system refuses
            return complain(name, f"{error.filename or 'cannot write the output'}: {error.strerror}")
        raise
    if code == INTERRUPTED:  # Typer turns Ctrl-C into this code and says nothing
        print(f"{name}: interrupted", file=sys.stderr)
    return code


def complain(name: str, text: str) -> int:
    print(f"{name}: {' '.join(text.split())}", file=sys.stderr)
    return WRONG_USE


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs still gets the words
    sys.exit(invoke(sys.argv[1:]))


if __name__ == "__main__":
    main()
