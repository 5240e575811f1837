"""How often the rate rule condemns a machine that is fast enough, and how soon it finds one that is not.

Synthetic rentals with a true mean between 1.00 and 1.05 x min_rate are looked at after every proof: of their batch, and
of half a day of earning (two days where the machine is shared), with proof noise of 1.3 to 4 % and episodes on:
throttling (x 0.7 for 20 min) on whole machines, neighbours (x 0.6 to 0.9 for 10 to 40 min) on shared ones. The mean is
held at its value *with* the episodes.

"wrong": condemned although neither the true mean over the full window before nor that over the 6 h after was below
min_rate (rules.md INV-1). "by life": condemned although the mean over the whole life is not below; episodes that fill a
window make these two differ. Goals for "wrong": 1e-4 (whole), 1e-2 (shared). Second table: rentals below min_rate and
the share found within three windows.

Prints; asserts nothing. ``python tests/bench/bench_rate.py [rentals]`` (default 20000, some minutes of CPU).
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass

from proverfleet.domain import completions, rate
from proverfleet.domain.fleet import NS, Rental
from proverfleet.domain.ids import IntentId
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import Report

POLICY = Policy()
SIX_HOURS_S = 21_600.0


@dataclass(slots=True)
class Life:
    """One synthetic machine: ``proofs`` are completion times (s), ``spans`` (start, end, factor) its episodes."""

    base_rate: float
    spans: list[tuple[float, float, float]]
    proofs: list[float]

    def mean(self, start: float, end: float) -> float:
        """True mean rate over [start, end], episodes as drawn, without the noise."""
        lost = sum(max(0.0, min(end, b) - max(start, a)) * (1 - f) for a, b, f in self.spans)
        return self.base_rate * (1 - lost / max(1e-9, end - start))


def draw(
    dice: random.Random, min_rate: float, ratio: float, shared: bool, hours: float, episodes: bool = True
) -> Life:
    sigma = dice.uniform(0.013, 0.04)
    life_s = hours * 3600.0
    spans, t = [], 0.0
    share = dice.choice((0.0, 0.02, 0.1)) if not shared else dice.uniform(0.05, 0.35)
    while share > 0 and episodes:
        long_s = 1200.0 if not shared else dice.uniform(600.0, 2400.0)
        t += dice.expovariate(share / (long_s * (1 - share)))
        if t > life_s:
            break
        spans.append((t, t + long_s, 0.7 if not shared else dice.uniform(0.6, 0.9)))
        t += long_s
    lost = sum((min(b, life_s) - a) * (1 - f) for a, b, f in spans) / life_s
    base = min_rate * ratio / (1 - lost)
    proofs, t, i = [], 0.0, 0
    while t < life_s:
        work = dice.lognormvariate(-sigma * sigma / 2, sigma) * 3600.0 / base  # seconds of undisturbed work
        while work > 0:
            while i < len(spans) and t >= spans[i][1]:
                i += 1
            factor, until = 1.0, spans[i][0] if i < len(spans) else float("inf")
            if i < len(spans) and t >= spans[i][0]:
                factor, until = spans[i][2], spans[i][1]
            step = min(work / factor, until - t)
            t += step
            work -= step * factor
        proofs.append(t)
    return Life(base, spans, proofs)


def report(stage: str, t: float, last: tuple[tuple[int, int], ...]) -> Report:
    return Report(IntentId("r"), "", "b", 0, 0, int(t * NS), "c", stage, 0, 10, 2, "current", "1", 0, 0, 0, 0, 0, 0, 0,
                  0.0, 0.0, 0, 0, 0, last)


def condemned(life: Life, min_rate: float, gpu_frac: float) -> tuple[float, float] | None:
    """(start, end) of the full window before it was condemned, in s of its life; None: never."""
    rental = Rental(IntentId("r"), 0, "", None, None, "", 1, 0, gpu_frac, 0, 0.3, None, min_rate, "", False, "img")
    batch = POLICY.batch_proofs
    rental.last = report("batch", 0.0, ())
    completions.record(rental, rental.last, POLICY)
    for i, t in enumerate(life.proofs):
        stage = "batch" if i < batch else "active"
        if i == batch:
            completions.record(rental, report("active", life.proofs[i - 1] + 1.0, ()), POLICY)
        rental.last = report(stage, t, ((i + 1, int(t * NS)),))
        completions.record(rental, rental.last, POLICY)
        seen = rate.benchmark(rental, POLICY) if i < batch else rate.active(rental, POLICY)
        if seen.verdict in ("below", "early_below"):
            return (life.proofs[0], t) if i < batch else (t - completions.window_s(rental, POLICY), t)
    return None


def errors(rentals: int, shared: bool, hours: float, seed: int, episodes: bool = True) -> None:
    dice = random.Random(seed)
    wrong = by_life = in_batch = looks = 0
    began = time.process_time()
    for _ in range(rentals):
        min_rate = dice.uniform(20.0, 60.0)
        life = draw(dice, min_rate, dice.uniform(1.0, 1.05), shared, hours, episodes)
        looks += len(life.proofs)
        window = condemned(life, min_rate, 0.5 if shared else 1.0)
        if window is None:
            continue
        start, end = window
        by_life += 1
        in_batch += end <= life.proofs[POLICY.batch_proofs - 1]
        wrong += life.mean(start, end) >= min_rate and life.mean(end, end + SIX_HOURS_S) >= min_rate
    kind, goal = ("shared", 1e-2) if shared else ("whole", 1e-4)
    cpu = time.process_time() - began
    on = "on" if episodes else "off"
    print(f"{kind:>7} {rentals:>8} {on:>9} {hours:>5g} h {wrong / rentals:>9.1e} (goal {goal:.0e}) "
          f"{by_life / rentals:>9.1e} "
          f"{in_batch:>9} {cpu / looks * 1e6:>9.1f} us a proof, draw and looks")


def power(rentals: int, ratio: float, shared: bool, episodes: bool, seed: int) -> None:
    dice = random.Random(seed)
    one_s = POLICY.rate_window_shared_s if shared else POLICY.rate_window_s
    hours = (3 * one_s + POLICY.rate_warm_up_s + 600.0 + 12 * 90.0) / 3600.0
    found = batch = 0
    for _ in range(rentals):
        min_rate = dice.uniform(20.0, 60.0)
        life = draw(dice, min_rate, ratio, shared, hours, episodes)
        window = condemned(life, min_rate, 0.5 if shared else 1.0)
        if window is not None:
            found += 1
            batch += window[1] <= life.proofs[POLICY.batch_proofs - 1]
    kind = "shared" if shared else "whole"
    on = "on" if episodes else "off"
    print(f"{kind:>7} {rentals:>8} {ratio:>7.2f} {on:>9} {found / rentals:>17.1%} {batch / rentals:>9.1%}")


def main() -> None:
    rentals = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("condemned although fast enough (1.00 to 1.05 x min_rate)")
    print("   kind  rentals  episodes   life     wrong               by life   in batch")
    errors(rentals, False, 12.0, 1)
    errors(max(1, rentals // 2), False, 12.0, 6, episodes=False)
    errors(max(1, rentals // 5), True, 48.0, 2)
    print("found within three windows")
    print("   kind  rentals   ratio  episodes  within 3 windows  in batch")
    for ratio in (0.97, 0.96, 0.95, 0.90, 0.80):
        power(max(1, rentals // 40), ratio, False, False, 3)
        power(max(1, rentals // 40), ratio, False, True, 4)
    for ratio in (0.97, 0.95, 0.90, 0.80):
        power(max(1, rentals // 200), ratio, True, True, 5)


if __name__ == "__main__":
    main()
