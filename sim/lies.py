"""What a machine says that is not so (agent.lies): cumulative counters, times, or who it is.

In scope: lies that are consistent with themselves, which is what makes them dangerous. Out of scope: broken messages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proverfleet.domain.ids import IntentId
from proverfleet.domain.report import Report

if TYPE_CHECKING:
    from sim.spec import FaultSpec
    from sim.world import World


def lie(report: Report, fault: FaultSpec, world: World) -> Report:
    """The report as a lying machine sends it."""
    what, factor = fault.params["what"], float(fault.params["factor"])
    if what == "counters":
        return replace(
            report, partitions=round(report.partitions * factor),
            proofs_accepted=round(report.proofs_accepted * factor),
            bytes_received=min(report.bytes_total, round(report.bytes_received * factor)),
            last_completions=tuple((round(n * factor), at) for n, at in report.last_completions),
        )
    if what == "rate":
        return replace(
            report, mono_ns=round(report.mono_ns / factor), busy_s=report.busy_s / factor,
            last_completions=tuple((n, round(at / factor)) for n, at in report.last_completions),
            bench=None if report.bench is None else (report.bench[0], report.bench[1], report.bench[2] / factor),
            bench_rate_proofs_per_hour=(
                None if report.bench_rate_proofs_per_hour is None else report.bench_rate_proofs_per_hour * factor),
        )
    other = next((c.intent for c in world.truth.contracts.values()
                  if c.ours and c.gone is None and c.intent and c.intent != report.rental), None)
    return report if other is None else replace(report, rental=IntentId(other))
