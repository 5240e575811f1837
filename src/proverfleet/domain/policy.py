"""The numbers of every rule and brake, in one frozen object (rules.md section 3). Units are in the names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

_LIMITS = ("stall_loading_s", "stall_params_s", "stall_benchmark_s", "stall_active_s", "silence_s", "lease_idle_s")


_BOUNDS: dict[str, tuple[float, float]] = {
    "creates_per_beat": (1, 100),
    "lost_listings": (3, 1000),
    "lost_after_s": (60, 86_400),
    "loading_error_beats": (2, 1000),
    "never_started_s": (300, 86_400),
    "host_offline_s": (300, 86_400),
    "orphan_after_s": (300, 86_400),
    "rate_early_share": (0, 0.9),
    "price_margin": (0, 1),
    "file_failures_max": (1, 100),
    "invalid_in_a_row": (2, 100),
    "invalid_of_last_100": (2, 100),
    "systemic_machines": (2, 1000),
    "systemic_hosts": (1, 1000),
    "systemic_share": (0.01, 1),
    "soft_strikes": (1, 100),
    "strike_half_life_days": (0.01, 3650),
    "failed_starts_per_slot": (1, 100),
    "orphan_freeze_share": (0, 1),
    "silence_s": (0, 86_400),
    "lease_idle_s": (0, 86_400),
    "oom_retries": (0, 20),
    "crash_retries": (0, 20),
}
"""What each may be at least and at most: outside it a brake or a second look would be off, or nothing could end."""


class PolicyError(ValueError):
    """A policy that cannot be: names the field, what is wrong, and what would do."""


@dataclass(frozen=True, slots=True)
class Policy:
    # money and min_rate
    target_usd_per_proof: float = 0.008
    min_rate_proofs_per_hour: float | None = None
    price_margin: float = 0.05
    setup_cap_usd: float = 2.50
    cap_usd_per_hour: float | None = None
    cap_usd_per_day: float | None = None
    credit_floor_usd: float | None = None
    # rhythm
    disk_gb: float = 250.0
    beat_s: float = 60.0
    report_s: float = 30.0
    creates_per_beat: int = 2
    # stall and silence
    stall_loading_s: float = 600.0
    stall_params_s: float = 600.0
    stall_benchmark_s: float = 1800.0
    stall_active_s: float = 1800.0
    restart_in_place_s: float = 600.0
    silence_s: float = 1800.0
    silence_loading_s: float = 2700.0
    loading_never_moved_s: float = 2700.0
    loading_error_beats: int = 3
    loading_spare_after_s: float = 1500.0
    never_started_s: float = 900.0
    setup_forecast_for_s: float = 600.0
    setup_forecast_after_s: float = 1800.0
    host_offline_s: float = 1800.0
    lost_listings: int = 3
    lost_after_s: float = 300.0
    suspect_after_s: float = 3600.0
    orphan_after_s: float = 900.0
    backlog_wait_s: float = 600.0
    # rate
    rate_window_s: float = 3600.0
    rate_window_shared_s: float = 21600.0
    rate_early_share: float = 0.6
    batch_proofs: int = 12
    rate_warm_up_s: float = 420.0
    rate_idle_gap_s: float = 1200.0
    rate_freeze_s: float = 600.0
    rate_freeze_allowed_s: float = 1800.0
    rate_freeze_per_s: float = 21600.0
    # retries and proofs
    oom_retries: int = 2
    crash_retries: int = 1
    file_failures_max: int = 3
    invalid_in_a_row: int = 3
    invalid_of_last_100: int = 2
    # lease (on the agent)
    lease_idle_s: float = 1800.0
    lease_hard_s: float | None = None
    # drain
    drain_s: float = 900.0
    drain_proof_times: float = 2.0
    # brakes
    kill_budget_share: float = 0.1
    orphan_freeze_share: float = 0.1
    systemic_machines: int = 3
    systemic_hosts: int = 2
    systemic_window_s: float = 7200.0
    systemic_share: float = 0.5
    systemic_canary_s: float = 1800.0
    systemic_hold_s: float = 3600.0
    freeze_alert_s: float = 3600.0
    # reputation
    blacklist_days: float = 7.0
    soft_strikes: int = 2
    soft_window_s: float = 86400.0
    strike_half_life_days: float = 7.0
    host_avoid_s: float = 86400.0
    # capacity
    failed_starts_per_slot: int = 3
    start_backoff_s: tuple[float, ...] = (300.0, 900.0, 2700.0)
    search_every_s: float = 60.0
    # destroy
    destroy_backoff_max_s: float = 300.0

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Policy:
        """A policy from a table of fields. Unknown or impossible ones raise PolicyError, naming the field."""
        known = {f.name: f for f in dataclasses.fields(cls)}
        for name in fields:
            if name not in known:
                import difflib

                near = difflib.get_close_matches(name, known, 1)
                raise PolicyError(f"policy: unknown field {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        values: dict[str, Any] = {}
        for name, value in fields.items():
            values[name] = _fit(name, value, getattr(cls(), name))
        policy = cls(**values)
        for problem in policy.problems():
            raise PolicyError(f"policy: {problem}")
        return policy

    def problems(self) -> list[str]:
        """What cannot be, a line each; empty when all is well."""
        out: list[str] = []
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
                out.append(f"{f.name} = {value:g} is below 0")
        if self.beat_s <= 0 or self.beat_s > 110:
            out.append(f"beat_s = {self.beat_s:g} must be above 0 and at most 110: a beat must start every 120 s")
        if self.report_s <= 0 or self.report_s > 300:
            out.append(f"report_s = {self.report_s:g} must be above 0 and at most 300")
        for name in ("target_usd_per_proof", "rate_window_s", "rate_window_shared_s", "disk_gb"):
            if getattr(self, name) <= 0:
                out.append(f"{name} must be above 0")
        noise_s = 2 * self.beat_s + 2 * self.report_s
        for name in _LIMITS:
            if getattr(self, name) < noise_s:
                out.append(f"{name} = {getattr(self, name):g} is below two beats and two reports: noise would kill")
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                out.append(f"{name} = {value:g} must be from {least:g} to {most:g}")
        if self.batch_proofs < 12:
            out.append(f"batch_proofs = {self.batch_proofs} is below 12, too few to judge a rate")
        if self.restart_in_place_s >= min(self.stall_benchmark_s, self.stall_active_s):
            out.append("restart_in_place_s must be below stall_benchmark_s and stall_active_s")
        if not 0 < self.kill_budget_share <= 1:
            out.append("kill_budget_share must be above 0 and at most 1")
        return out


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _fit(name: str, value: Any, default: Any) -> Any:
    """``value`` as the type of ``default``; PolicyError names the field and what it must be."""
    if value is None and default is None:
        return None
    if isinstance(default, tuple):
        if isinstance(value, list | tuple) and value and all(_number(v) and v >= 0 for v in value):
            return tuple(float(v) for v in value)
        raise PolicyError(f"policy: {name} must be a list of numbers, none below 0, not {value!r}")
    if not _number(value):
        raise PolicyError(f"policy: {name} must be a number, not {value!r}")
    if isinstance(default, int):
        if value != int(value):
            raise PolicyError(f"policy: {name} must be a whole number, not {value!r}")
        return int(value)
    return float(value)
