"""What decides, as the shell sees it. The test-bed plugs in others: the old manager, broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proverfleet.domain import decide, search
from proverfleet.domain.events import Offered, Plan
from proverfleet.domain.fleet import DestroyState, Fleet
from proverfleet.domain.ids import MachineId
from proverfleet.domain.market_facts import Offer


class Brain(Protocol):
    """Pure functions of the fleet; none may change it."""

    def decide(self, fleet: Fleet) -> Plan:
        """Called once a beat, right after the Beat event was applied."""
        ...

    def choose(self, fleet: Fleet, offers: Sequence[Offer], ordered: Sequence[MachineId]) -> Offered:
        """Ranks a search's result; ``ordered``: machines that open deploy orders wait for."""
        ...

    def destroy_again(self, fleet: Fleet, state: DestroyState) -> bool:
        """May a destroy that was tried before be tried again?"""
        ...


@dataclass(frozen=True, slots=True)
class DefaultBrain:
    """The product's own rules. A destroy is tried until absence is proven."""

    def decide(self, fleet: Fleet) -> Plan:
        return decide.decide(fleet)

    def choose(self, fleet: Fleet, offers: Sequence[Offer], ordered: Sequence[MachineId]) -> Offered:
        return search.choose(fleet, tuple(offers), tuple(ordered))

    def destroy_again(self, fleet: Fleet, state: DestroyState) -> bool:
        return True
