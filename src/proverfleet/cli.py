"""``proverfleet``: what an operator may ask without a running controller. Exit codes: 0 done, 2 wrong use."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from proverfleet.domain import lifecycle, pricing
from proverfleet.domain.policy import Policy
from proverfleet.domain.sizing import Sizing, concurrency_for, partitions_for

app = typer.Typer(no_args_is_help=True, add_completion=True, help="Controller and agent for rented GPU provers.")
OUTPUTS = ("table", "json")


def _checked(output: str) -> str:
    if output not in OUTPUTS:
        raise typer.BadParameter(f"{output!r} is none of {', '.join(OUTPUTS)}")
    return output


Output = Annotated[str, typer.Option("--output", "-o", callback=_checked, help="table or json")]


@app.command()
def policy(output: Output = "table") -> None:
    """Every number of the rules and brakes, with its default."""
    rows = dataclasses.asdict(Policy())
    if output == "json":
        sys.stdout.write(json.dumps(rows) + "\n")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("field")
    table.add_column("default", justify="right")
    for name, value in rows.items():
        table.add_row(name, "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value))
    Console().print(table)


@app.command()
def size(
    limit_gib: Annotated[float, typer.Argument(help="memory limit in GiB: the smallest cgroup limit", min=1.0)],
    cpu_bound: Annotated[bool, typer.Option(help="the CPU is known to be the brake")] = False,
    output: Output = "table",
) -> None:
    """The size at which a machine with this memory limit would prove."""
    p = partitions_for(limit_gib, cpu_bound=cpu_bound)
    sizing = Sizing(p, concurrency_for(p))
    facts = {"p": p, "concurrency": sizing.concurrency, "partition_workers": p,
             "total_budget_gib": sizing.total_budget_gib, "max_parallel_synthesis": p}
    if output == "json":
        sys.stdout.write(json.dumps(facts) + "\n")
        return
    sys.stdout.write(f"p = {p} partitions at once, {sizing.concurrency} proofs in flight\n"
                     f"old daemon:     partition_workers = {p}\n"
                     f"current daemon: total_budget = {sizing.total_budget_gib} GiB, max_parallel_synthesis = {p}\n")


@app.command("min-rate")
def min_rate(
    price: Annotated[float, typer.Argument(help="$/h of the whole contract", min=0.0001)],
    target: Annotated[float, typer.Option(help="$ a proof", min=0.000001)] = Policy().target_usd_per_proof,
    output: Output = "table",
) -> None:
    """What a machine at this price must reach, and where the number comes from."""
    number, why = pricing.min_rate(price, Policy(target_usd_per_proof=target))
    sys.stdout.write(json.dumps({"min_rate_proofs_per_hour": number, "from": why}) + "\n" if output == "json"
                     else why + "\n")


@app.command("lifecycle")
def diagram() -> None:
    """The stages of a rental as a mermaid diagram."""
    sys.stdout.write(lifecycle.diagram())


def main() -> None:
    app(prog_name="proverfleet")
