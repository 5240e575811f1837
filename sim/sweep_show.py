"""What a sweep found, in the terminal: failures by invariant with the line that replays each, then what it showed."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sim.sweep import STAGES, Failure, Sweep

SHOWN_EACH = 5


def show(sweep: Sweep, console: Console, *, swarm: bool, again: Callable[[int], str]) -> None:
    groups: dict[str, list[Failure]] = {}
    for failure in sweep.failures:
        groups.setdefault(failure.invariant, []).append(failure)
    for name, failures in groups.items():
        seeds = list(dict.fromkeys(f.seed for f in failures))
        console.print(f"[bold red]{name}[/]: {len(failures)} in {len(seeds)} worlds")
        for f in failures[:SHOWN_EACH]:
            console.print(f"  {escape(f.text)}", soft_wrap=True)
            console.print(f"  [dim]{escape(again(f.seed))}[/]", soft_wrap=True)
        if len(failures) > SHOWN_EACH:
            console.print(f"  [dim]and {len(failures) - SHOWN_EACH} more, seeds {', '.join(map(str, seeds[:20]))}[/]")
    for problem in sweep.problems(swarm):
        console.print(f"[bold red]the sweep itself[/]: {escape(problem)}", soft_wrap=True)
    _numbers(sweep, console)
    bad = len({f.seed for f in sweep.failures})
    if bad or sweep.problems(swarm):
        console.print(f"[bold red]{bad} of {sweep.seeds} worlds failed[/]")
    else:
        console.print(f"[bold green]all {sweep.seeds} worlds held[/]")


def _numbers(sweep: Sweep, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    speed = sweep.simulated_s / sweep.cpu_s if sweep.cpu_s else 0.0
    table.add_row("simulated", f"{sweep.simulated_s / 3600:,.0f} h in {sweep.cpu_s:.1f} CPU s ({speed:,.0f}x), "
                               f"{sweep.wall_s:.1f} s of waiting")
    table.add_row("rentals", f"{sweep.rentals}: " + ", ".join(f"{s} {sweep.reached[s]}" for s in STAGES)
                  + f"; active in {sweep.worlds_active} of {sweep.seeds} worlds")
    table.add_row("kills", ", ".join(f"{v} {n}" for v, n in sorted(sweep.kills.items(), key=lambda x: -x[1]))
                  + f"; {sweep.right_kills} right, {sweep.wrong} wrong" if sweep.kills else "none")
    quantiles = ", ".join(f"{q}: {v:.2f}" for q, v in sweep.quantiles().items() if v is not None)
    table.add_row("survivors", f"longest idle time over its limit, quantiles {quantiles}" if quantiles else "none")
    fired = {k: n for k, n in sweep.faults.items() if n}
    table.add_row("faults", ", ".join(f"{k} {n}" for k, n in sorted(fired.items())) or "none")
    if sweep.never_fired():
        table.add_row("never fired", ", ".join(sweep.never_fired()))
    missed = [name for name, n in sweep.marks.items() if not n]
    if missed:
        table.add_row("never reached", ", ".join(missed))
    table.add_row("at stake", ", ".join(f"{k} {n}" for k, n in sweep.at_stake.items()))
    if sweep.not_recoverable:
        table.add_row("not recoverable", f"{sweep.not_recoverable} worlds: LIVE-1 not judged there")
    console.print(table)
