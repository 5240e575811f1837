"""How the fold moves a rental along the table of ``lifecycle.py``: forward or not at all."""

from __future__ import annotations

from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.lifecycle import may


def enter(fleet: Fleet, rental: Rental, stage: str) -> bool:
    """Moves to ``stage`` where the table allows it, and stamps the entry; False (nothing happens) where it does not.

    A new stage has its own units of work, so its clock of progress starts now.
    """
    if not may(rental.stage, stage):
        return False
    rental.stage = stage
    rental.stage_wall_ns[stage] = fleet.wall_ns
    rental.stage_heard_ns[stage] = fleet.heard_ns
    rental.stage_listed_ns[stage] = fleet.listed_ns
    rental.progress_new = True
    rental.progress_heard_ns = fleet.heard_ns
    if rental.last is not None:
        rental.progress_starved_s = rental.last.starved_s
    return True
