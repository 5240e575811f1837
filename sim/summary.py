"""A run in the terminal: what broke first, then a row a rental, then what the world did to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sim.result import NOT_LIVE, OK

STAGES_SHOWN = ("loading", "setup", "benchmark", "active", "draining")
WIDE, MIDDLING = 120, 116  # columns of the terminal from which the reason, and all columns, have room
_COLOR = {OK: "green", "violated": "red", NOT_LIVE: "yellow"}
_STAGE_COLOR = {"active": "green", "gone": "dim", "destroying": "yellow"}


def clock(s: float | None) -> str:
    """``1:05:09``; hours grow past a day, as in the run."""
    if s is None:
        return "–"
    whole = round(s)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def show(result: Mapping[str, Any], console: Console, replay: str) -> None:
    """``replay``: the line that makes this run again."""
    _head(result, console)
    _broken(result, console)
    if result["rentals"]:
        console.print(_rentals(result["rentals"], console.width))
        if console.width < WIDE:
            _reasons(result["rentals"], console)
    else:
        console.print("[yellow]Nothing was rented.[/]")
    _world(result, console)
    console.print(f"journal [dim]{result['journal_sha256']}[/]  ({result['events']:,} events)", soft_wrap=True)
    console.print(f"again   [bold]{escape(replay)}[/]", soft_wrap=True)


def _head(result: Mapping[str, Any], console: Console) -> None:
    color = _COLOR[result["verdict"]]
    console.print(
        f"[bold]{escape(result['scenario'])}[/], seed {result['seed']}, {result['adapter']}, "
        f"policy {escape(result['policy'])}: [bold {color}]{result['verdict'].replace('_', ' ')}[/]  [dim]"
        f"{clock(result['simulated_s'])} simulated in {result['cpu_s']:.1f} CPU s ({result['speed']:,.0f}x)[/]",
        soft_wrap=True)


def _broken(result: Mapping[str, Any], console: Console) -> None:
    for v in result["violations"]:
        where = f" machine {v['machine_id']}" if v["machine_id"] else ""
        console.print(f"[red]✗ {v['invariant']}[/] at {clock(v['at_s'])}{where}: {escape(v['text'])}", soft_wrap=True)
    shown: dict[str, int] = {}
    for text in result["failed_checks"]:
        kind = text.rpartition(" at ")[0] + text.partition(" s: ")[2] if " ended by an error at " in text else text
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] == 1:
            what = "✗" if " ended by an error at " in text else "✗ not as expected:"
            console.print(f"[red]{what}[/] {escape(text)}", soft_wrap=True)
    for kind, times in shown.items():
        if times > 1:
            console.print(f"[red]✗[/] and {times - 1} more times: {escape(kind)}", soft_wrap=True)
    if result["live"] == "not_recoverable":
        console.print("[yellow]! not recoverable:[/] too few offers on which a rental can succeed; LIVE-1 not judged")


def _reasons(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Where the table has no room for them: a line for each rental that ended."""
    for r in rows:
        if r["verdict"]:
            cause = f" ({r['cause']})" if r["cause"] else ""
            console.print(f"  {r['machine_id'] or '–'}: [bold]{r['verdict']}[/]{cause}: {escape(r['reason'])}")


def _rentals(rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    """As many columns as fit; none is ever cut."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    right = ("loading", "setup", "benchmark", "active", "ended", "rate/min", "try", "proofs", "cost")
    table.add_column("machine", justify="right", no_wrap=True)
    table.add_column("GPU", no_wrap=True)
    shown = right if width >= MIDDLING else ("benchmark", "active", "rate/min", "cost")
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("now, and why" if width >= WIDE else "now", overflow="fold")
    for r in rows:
        rate = r["rate_proofs_per_hour"]
        slow = rate is not None and rate < r["min_rate_proofs_per_hour"]
        paid = f"{'–' if rate is None else f'{rate:.1f}'}/{r['min_rate_proofs_per_hour']:g}"
        color = _STAGE_COLOR.get(r["stage"], "cyan")
        end = f"[{color}]{r['stage']}[/]"
        if r["verdict"]:
            cause = f" ({r['cause']})" if r["cause"] else ""
            end = f"[bold]{r['verdict']}[/]" + (f"{cause}: {escape(r['reason'])}" if width >= WIDE else "")
        cells = {s: clock(r["stages_s"].get(s)) for s in STAGES_SHOWN[:-1]}
        cells |= {"ended": clock(r["ended_s"]), "rate/min": f"[red]{paid}[/]" if slow else paid,
                  "try": str(r["attempts"] or "–"), "proofs": str(r["proofs"]), "cost": f"${r['cost_usd']:.2f}"}
        table.add_row(str(r["machine_id"] or "–"), escape(r["gpu"]), *(cells[name] for name in shown), end)
    return table


def _world(result: Mapping[str, Any], console: Console) -> None:
    fired = {kind: n for kind, n in result["faults"].items() if n}
    silent = [kind for kind, n in result["faults"].items() if not n]
    if fired:
        console.print("faults  " + ", ".join(f"{kind} {n}x" for kind, n in fired.items()), soft_wrap=True)
    if silent:
        console.print(f"[yellow]never fired[/] {', '.join(silent)}", soft_wrap=True)
    if result["brakes"]:
        console.print("brakes  " + ", ".join(
            f"{b['name']} {clock(b['from_s'])}–{clock(b['until_s']) if b['until_s'] is not None else 'now'}"
            for b in result["brakes"]), soft_wrap=True)
    if result["alerts"]:
        names: dict[str, int] = {}
        for alert in result["alerts"]:
            names[alert["name"]] = names.get(alert["name"], 0) + 1
        console.print("alerts  " + ", ".join(f"{n} {k}x" if k > 1 else n for n, k in names.items()), soft_wrap=True)
    if result["blacklist"]:
        console.print("listed  " + ", ".join(
            f"{e['machine_id']} ({escape(e['reason'])})" for e in result["blacklist"]), soft_wrap=True)
    m, k = result["money"], result["kills"]
    per = "–" if m["usd_per_proof"] is None else f"${m['usd_per_proof']:.4f}"
    best = "–" if m["best_usd_per_proof"] is None else f"${m['best_usd_per_proof']:.4f}"
    console.print(
        f"money   ${m['spent_usd']:.2f} spent, {per} a proof (best possible {best}), ${m['wasted_usd']:.2f} wasted, "
        f"${m['leaked_usd']:.2f} leaked; {result['work']['accepted']} proofs accepted", soft_wrap=True)
    if k["total"]:
        console.print("kills   " + ", ".join(f"{v} {n}" for v, n in k["by_verdict"].items() if n)
                      + (f"; [red]{k['wrong']} wrong[/]" if k["wrong"] else "; none wrong"))
