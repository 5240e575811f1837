"""The lease: a dead controller's idle fleet must not bill on (rules.md section 3).

With the controller out of reach *and* no unit of work finished for ``lease_idle_s``, the agent ends its own contract
with the container's key. A machine that finishes work is never ended, unless ``lease_hard_s`` says so.
"""

from __future__ import annotations

from proverfleet.agent.memory import Memory
from proverfleet.agent.settings import AgentSettings

NS = 1_000_000_000
AGAIN_S = 60.0


def due(memory: Memory, settings: AgentSettings, now_mono_ns: int) -> bool:
    """Has the lease run out? Monotonic time: a suspended machine does not age. Once it worked, it stays due."""
    if memory.leased:
        return True
    unheard_s = (now_mono_ns - memory.answered_mono_ns) / NS
    if settings.lease_hard_s is not None and unheard_s >= settings.lease_hard_s:
        return True
    if unheard_s < settings.lease_idle_s:
        return False
    return (now_mono_ns - memory.unit_mono_ns) / NS >= settings.lease_idle_s
