"""The program on the rented machine: stages, benchmark driver, reporter, lease."""

from proverfleet.agent.agent import Agent
from proverfleet.agent.settings import (
    AgentSettings,
    Identity,
    SettingsError,
    identity_from,
    settings_from,
)

__all__ = ["Agent", "AgentSettings", "Identity", "SettingsError", "identity_from", "settings_from"]
