"""A controller on fake ports with a brain that does what the test wrote down, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fakes_ports import Life, World, run

from proverfleet.controller.controller import Controller
from proverfleet.controller.credentials import sign
from proverfleet.controller.journal import decode
from proverfleet.domain.events import Asks, Decision, End, Event, Gone, Offered, OfferFact, Plan, Rent
from proverfleet.domain.fleet import DestroyState, Fleet
from proverfleet.domain.ids import ContractId, FleetId, HostId, IntentId, MachineId, OfferId
from proverfleet.domain.market_facts import Offer
from proverfleet.domain.policy import Policy
from proverfleet.domain.report import Report
from proverfleet.settings import ControllerSettings

KEY = "a key of the fleet, only for tests"
Step = Callable[[Fleet], Sequence[Decision]]
__all__ = ["KEY", "Life", "Script", "World", "run"]


@dataclass
class Script:
    """``at[n]``: what the n-th decide of this brain decides. ``always``: at every one. ``asks``: what it wants."""

    at: dict[int, Step] = field(default_factory=dict)
    always: Step | None = None
    asks: Asks = field(default_factory=Asks)
    again: bool = True
    calls: int = 0
    seen: list[Any] = field(default_factory=list)
    look: Callable[[Fleet], Any] | None = None

    def decide(self, fleet: Fleet) -> Plan:
        self.calls += 1
        if self.look is not None:
            self.seen.append(self.look(fleet))
        decided: list[Decision] = []
        if self.calls in self.at:
            decided += self.at[self.calls](fleet)
        if self.always is not None:
            decided += self.always(fleet)
        return Plan(tuple(decided), self.asks)

    def choose(self, fleet: Fleet, offers: Sequence[Offer], ordered: Sequence[MachineId]) -> Offered:
        return Offered(False, len(offers), {}, ())

    def destroy_again(self, fleet: Fleet, state: DestroyState) -> bool:
        return self.again


def settings(**changes: Any) -> ControllerSettings:
    base = ControllerSettings(fleet_key=KEY, policy=Policy(), target=1, adapter="direct")
    return replace(base, **changes)


def start(world: World, brain: Script, life: Life | None = None, **changes: Any) -> tuple[Controller, Life]:
    """A controller in a life of its own, running."""
    life = life or Life()
    controller = Controller(world.ports(life), brain, settings(**changes))
    task = asyncio.get_running_loop().create_task(controller.run())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    world.__dict__.setdefault("tasks", []).append(task)
    return controller, life


def offer(machine: int = 42) -> OfferFact:
    return OfferFact(
        OfferId(machine), MachineId(machine), HostId(7), "RTX 4090", 1, 24_564, 1.0, "EPYC", 500_000, 250.0, 900.0,
        0.3, 0.2, 50.0, 0.006,
    )


def rent(intent: str = "aaaa0001", machine: int = 42) -> Rent:
    return Rent("capacity", IntentId(intent), 0, "", offer(machine), 250.0, None, 38.0, "ceil(0.3 / 0.008)")


def end(intent: str = "aaaa0001") -> End:
    reason = "stood still for 31 min"
    return End("stall", IntentId(intent), "stalled", "no_progress", reason, "machine", {"still_s": 1860.0})


def gone_when_acknowledged(fleet: Fleet) -> list[Decision]:
    """What the rule ``gone`` would say, without waiting for listings."""
    return [Gone("gone", r.contract_id, r.intent, "proven") for r in fleet.rentals.values()
            if r.stage == "destroying" and r.destroy.acknowledged]


def report(fleet_id: str, intent: str = "aaaa0001", seq: int = 1, **changes: Any) -> Report:
    token = sign(KEY, FleetId(fleet_id), IntentId(intent))
    base = Report(
        rental=IntentId(intent), token=token, boot="b1", seq=seq, backlog=0, mono_ns=seq * 30 * 10**9, clock_id="c1",
        stage="params", attempt=0, p=None, concurrency=None, daemon="", version="0.1.0", bytes_received=seq * 10**9,
        bytes_hashed=0, bytes_total=10**11, srs_bytes=0, partitions=0, proofs_accepted=0, proofs_failed=0, busy_s=0.0,
        starved_s=0.0, restarts_agent=0, restarts_prover=0, restarts_container=0)
    return replace(base, **changes)


async def events(world: World) -> list[Event]:
    """Everything stored, in order."""
    return [decode(line) for line in await world.store.load(0)]


async def bodies(world: World, *kinds: str) -> list[Any]:
    return [e.body for e in await events(world) if e.body.KIND in kinds]


async def rented(world: World, controller: Controller, intent: str = "aaaa0001") -> ContractId:
    """Waits until the rental has its contract."""
    for _ in range(400):
        await asyncio.sleep(1.0)
        try:
            rental = controller.fleet.rentals.get(IntentId(intent))
        except Exception:
            continue
        if rental is not None and rental.contract_id is not None:
            return rental.contract_id
    raise AssertionError(f"{intent} never got a contract")
