"""The old manager, whole where it matters: its rules, its deploys, its sizing, its entrypoint's way of reporting."""

from sim.legacy.brain import LegacyBrain
from sim.legacy.entrypoint import LegacyEntrypoint
from sim.legacy.rules import Limits

__all__ = ["LegacyBrain", "LegacyEntrypoint", "Limits"]
