"""The model against what was measured: cuzk-model.md section 5 and field-cases.md. ``pytest -s`` prints the table."""

from __future__ import annotations

import pytest

from sim.model import (
    Hardware,
    batch_s,
    best_rate,
    hardware_of,
    memory_curve,
    rate_at,
    rss_peak_gib,
    srs_load_s,
    warm_up_s,
)
from sim.spec import MachineSpec

# pw, gw, N, measured s/proof, measured peak GiB (cuzk-project.md lines 1773-1812)
ROWS = [
    (1, 1, 5, 290.0, 104), (2, 1, 5, 152.0, 110), (5, 1, 5, 68.4, 170), (5, 2, 5, 68.6, 170), (7, 1, 5, 53.3, 208),
    (7, 2, 5, 51.2, 204), (10, 1, 5, 45.4, 310), (10, 2, 5, 42.5, 271), (12, 2, 5, 42.5, 373), (10, 2, 20, 38.5, 321),
    (12, 2, 20, 37.7, 400), (14, 2, 20, 37.8, 457), (16, 2, 20, 38.4, 510),
]
M1475 = MachineSpec(id=1, host=1, gpu="RTX PRO 4000", ram_gib=504, cpu_factor=1.3, contention=0.06,
                    gpu_s_per_partition=5.0, rate_proofs_per_hour=54.8)
M1121 = MachineSpec(id=2, host=1, gpu="RTX 3090", gpus=2, ram_gib=256, cpu_factor=2.0, rate_proofs_per_hour=34.0)
NORWAY = MachineSpec(id=3, host=1, gpu="RTX 4090", ram_gib=500, cpu_factor=2.21, contention=0.078,
                     gpu_s_per_partition=1.8)


def reference(gw: int) -> Hardware:
    return Hardware(1.0, 0.048, 3.5 if gw == 2 else 3.75, 1, 96.0, pcie_gb_per_s=48.0)


def test_the_13_published_rows() -> None:
    time_errors, memory_errors = [], []
    print("\n pw gw  N | meas s/proof  model   err | meas GiB  model   err")
    for p, gw, n, seconds, gib in ROWS:
        model, rss = batch_s(reference(gw), p, n) / n, rss_peak_gib(reference(gw), p)
        time_errors.append(abs(model / seconds - 1))
        memory_errors.append(abs(rss / gib - 1))
        print(f" {p:2} {gw:2} {n:2} | {seconds:12.1f} {model:6.1f} {model / seconds - 1:+5.0%} |"
              f" {gib:8} {rss:6.0f} {rss / gib - 1:+5.0%}")
    mean_time, mean_memory = sum(time_errors) / len(ROWS), sum(memory_errors) / len(ROWS)
    print(f" mean error: time {mean_time:.1%}, memory {mean_memory:.1%}")
    assert mean_time <= 0.04
    assert mean_memory <= 0.05


def test_the_4090_in_norway_measured_41_32_proofs_an_hour() -> None:
    total = batch_s(hardware_of(NORWAY), 16, 12)
    print(f"\n 12 proofs in {total:.1f} s: {12 * 3600 / total:.2f} proofs/h")
    assert total == pytest.approx(1045.5, rel=0.02)
    assert 12 * 3600 / total == pytest.approx(41.32, rel=0.01)
    assert rss_peak_gib(hardware_of(NORWAY), 16) < 465
    pinned = MachineSpec(id=3, host=1, ram_gib=500, cpu_factor=2.21, contention=0.078, gpu_s_per_partition=1.8,
                         rate_proofs_per_hour=41.32)
    assert best_rate(pinned) == pytest.approx(41.32)


def test_the_2x3090_in_the_us_warmed_up_in_429_s() -> None:
    us = Hardware(2.2, 0.078, 2.8, 2, 64.0)
    assert warm_up_s(us, 2) + srs_load_s(1000.0) == pytest.approx(429.0, rel=0.02)


def test_the_rtx_pro_4000_runs_out_of_memory_at_about_620_s() -> None:
    hw = hardware_of(M1475)
    assert rss_peak_gib(hw, 16) == pytest.approx(512, abs=1)
    crossing = memory_curve(hw, 16).crossing_s(504)
    print(f"\n crosses 504 GiB after {crossing:.0f} s")
    assert crossing == pytest.approx(620, rel=0.20)
    assert memory_curve(hw, 9).crossing_s(504) == float("inf")


def test_the_2x3090_dies_on_the_first_fill_at_10_and_lasts_at_6() -> None:
    curve = memory_curve(hardware_of(M1121), 10)
    assert curve.crossing_s(256) < curve.at_s[1]
    assert memory_curve(hardware_of(M1121), 6).crossing_s(256) == float("inf")


def test_a_pinned_rate_is_what_the_best_size_that_fits_reaches() -> None:
    assert best_rate(M1475) == pytest.approx(54.8)
    assert best_rate(M1121) == pytest.approx(34.0)
    assert rate_at(M1475, 9) > 50
    assert rate_at(M1121, 6) >= 31
    assert rate_at(M1121, 5) > 30
    assert rate_at(M1121, 2) < 20
    assert best_rate(M1475, 60.0) == 0.0


def test_the_memory_line_stays_after_its_creep_of_a_tenth() -> None:
    hw = hardware_of(M1475)
    curve = memory_curve(hw, 9)
    assert curve.rss(0.0) == 70.0
    assert curve.rss(curve.at_s[1]) == 70 + 20 * 9
    assert curve.rss(1e9) == pytest.approx(1.1 * rss_peak_gib(hw, 9))
    assert all(a <= b for a, b in zip(curve.gib, curve.gib[1:], strict=False))
