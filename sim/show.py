"""``sim faults`` and ``sim scenarios``: what there is, in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from proverfleet.controller.points import POINTS
from sim.faults.catalogue import FAMILIES, KINDS, REQUIRED, Kind, Param
from sim.faults.kinds import ANY, DURATION, FLAG, TABLE, TEXT
from sim.units import in_words

COMMON = (
    ("at", 'when: "25m", or after a stage mark: "batch+620s"', '"0m"'),
    ("for", 'how long; "0s" is a moment; "always" (host. and prover.): the machine\'s nature', "by kind"),
    ("times", "• the first n matching calls; others: the first n times that the mark is reached",
     "• no limit; others 1"),
    ("every", "repeats it, start to start", "once"),
    ("machine", "one id, or a list", "all"),
    ("host_id", "every machine of this host (host. kinds)", ""),
)


def default_in_words(param: Param) -> str:
    value = param.default
    if value is REQUIRED:
        return "required"
    if value is None:
        return param.says or ("none" if param.type != ANY else "null")
    if param.type == DURATION:
        return in_words(value)
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, int | float) else (
        f'"{value}"')


def lasts(kind: Kind) -> str:
    if kind.moment:
        return "a moment"
    if kind.for_s is None:
        return kind.for_note or "the run"
    return in_words(kind.for_s)


def param_in_words(param: Param) -> str:
    """``age_s 120 s``: name, default, unit."""
    unit = f" {param.unit.split(',')[0]}" if param.unit and param.default not in (None, REQUIRED) else ""
    return f"{param.name} {default_in_words(param)}{unit}"


def every_kind(console: Console) -> None:
    """One row a kind, a table a family."""
    for family, kinds in FAMILIES.items():
        table = Table(box=None, pad_edge=False, header_style="dim", title=f"[bold]{family}.[/]", title_justify="left",
                      expand=True)
        table.add_column("kind", no_wrap=True, style="cyan", min_width=21)
        table.add_column("lasts", no_wrap=True, min_width=11)
        table.add_column("blame", no_wrap=True, min_width=7)
        table.add_column("what", ratio=1)
        table.add_column("parameters (default)", style="dim", ratio=1)
        for kind in kinds:
            name = kind.name.split(".")[1] + (" •" if kind.per_call else "")
            times = f", {kind.times}x" if kind.per_call and kind.times else ""
            table.add_row(name, lasts(kind) + times, kind.blame, escape(kind.doc),
                          escape("; ".join(param_in_words(p) for p in kind.params)))
        console.print(table)
        console.print()
    keys = Table(box=None, pad_edge=False, header_style="dim", title="[bold]keys of every fault[/]",
                 title_justify="left")
    for column in ("key", "meaning", "default"):
        keys.add_column(column, style="cyan" if column == "key" else "")
    for row in COMMON:
        keys.add_row(*map(escape, row))
    console.print(keys)
    console.print("\n• acts on calls or messages while it lasts. `sim faults KIND` shows one kind with all its values.")


def one_kind(name: str, console: Console) -> None:
    kind = KINDS[name]
    dot = ", acts on calls or messages while it lasts (•)" if kind.per_call else ""
    console.print(f"[bold cyan]{kind.name}[/]: {escape(kind.doc)}")
    console.print(f"lasts {lasts(kind)}{dot}; may be blamed on: {kind.blame}; times: {kind.times or 'no limit'}"
                  + ('; for = "always" allowed' if kind.may_be_always else ""))
    if kind.params:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("parameter", "default", "type", "unit", "values"):
            table.add_column(column, style="cyan" if column == "parameter" else "")
        for p in kind.params:
            table.add_row(p.name, escape(default_in_words(p)), p.type, p.unit, escape(_values(p)))
        console.print(table)
    if kind.name == "controller.crash":
        console.print("\npoints:")
        for point, meaning in POINTS.items():
            console.print(f"  [cyan]{point}[/]  {escape(meaning)}")
    console.print(f"\n[dim]\\[\\[fault]]\nkind = \"{kind.name}\"\n{escape(example(kind))}[/]")


def _values(param: Param) -> str:
    if param.allowed:
        return f"{len(param.allowed)} names, below" if len(param.allowed) > 12 else ", ".join(map(str, param.allowed))
    if param.type in (TEXT, ANY, TABLE, FLAG):
        return ""
    lo = f">= {param.least:g}" if param.least is not None else ""
    hi = f"<= {param.most:g}" if param.most is not None else ""
    return ", ".join(x for x in (lo, hi) if x)


def example(kind: Kind) -> str:
    """The rest of a [[fault]] table of this kind."""
    lines = ['at = "1h"']
    if kind.for_s:
        lines.append(f'for = "{in_words(kind.for_s)}"')
    for p in kind.params:
        if p.default is REQUIRED:
            lines.append(f"{p.name} = {'{ silence_s = 2400 }' if p.type == TABLE else 2}")
        elif p.default is not None and p.name != "op":
            lines.append(f"{p.name} = {_toml(p)}")
    return "\n".join(lines)


def _toml(param: Param) -> str:
    value: Any = in_words(param.default) if param.type == DURATION else param.default
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else f"{value:g}"


def scenarios(rows: list[tuple[str, Path, str, float]], console: Console) -> None:
    """(name, path, about, hours) a row; ``about`` starts with "!" where the file is broken."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("scenario", style="cyan", no_wrap=True)
    table.add_column("hours", justify="right")
    table.add_column("what it shows")
    for name, _, about, hours in rows:
        broken = about.startswith("!")
        table.add_row(name, "" if broken else f"{hours:g}", f"[red]{escape(about[1:])}[/]" if broken else escape(about))
    console.print(table)
