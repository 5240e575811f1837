"""Prints simulated seconds per CPU second on the reference fleet, with the machine's own raw SimPy speed beside it.

Asserts nothing: a figure belongs to the machine that it was measured on.
"""

from __future__ import annotations

import resource
import sys
import time

import simpy

from sim.run import run
from sim.scenario import load


def raw_simpy_timeouts_per_s(seconds: float = 1.0) -> float:
    """Timeouts per CPU second of 100 plain SimPy processes."""
    env = simpy.Environment()
    count = 0

    def ticker(step: int):  # type: ignore[no-untyped-def]
        nonlocal count
        while True:
            yield env.timeout(step)
            count += 1

    for i in range(100):
        env.process(ticker(1 + i % 7))
    start = time.process_time()
    while time.process_time() - start < seconds:
        env.run(until=env.now + 1000)
    return count / (time.process_time() - start)


def main() -> None:
    raw = raw_simpy_timeouts_per_s()
    print(f"raw SimPy: {raw:,.0f} timeouts per CPU s")
    scenario = load("reference")
    if len(sys.argv) > 1:
        scenario.hours = float(sys.argv[1])
    best = 0.0
    for seed in (1, 2, 3):
        done = run(scenario, seed, liveness=False)
        best = max(best, done.speed)
        print(f"seed {seed}: {done.simulated_s:,.0f} simulated s in {done.cpu_s:.1f} CPU s = {done.speed:,.0f} s per "
              f"CPU s, {done.events:,} events, {done.journal_bytes / 1e6:.1f} MB journal, verdict "
              f"{len(done.verdict.violations)} violations")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"best: {best:,.0f} simulated s per CPU s ({best / raw * 1000:.1f} per 1000 raw timeouts)")
    print(f"peak memory of this process: {peak_mb:.0f} MB")


if __name__ == "__main__":
    main()
