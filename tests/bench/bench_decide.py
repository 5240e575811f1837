"""How long ``decide`` takes on a large fleet (design.md section 6: <= 0.5 s CPU for 10 000 rentals, linear).

Run with ``python -m tests.bench.bench_decide``; prints, never asserts.
"""

from __future__ import annotations

import time

from proverfleet.domain.decide import decide
from tests.builders import fleet, probed, proofs, rental

MIX = ("active",) * 14 + ("benchmark", "setup", "loading")


def measure(count: int, repeats: int = 3) -> float:
    """CPU s of one ``decide``, the best of ``repeats``. One rental in 50 is stuck, and one in 100 is gone."""
    some = []
    for n in range(1, count + 1):
        stage = MIX[n % len(MIX)]
        r = rental(n, stage, still_s=5000.0 if n % 50 == 0 else 20.0)
        if stage == "active":
            proofs(r, 55.0, 60)
        if n % 50 == 0:
            probed(r, "answers")
        if n % 100 == 7:
            r.stage = "gone"
        some.append(r)
    world = fleet(*some)
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        decide(world)
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    for count in (1_000, 3_000, 10_000):
        took = measure(count)
        print(f"{count:6d} rentals  {took:.3f} s CPU  {took / count * 1e6:6.1f} us a rental")


if __name__ == "__main__":
    main()
