"""The stages of a rental and the one table of transitions (rules.md section 1).

Reports may be lost and a contract may be adopted late, so a rental may skip stages forward; it never goes back.
``destroying`` is reachable from everywhere, ``gone`` from ``destroying`` or where absence was proven, and nothing
leaves either backwards.
"""

from __future__ import annotations

STAGES = ("requested", "loading", "setup", "benchmark", "active", "draining", "destroying", "gone")
LIVE_STAGES = STAGES[:6]

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "requested": ("loading", "setup", "benchmark", "active", "draining", "destroying", "gone"),
    "loading": ("setup", "benchmark", "active", "draining", "destroying", "gone"),
    "setup": ("benchmark", "active", "draining", "destroying", "gone"),
    "benchmark": ("active", "draining", "destroying", "gone"),
    "active": ("draining", "destroying", "gone"),
    "draining": ("destroying", "gone"),
    "destroying": ("gone",),
    "gone": (),
}

# Where each stage of the agent puts its rental. Registration in any form ends `loading`.
OF_AGENT_STAGE: dict[str, str] = {
    "hello": "setup",
    "tunnel": "setup",
    "params": "setup",
    "sizing": "benchmark",
    "warmup": "benchmark",
    "batch": "benchmark",
    "active": "active",
    "draining": "draining",
}

VERDICTS = (
    "slow", "crashed", "out_of_memory", "stalled", "never_started", "lost", "silent", "lease", "unfit", "invalid",
    "outbid", "expired", "not_needed", "operator", "budget", "duplicate", "systemic",
)

CAUSES = (
    "", "disk_full", "gpu_missing", "gpu_other", "gpu_lost", "gpu_hang", "gpu_error", "ghost_gpu", "gpu_busy", "no_gpu",
    "ram_below_offer", "disk_below_offer", "network_slow", "pcie_slow", "corrupt_params", "source_down", "kernel_oom",
    "gpu_oom", "exit_code", "signal", "bench_error", "prover_error", "image_error", "loading_stuck", "no_agent",
    "agent_silent", "no_progress", "setup_cost", "rate", "rate_early", "wrong_proofs", "host_offline", "market_stopped",
    "absent", "no_rental", "second_contract", "target_lowered", "cap_usd_per_hour", "cap_usd_per_day", "credit",
    "evicted", "order", "create_refused", "create_lost", "systemic", "lease_ran_out",
)

_RANK = {stage: i for i, stage in enumerate(STAGES)}


def may(before: str, after: str) -> bool:
    """Is ``before → after`` in the table? Staying is no transition. Unknown stages raise KeyError."""
    return after in TRANSITIONS[before]


def rank(stage: str) -> int:
    """How far along a stage is: 0 (requested) … 7 (gone). KeyError for an unknown one."""
    return _RANK[stage]


def diagram() -> str:
    """The table as a mermaid state diagram, for the README. Skips forward are dotted in words, not drawn."""
    what = {
        "requested": "the intent is written, then the create call leaves",
        "loading": "the market has the contract, the image is pulled",
        "setup": "an agent registered, parameters are fetched",
        "benchmark": "warm-up, then the batch",
        "active": "proofs earn",
        "draining": "finishes what is in flight, takes nothing new",
        "destroying": "decided; repeated until absence is proven",
        "gone": "absence proven, nothing is paid",
    }
    lines = ["stateDiagram-v2", "    direction LR", "    [*] --> requested"]
    for i, stage in enumerate(LIVE_STAGES[:-1]):
        lines.append(f"    {stage} --> {LIVE_STAGES[i + 1]}")
    lines += [f"    {stage} --> destroying" for stage in LIVE_STAGES if may(stage, "destroying")]
    lines.append("    destroying --> gone: absence proven")
    lines.append("    requested --> gone: no contract came of it")
    lines.append("    gone --> [*]")
    lines += [f"    {stage}: {stage}<br/>{text}" for stage, text in what.items()]
    lines.append("    note right of requested: lost reports and adoption may skip stages forward, never back")
    return "\n".join(lines) + "\n"
