"""The rate: what counts, how sure it is, and the operators' own numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from proverfleet.domain import completions, rate
from proverfleet.domain.fleet import NS, Rental
from proverfleet.domain.policy import Policy
from tests.builders import rental, report

P = Policy()
SKIP_S = P.rate_warm_up_s


def fresh(stage: str = "active", min_rate: float = 36.0, **fields: Any) -> Rental:
    return rental(1, stage, last=report("active", proofs_accepted=0, last_completions=()), min_rate=min_rate, **fields)


def feed(r: Rental, times_s: Sequence[float], stage: str = "active", first: int = 1, **fields: Any) -> Rental:
    """One report a proof, the way a 30 s agent sees them; the stage's own first report comes at time 0."""
    r.last = report(stage, mono_ns=0, last_completions=(), **fields)
    completions.record(r, r.last, P)
    for i, t in enumerate(times_s):
        done = tuple((first + k, int(times_s[k] * NS)) for k in range(max(0, i - 19), i + 1))
        r.last = report(stage, mono_ns=int((t + 5) * NS), last_completions=done, **fields)
        completions.record(r, r.last, P)
    return r


def every(step_s: float, count: int, start_s: float = 0.0) -> list[float]:
    return [start_s + step_s * (i + 1) for i in range(count)]


def noisy(dice: random.Random, mean_s: float, count: int, sigma: float = 0.04) -> Iterator[float]:
    t = 0.0
    for _ in range(count):
        t += mean_s * dice.lognormvariate(-sigma * sigma / 2, sigma)
        yield t


# ---------------------------------------------------------------- the batch


def test_norway_12_proofs_in_1045_5_s_is_41_proofs_an_hour_and_no_failure_at_its_own_price() -> None:
    step_s = 1045.5 / 12
    seen = rate.benchmark(feed(fresh("benchmark", 37.0), every(step_s, 12), "batch"), P)
    assert seen.full and seen.proofs == 11 and seen.verdict == "above"
    assert seen.rate == pytest.approx(41.32, abs=0.01)
    assert rate.benchmark(feed(fresh("benchmark", 50.0), every(step_s, 12), "batch"), P).verdict == "below"


def test_a_batch_near_min_rate_is_undecided() -> None:
    dice = random.Random(1)
    seen = rate.benchmark(feed(fresh("benchmark", 41.0), list(noisy(dice, 1045.5 / 12, 12)), "batch"), P)
    assert seen.full and seen.verdict == "undecided"


def test_filling_of_the_pipeline_counts_for_nobody() -> None:
    times = every(90.0, 12, start_s=900.0)
    assert rate.benchmark(feed(fresh("benchmark", 39.0), times, "batch"), P).rate == pytest.approx(40.0)


def test_before_the_batch_is_full_only_far_below_condemns() -> None:
    assert rate.benchmark(feed(fresh("benchmark", 36.0), every(140.0, 8), "batch"), P).verdict == "undecided"
    r = feed(fresh("benchmark", 36.0), every(300.0, 8), "batch")  # a third of min_rate, out of reach
    assert rate.benchmark(r, P).verdict == "early_below" and not rate.can_reach(r, P)
    r = feed(fresh("benchmark", 36.0), every(300.0, 3), "batch")  # the other nine might come at once
    assert rate.benchmark(r, P).verdict == "undecided" and rate.can_reach(r, P)


def test_a_freeze_of_22_min_in_the_batch_is_the_stall_rules_affair() -> None:
    times = every(90.0, 5) + every(90.0, 7, start_s=450.0 + 1320.0)
    seen = rate.benchmark(feed(fresh("benchmark", 37.0), times, "batch"), P)
    assert seen.proofs == 10 and seen.rate == pytest.approx(40.0)


def test_a_shared_machine_is_not_condemned_by_its_batch() -> None:
    r = feed(fresh("benchmark", 50.0, gpu_frac=0.5), every(1045.5 / 12, 12), "batch")
    assert rate.benchmark(r, P).verdict == "undecided"
    r = feed(fresh("benchmark", 90.0, gpu_frac=0.5), every(1045.5 / 12, 12), "batch")
    assert rate.benchmark(r, P).verdict == "early_below"


def test_the_warm_up_proof_is_no_part_of_the_batch() -> None:
    r = fresh("benchmark", 37.0)
    r.last = report("warmup", mono_ns=0, last_completions=((1, 429 * NS),))
    completions.record(r, r.last, P)
    feed(r, every(90.0, 12, start_s=800.0), "batch", first=2)
    seen = rate.benchmark(r, P)
    assert seen.full and seen.proofs == 11 and seen.rate == pytest.approx(40.0)


def test_another_attempt_is_another_batch() -> None:
    r = feed(fresh("benchmark", 37.0), every(200.0, 5), "batch")
    feed(r, every(90.0, 12, start_s=5000.0), "batch", first=6, attempt=1, p=6)
    seen = rate.benchmark(r, P)
    assert seen.proofs == 11 and seen.rate == pytest.approx(40.0)


# ---------------------------------------------------------------- earning


def test_the_first_seven_minutes_are_left_out() -> None:
    r = feed(fresh(), every(100.0, 60))
    assert rate.active(r, P).busy_s == pytest.approx(3600.0)
    assert r.completed[-1].busy_sum_s == pytest.approx(6000.0 - 500.0)


def test_a_window_that_is_not_full_says_nothing_but_far_below() -> None:
    assert rate.active(feed(fresh(), every(110.0, 30)), P).verdict == "undecided"
    assert rate.active(feed(fresh(), every(200.0, 15)), P).verdict == "early_below"


def test_a_full_hour_clearly_below_condemns_and_clearly_above_does_not() -> None:
    assert rate.active(feed(fresh(), every(120.0, 40)), P).verdict == "below"
    assert rate.active(feed(fresh(), every(90.0, 60)), P).verdict == "above"


@pytest.mark.parametrize("mean_s", [85.0, 98.0, 101.0, 110.0])
@pytest.mark.parametrize("fields", [{}, {"gpu_frac": 0.5}, {"consumer_claimed": 40, "consumer_seen": 30}])
def test_what_is_unsuspected_is_never_condemned_and_has_the_same_rate(mean_s: float, fields: dict[str, Any]) -> None:
    r, found = fresh(**fields), 0
    feed(r, [])
    for i, t in enumerate(noisy(random.Random(3), mean_s, 150, 0.1)):
        r.last = report("active", mono_ns=int(t * NS), last_completions=((i + 1, int(t * NS)),))
        completions.record(r, r.last, P)
        plain, seen = rate.unsuspected(r, P), rate.active(r, P)
        if plain is not None:
            found += 1
            assert plain == (seen.rate, seen.proofs) and seen.verdict in ("above", "undecided")
        else:
            assert seen.rate is None or seen.rate < r.min_rate
    assert found or mean_s > 100.0 or fields


def test_evidence_grows_over_three_windows_for_a_rental_slightly_below() -> None:
    dice = random.Random(7)
    times = list(noisy(dice, 100.0 / 0.965, 120, 0.03))
    r = fresh()
    first, seen = None, None
    r.last = report("active", mono_ns=0, last_completions=())
    completions.record(r, r.last, P)
    for i, t in enumerate(times):
        r.last = report("active", mono_ns=int(t * NS), last_completions=((i + 1, int(t * NS)),))
        completions.record(r, r.last, P)
        seen = rate.active(r, P)
        if seen.verdict == "below":
            first = t
            break
    assert seen is not None and first is not None and 3600 < first <= 3 * 3600 + SKIP_S + 240


def test_idle_time_is_no_slowness() -> None:
    r, t, starved = fresh(), 0.0, 0.0
    r.last = report("active", mono_ns=0, last_completions=())
    completions.record(r, r.last, P)
    for i in range(200):
        if i % 10 == 9:
            starved += 900.0
            t += 900.0 + 200.0  # idle, and the pipeline fills again
        t += 90.0
        done = ((i + 1, int(t * NS)),)
        r.last = report("active", mono_ns=int((t + 5) * NS), starved_s=starved, last_completions=done)
        completions.record(r, r.last, P)
    seen = rate.active(r, P)
    assert seen.full and seen.verdict == "above" and seen.rate == pytest.approx(40.0)


def test_a_restart_leaves_out_what_crosses_it_and_seven_minutes() -> None:
    r = feed(fresh(), every(100.0, 20))
    before = r.completed[-1].busy_sum_s
    r.last = report("active", mono_ns=2100 * NS, restarts_prover=1, last_completions=())
    completions.record(r, r.last, P)
    for i, t in enumerate(every(100.0, 10, start_s=2300.0)):
        done = ((21 + i, int(t * NS)),)
        r.last = report("active", mono_ns=int((t + 5) * NS), restarts_prover=1, last_completions=done)
        completions.record(r, r.last, P)
    assert r.completed[-1].busy_sum_s == pytest.approx(before + 700.0)  # from 2600 s, the first proof after 2520 s


def test_repeats_and_losses_change_nothing() -> None:
    times = every(90.0, 80)
    whole = feed(fresh(), times)
    part = fresh()
    part.last = report("active", mono_ns=0, last_completions=())
    completions.record(part, part.last, P)
    for i in (*range(20), 19, 5, *range(33, 60), 40, 79):  # repeats, old ones, and up to 13 lost in a row
        done = tuple((k + 1, int(times[k] * NS)) for k in range(max(0, i - 19), i + 1))
        completions.record(part, report("active", mono_ns=int(times[i] * NS), last_completions=done), P)
    a, b = rate.active(whole, P), rate.active(part, P)
    assert b.rate == pytest.approx(a.rate) and b.verdict == a.verdict


def test_memory_is_bounded_over_days() -> None:
    r = fresh()
    r.last = report("active", mono_ns=0, last_completions=())
    for i in range(5000):
        completions.record(r, report("active", mono_ns=i * 90 * NS, last_completions=((i + 1, i * 90 * NS),)), P)
    assert len(r.completed) < 3 * 40 + 70


def test_a_machine_that_claims_twice_what_the_consumer_saw_is_held_to_it() -> None:
    r = feed(fresh(), every(60.0, 90))
    assert rate.active(r, P).verdict == "above"
    r.consumer_claimed, r.consumer_seen = 80, 40
    seen = rate.active(r, P)
    assert seen.rate == pytest.approx(60 * 42 / 80) and seen.verdict == "below"


def test_another_size_starts_anew() -> None:
    r = feed(fresh(), every(200.0, 40))
    feed(r, every(90.0, 3, start_s=9000.0), first=41, p=14)
    assert len([c for c in r.completed if c.p == 14]) == len(r.completed)
    assert replace(rate.active(r, P), why="").verdict == "undecided"
