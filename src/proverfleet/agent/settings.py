"""Who this agent is and by which numbers it works. All of it travels in the create call's environment, as text.

Names: ``PF_INTENT PF_TOKEN PF_MARK PF_CONTAINER`` and ``PF_REPORT_S PF_LEASE_IDLE_S PF_LEASE_HARD_S PF_BATCH_PROOFS
PF_DAEMON PF_RAM_GIB PF_FIRST_P PF_FIRST_CONCURRENCY``. An empty or missing number is its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proverfleet.domain.ids import IntentId

VERSION = "0.1.0"


class SettingsError(ValueError):
    """A value of the environment that cannot be: names the variable, what it holds, and what would do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """``mark`` is the label of the create call; ``container`` an id of this start of the container ("": unknown)."""

    intent: IntentId
    token: str = field(repr=False)
    mark: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """``lease_hard_s`` None: off. ``ram_gib``: what the offer promised, used only where no cgroup limit can be read.

    ``first_sizing`` (p, concurrency) replaces our own sizing at the first attempt.
    """

    report_s: float = 30.0
    lease_idle_s: float = 1800.0
    lease_hard_s: float | None = None
    batch_proofs: int = 12
    daemon: str = "current"
    ram_gib: float | None = None
    first_sizing: tuple[int, int] | None = None
    version: str = VERSION


def identity_from(env: Mapping[str, str]) -> Identity:
    """Raises SettingsError when PF_INTENT or PF_TOKEN is missing."""
    for name in ("PF_INTENT", "PF_TOKEN"):
        if not env.get(name):
            raise SettingsError(f"{name} is missing: the agent runs only in a container that the controller rented")
    return Identity(
        IntentId(env["PF_INTENT"]), env["PF_TOKEN"], env.get("PF_MARK", ""), env.get("PF_CONTAINER", "")
    )


def settings_from(env: Mapping[str, str]) -> AgentSettings:
    """Raises SettingsError on a number that is none or not above 0."""
    usual = AgentSettings()
    p, concurrency = _number(env, "PF_FIRST_P"), _number(env, "PF_FIRST_CONCURRENCY")
    return AgentSettings(
        report_s=_number(env, "PF_REPORT_S") or usual.report_s,
        lease_idle_s=_number(env, "PF_LEASE_IDLE_S") or usual.lease_idle_s,
        lease_hard_s=_number(env, "PF_LEASE_HARD_S"),
        batch_proofs=int(_number(env, "PF_BATCH_PROOFS") or usual.batch_proofs),
        daemon=env.get("PF_DAEMON") or usual.daemon,
        ram_gib=_number(env, "PF_RAM_GIB"),
        first_sizing=(int(p), int(concurrency)) if p and concurrency else None,
    )


def _number(env: Mapping[str, str], name: str) -> float | None:
    text = env.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise SettingsError(f"{name} = {text!r} is no number") from None
    if value <= 0:
        raise SettingsError(f"{name} = {text} must be above 0, or empty for its default")
    return value
