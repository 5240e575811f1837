"""What a controller is started with. Everything that can be changed later, while it runs, is an operator's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proverfleet.domain.policy import Policy

ADAPTERS = ("direct", "wire", "live")
KEY_CHARS_MIN = 16


class SettingsError(ValueError):
    """Settings that cannot be: names the field, what is wrong, and what would do."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """``fleet_key`` signs the agents' credentials; it outlives the database, so that a restored one still knows its
    agents. ``agent_env`` goes into every create call's environment (the controller's address, the tunnel's keys).
    ``secrets``: texts that must never be stored, beside the key (market key, tunnel passwords).

    ``group_reports``: reports that arrive in one turn of the loop are committed together; for a controller that
    serves hundreds of agents from a disk. ``adapter`` is read by the program that builds the ports, by nobody else.
    """

    fleet_key: str = field(repr=False)
    policy: Policy = field(default_factory=Policy)
    target: int = 0
    image: str = "proverfleet/agent"
    adapter: str = "live"
    version: str = "0.1.0"
    agent_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    # the beat's own limits
    gather_s: float = 45.0
    snapshot_every: int = 50_000
    group_reports: bool = False
    # post-mortem and destroy
    post_mortem_s: float = 60.0
    destroy_first_wait_s: float = 5.0
    destroy_confirm_s: float = 240.0
    standby_s: float = 70.0

    def __post_init__(self) -> None:
        for problem in self.problems():
            raise SettingsError(f"settings: {problem}")

    def problems(self) -> list[str]:
        """What cannot be, a line each; empty when all is well."""
        out: list[str] = []
        if len(self.fleet_key) < KEY_CHARS_MIN:
            out.append(f"fleet_key has {len(self.fleet_key)} characters, it needs at least {KEY_CHARS_MIN}")
        if self.adapter not in ADAPTERS:
            out.append(f"adapter = {self.adapter!r} must be one of {', '.join(ADAPTERS)}")
        if self.target < 0:
            out.append(f"target = {self.target} is below 0")
        if not 1.0 <= self.gather_s <= 60.0:
            out.append(f"gather_s = {self.gather_s:g} must be from 1 to 60: a beat must start every 120 s")
        if self.snapshot_every < 1:
            out.append(f"snapshot_every = {self.snapshot_every} must be at least 1")
        if not 0.0 < self.post_mortem_s <= 60.0:
            out.append(f"post_mortem_s = {self.post_mortem_s:g} must be above 0 and at most 60")
        if self.destroy_first_wait_s <= 0 or self.destroy_confirm_s <= 0:
            out.append("destroy_first_wait_s and destroy_confirm_s must be above 0")
        return out
