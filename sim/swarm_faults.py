"""The table that the swarm draws faults from: how often a family is on, how often each kind, with which parameters.

Weights are tuned by what sweeps show (which kinds never fired, how near survivors came to a limit). A weight of 0
leaves a kind to its own scenarios.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from sim.faults.catalogue import CRASH_POINTS
from sim.spec import Scenario

FAMILY_ON: dict[str, float] = {
    "market": 0.6, "host": 0.55, "prover": 0.6, "params": 0.35, "tunnel": 0.5, "agent": 0.45, "controller": 0.5,
    "systemic": 0.12, "work": 0.25, "operator": 0.3,
}

WEIGHTS: dict[str, float] = {
    "market.list_empty": 2, "market.list_partial": 2, "market.list_stale": 1, "market.list_garbage": 1,
    "market.list_gone_410": 0.5, "market.row_poison": 1, "market.status": 1, "market.rate_limit": 1,
    "market.error": 2, "market.hang": 1, "market.lost_request": 1, "market.lost_reply": 2, "market.auth_broken": 0.5,
    "market.key_scope": 1, "market.no_such_ask": 1, "market.insufficient_credit": 0.5, "market.create_pending": 1,
    "market.create_without_id": 1, "market.offer_reshuffle": 0.5, "market.price_change": 1, "market.outbid": 1,
    "market.destroy_fails": 1.5, "market.get_null": 1, "market.credit_exhausted": 0.3, "market.foreign_contract": 0.7,
    "host.offline": 1, "host.reboot": 1, "host.container_restart": 1.5, "host.suspend": 1, "host.clock_skew": 1,
    "host.clock_step": 1, "host.slow_disk": 0.5, "host.disk_full": 0.7, "host.slow_network": 1,
    "host.ram_below_offer": 0.7, "host.neighbour": 1, "host.throttle": 1, "host.gpu_xid": 0.7, "host.gpu_lost": 0.7,
    "host.gpu_missing": 0.5, "host.nvml_lost": 0.7, "host.pcie_degraded": 0.5,
    "prover.oom": 2, "prover.crash": 2, "prover.hang": 1.5, "prover.freeze": 1, "prover.stuck_gpu": 1,
    "prover.invalid_proofs": 0.7, "prover.bench_error": 1, "prover.slow_srs": 0.5, "prover.cache_corrupt": 0.5,
    "params.source_down": 1, "params.slow": 1, "params.stall": 1, "params.corrupt": 1,
    "tunnel.down": 2, "tunnel.half_open": 1, "tunnel.flap": 1, "tunnel.port_busy": 0.7, "tunnel.rpc_port_missing": 1,
    "tunnel.wrong_peer": 0.5, "tunnel.slow": 1,
    "agent.crash": 2, "agent.hang": 1, "agent.heartbeat_stall": 1, "agent.restart": 1, "agent.duplicate": 1,
    "agent.reorder": 1, "agent.lies": 0, "agent.old_version": 0, "agent.late": 1,
    "controller.crash": 2.5, "controller.offline": 1, "controller.restart": 1, "controller.suspend": 1,
    "controller.clock_step": 1, "controller.db_locked": 1, "controller.db_full": 0.4, "controller.db_restored": 0,
    "controller.upgrade": 0, "controller.second_instance": 0,
    "systemic.image_broken": 1, "systemic.registry_down": 1,
    "work.starved": 2, "work.rejected": 0.5,
    "operator.kill": 1, "operator.blacklist": 1, "operator.target": 1, "operator.policy": 0.5,
    "operator.wrong_id": 0.5, "operator.freeze": 0.7,
}

# kind or family -> stage marks that its faults may follow
MARKS_OF: dict[str, tuple[str, ...]] = {
    "host": ("running", "registered", "params", "warmup", "batch", "active"),
    "host.clock_step": ("registered", "params", "batch", "active"),
    "prover": ("warmup", "batch", "batch", "active"),
    "prover.bench_error": ("batch",),
    "params": ("params",),
    "params.corrupt": ("params",),
    "tunnel": ("registered", "params", "warmup", "batch", "active"),
    "agent": ("registered", "params", "warmup", "batch", "active"),
    "market.destroy_fails": ("destroying",),
    "market.outbid": ("params", "active"),
    "controller.crash": ("requested", "created", "registered", "batch", "destroying"),
    "operator.kill": ("created", "params", "batch", "active"),
}

# Calls that are few: the fault is there from early on, and waits for its call.
EARLY = (
    "market.lost_request", "market.lost_reply", "market.no_such_ask", "market.insufficient_credit",
    "market.create_pending", "market.create_without_id",
)

# Lasts longer than its kind's default, which was made for a given moment: these calls come when something ends.
WAITS = ("market.get_null", "market.key_scope", "market.rate_limit")

# What a machine may be like for ever, on a few machines of a world.
NATURES = (
    "host.throttle", "host.slow_network", "host.slow_disk", "host.ram_below_offer", "host.gpu_missing", "host.gpu_lost",
    "host.neighbour", "prover.invalid_proofs", "prover.slow_srs",
)

# kind -> longest duration in s; others last 4 h at most
HOW_LONG: dict[str, int] = {
    "market.list_empty": 5400, "market.list_partial": 5400, "market.list_stale": 5400, "market.hang": 1800,
    "market.error": 2700, "market.auth_broken": 10_800, "market.destroy_fails": 10_800,
    "market.credit_exhausted": 10_800, "prover.freeze": 2700, "host.suspend": 1800, "host.container_restart": 300,
    "tunnel.down": 7200, "controller.crash": 3600, "controller.db_locked": 300, "controller.db_full": 5400,
    "operator.freeze": 3600, "market.get_null": 7200,
}

Draw = Callable[[random.Random, Scenario], dict[str, Any]]


def _new_target(stream: random.Random, scenario: Scenario) -> dict[str, Any]:
    return {"value": max(1, scenario.target + stream.choice((-2, -1, 1)))}


def _crash_point(stream: random.Random, scenario: Scenario) -> dict[str, Any]:
    points = [p for p in CRASH_POINTS if p.split(".")[0] in ("beat", "create", "destroy", "report")]
    return {"point": stream.choice(points)} if stream.random() < 0.6 else {}


def _one_of(**options: tuple[Any, ...]) -> Draw:
    return lambda stream, scenario: {name: stream.choice(values) for name, values in options.items()}


_SICK = ("prover_restart", "prover_restart", "container_restart", "nothing")

PARAMETERS: dict[str, Draw] = {
    "market.list_empty": _one_of(how=("rows", "rows", "no_field", "blank")),
    "market.list_partial": _one_of(how=("page_error", "rows_missing", "row_twice", "row_moves"),
                                   total=("true", "matches")),
    "market.list_stale": _one_of(age_s=(60.0, 120.0, 600.0), by_id=(False, True)),
    "market.list_garbage": _one_of(how=("truncated", "html", "wrong_type", "not_a_list", "content_type")),
    "market.row_poison": _one_of(field=("label", "actual_status", "machine_id", "dph_total"),
                                 how=("null", "missing", "wrong_type"), alternate=(False, True)),
    "market.status": _one_of(value=("unknown", "offline", "exited", "loading", 7, None)),
    "market.error": _one_of(status=(500, 502, 503, 0), after_effect=(False, False, True)),
    "market.hang": _one_of(delay_s=(0.0, 5.0, 45.0), effect=("first", "last")),
    "market.rate_limit": _one_of(interval_s=(3.0, 20.0, 75.0), retry_after_s=(0.0, 2.0)),
    "market.auth_broken": _one_of(status=(404, 401, 403)),
    "market.create_without_id": _one_of(how=("no_key", "empty", "text", "null")),
    "market.create_pending": _one_of(starts_after_s=(0.0, 300.0)),
    "market.price_change": _one_of(factor=(0.8, 1.1, 1.25, 1.6), applies_to=("offers", "contracts", "both")),
    "market.destroy_fails": _one_of(how=("error", "ignored", "slow", "timeout")),
    "market.get_null": _one_of(how=("null", "empty", "404")),
    "market.foreign_contract": _one_of(count=(1, 2), label=(None, "my-box", "pf", "pf.0000.0000")),
    "host.offline": _one_of(alive=(False, True)),
    "host.container_restart": _one_of(keeps_disk=(True, True, False), new_ports=(False, True)),
    "host.clock_skew": _one_of(by_s=(-900.0, 120.0, 7200.0), drift_ppm=(0.0, 50.0)),
    "host.clock_step": _one_of(by_s=(-3600.0, 3600.0, 86_400.0)),
    "host.slow_network": _one_of(down_mbps=(25.0, 60.0, 150.0)),
    "host.neighbour": _one_of(cpu_share=(0.0, 0.3), gpu_share=(0.0, 0.3, 0.5), gpu_util_shown=(True, False)),
    "host.throttle": _one_of(factor=(0.5, 0.7, 0.85), ramp_s=(0.0, 300.0)),
    "host.nvml_lost": _one_of(how=("error", "hang", "not_supported", "bytes", "garbage")),
    "prover.oom": _one_of(where=("host", "host", "gpu")),
    "prover.hang": _one_of(cleared_by=_SICK),
    "prover.stuck_gpu": _one_of(how=("busy", "error", "lock", "cpu_fallback"), cleared_by=_SICK),
    "prover.invalid_proofs": _one_of(invalid_share=(0.1, 1.0), seen_by_prover=(True, False)),
    "prover.bench_error": _one_of(how=("exit", "no_rate", "no_summary"), text=("", "benchmark.sh exited with error")),
    "params.slow": _one_of(mbps=(20.0, 80.0)),
    "params.corrupt": _one_of(file=(1, 2, 3), same_digest=(True, False)),
    "tunnel.down": _one_of(ssh_too=(False, False, True), rpc_too=(False, True)),
    "tunnel.slow": _one_of(latency_ms=(500.0, 2000.0), loss=(0.0, 0.2)),
    "tunnel.wrong_peer": _one_of(how=("old_key", "old_socket", "other_agent")),
    "agent.crash": _one_of(restarts_after_s=(5.0, 20.0, 120.0)),
    "agent.late": _one_of(by_s=(60.0, 300.0)),
    "controller.crash": _crash_point,
    "controller.clock_step": _one_of(by_s=(-5700.0, 5700.0, 100_000.0)),
    "controller.db_locked": _one_of(reads=("ok", "old", "fail")),
    "systemic.image_broken": _one_of(how=("agent_exits", "not_found")),
    "work.rejected": _one_of(share=(0.3, 1.0)),
    "operator.blacklist": _one_of(evict=(False, False, True)),
    "operator.target": _new_target,
    "operator.policy": lambda stream, scenario: {"set": {"silence_s": stream.choice((1500, 2400))}},
    "operator.wrong_id": _one_of(what=("foreign", "other_rental")),
}
