"""Twin runs: the same world under the same seed, with one family of faults taken out. What a lie, an outage, a clock or
a repeated message must not change is then a comparison of two runs (INV-3, INV-5, INV-8).

In scope: how the rentals of the two runs ended. Out of scope: the beat of each decision, which an outage may move.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from sim.run import RunResult, run
from sim.spec import Scenario

LIES = ("market.list_", "market.status", "market.row_poison", "market.get_null", "market.auth_broken", "market.error",
        "market.hang", "market.rate_limit", "controller.offline", "controller.crash", "controller.db_", "tunnel.")
CLOCKS = ("host.clock_", "controller.clock_step")
REPEATS = ("agent.duplicate", "agent.reorder", "agent.late")


@dataclass(frozen=True, slots=True)
class Twins:
    """Both runs. ``ended``: machines whose rental ended in the run but not in its twin, by verdict."""

    run: RunResult
    twin: RunResult

    @property
    def ended(self) -> list[tuple[int, str]]:
        kept = {machine for machine, verdict in outcomes(self.twin) if not verdict}
        return [(machine, verdict) for machine, verdict in outcomes(self.run) if verdict and machine in kept]

    @property
    def same_ends(self) -> bool:
        return outcomes(self.run) == outcomes(self.twin)


def outcomes(done: RunResult) -> list[tuple[int, str]]:
    """(machine, verdict or "" while it lives) of every rental, in order of machine."""
    fleet = done.fleet
    if fleet is None:
        return []
    return sorted((int(r.machine_id or 0), r.verdict) for r in fleet.rentals.values())


def without(scenario: Scenario, families: Sequence[str]) -> Scenario:
    """The scenario less the faults whose kind starts with one of ``families``; no other dice move."""
    out = copy.deepcopy(scenario)
    out.faults = [f for f in out.faults if not f.kind.startswith(tuple(families))]
    return out


def twins(scenario: Scenario, seed: int, families: Sequence[str]) -> Twins:
    """Runs the scenario and its twin."""
    return Twins(run(scenario, seed, liveness=False), run(without(scenario, families), seed, liveness=False))
