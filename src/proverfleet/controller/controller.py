"""The controller: boots from its journal, then beats. All it knows is in ``fleet``, all it did is in the store.

``run()`` never returns by itself and raises nothing but cancellation: a beat that fails is counted and said, and the
next one comes (INV-10).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from proverfleet.controller import orders
from proverfleet.controller.actuator import Actuator
from proverfleet.controller.beat import Beats
from proverfleet.controller.brain import Brain
from proverfleet.controller.calls import Calls
from proverfleet.controller.destroyer import Destroyer
from proverfleet.controller.gather import Gatherer
from proverfleet.controller.inbox import Inbox
from proverfleet.controller.journal import Committed, Journal, decode
from proverfleet.controller.observer import Observer
from proverfleet.controller.redact import Redactor
from proverfleet.controller.tasks import Say, Spawn, silent, spawn
from proverfleet.domain import fold, snapshot
from proverfleet.domain.events import Booted
from proverfleet.domain.fleet import FOLD_VERSION, Fleet
from proverfleet.domain.ids import FleetId
from proverfleet.errors import StoreError, StoreLocked
from proverfleet.ports import ControllerPorts
from proverfleet.settings import ControllerSettings

NS = 1_000_000_000
BOOT_WAIT_S = 15.0
STANDBY_LOOK_S = 5.0
FLEET_ID_DIGITS = 12
BOOT_ID_DIGITS = 12


@dataclass(slots=True)
class Counts:
    """What this process did since its start; for /metrics and the test-bed."""

    beats: int = 0
    beats_failed: int = 0
    beat_max_s: float = 0.0
    boots: int = 0


class Controller:
    """One controller process. ``inbox.receive`` and ``order`` may be called as soon as it exists: before the boot, and
    while another controller leads, they raise StoreLocked ("try again")."""

    def __init__(
        self,
        ports: ControllerPorts,
        brain: Brain,
        settings: ControllerSettings,
        *,
        spawn: Spawn = spawn,
        say: Say = silent,
        on_committed: Committed | None = None,
    ) -> None:
        self.ports = ports
        self.brain = brain
        self.settings = settings
        self.counts = Counts()
        self._spawn = spawn
        self._say = say
        self._on_committed = on_committed
        self._calls = Calls(ports.market, ports.clock, spawn)
        self._redact = Redactor((settings.fleet_key, *settings.secrets, *settings.agent_env.values()))
        self.inbox = Inbox(settings.fleet_key, self._redact, ports.point, group=settings.group_reports)
        self._journal: Journal | None = None
        self._beats: Beats | None = None

    # ------------------------------------------------------------ what others call

    @property
    def fleet(self) -> Fleet:
        """The folded view; rules and pages read it, nobody writes it. StoreLocked before the boot."""
        return self._booted().fleet

    @property
    def seq(self) -> int:
        """Number of the newest event."""
        return self._booted().seq

    async def order(self, what: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """An operator's order; returns its arguments as stored. Raises OrderRefused (nothing is done) or StoreError
        (nothing is stored: try again)."""
        journal = self._booted()
        await self.ports.point("orders.received")
        ordered = orders.checked(journal.fleet, what, args, lambda: self.ports.entropy.hex(8))
        await journal.commit((ordered,))
        await self.ports.point("orders.committed")
        return ordered.args

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Boots and beats for ever."""
        while True:
            await self._boot_somehow()
            assert self._beats is not None and self._journal is not None
            fenced = await self._beats.run()
            ours = self._journal.seq
            self._journal.retired = True
            self.inbox.close()
            self._journal = self._beats = None
            self._say("fenced", str(fenced))
            if fenced.found >= ours:
                await self._stand_by()
            # else the store was replaced by an older one: nobody else leads, so go on from what it knows.

    async def _boot_somehow(self) -> None:
        while True:
            try:
                await self._boot()
                return
            except StoreError as exc:
                # Without its store a controller knows nothing and decides nothing; it goes on trying, at a beat's pace.
                self._say("boot_failed", f"{type(exc).__name__}: {exc}")
                self.counts.beats_failed += 1
                await self.ports.point("beat.begin")
            await self.ports.clock.sleep(BOOT_WAIT_S)

    async def _boot(self) -> None:
        """Loads snapshot and tail, writes Booted, resumes what was under way. Raises StoreError."""
        ports, settings = self.ports, self.settings
        fleet_id = FleetId(await ports.store.fleet_id(ports.entropy.hex(FLEET_ID_DIGITS)))
        fleet, seq, snapshot_seq = await load(ports, settings)
        await ports.point("boot.loaded")
        journal = Journal(ports.store, ports.clock, fleet, seq, on_committed=self._on_committed)
        journal.since_snapshot = seq - snapshot_seq
        boot = ports.entropy.hex(BOOT_ID_DIGITS)
        # Plain data, as the journal gives it back: the fold compares it with that of the boot before.
        policy = orjson.loads(orjson.dumps(asdict(settings.policy)))
        await journal.commit((Booted(boot, settings.version, fleet_id, policy, settings.target),))
        await ports.point("boot.recorded")
        destroyer = Destroyer(
            ports, self._calls, journal, self.inbox, self.brain, self._redact, settings, self._spawn, self._say
        )
        actuator = Actuator(
            ports, self._calls, journal, self.inbox, destroyer, settings, fleet_id, self._spawn, self._say
        )
        await actuator.resume()
        observer = Observer(self._redact)
        gatherer = Gatherer(ports, self._calls, observer, self.brain, fleet_id, self._spawn, self._say)
        self._beats = Beats(
            ports, journal, self.inbox, gatherer, actuator, self.brain, settings, self.counts, self._say,
            snapshot_header(settings),
        )
        self._journal = journal
        self.inbox.open(journal, fleet_id)
        self.counts.boots += 1

    async def _stand_by(self) -> None:
        """Another controller writes the same journal. Takes over only once it has stood still for ``standby_s``."""
        still_s = 0.0
        seen = await self._newest()
        while still_s < self.settings.standby_s:
            await self.ports.clock.sleep(STANDBY_LOOK_S)
            newest = await self._newest(seen)
            still_s = still_s + STANDBY_LOOK_S if newest == seen else 0.0
            seen = newest

    async def _newest(self, after: int = 0) -> int:
        """Number of the newest event stored; ``after`` where nothing newer is, or nothing can be read."""
        try:
            lines = await self.ports.store.load(after)
        except StoreError:
            return after
        return after + len(lines)

    def _booted(self) -> Journal:
        if self._journal is None:
            raise StoreLocked("the controller is starting, or another one leads")
        return self._journal


async def load(ports: ControllerPorts, settings: ControllerSettings) -> tuple[Fleet, int, int]:
    """The fleet, the newest event's number and that of the snapshot (0: none fits) that the fold went on from."""
    fleet, seq, snapshot_seq = fold.new_fleet(), 0, 0
    found = await ports.store.newest_snapshot(snapshot_header(settings))
    if found is not None:
        seq = snapshot_seq = found[0]
        fleet = snapshot.load(orjson.loads(found[1]))
    for line in await ports.store.load(seq):
        event = decode(line)
        fold.apply(fleet, event)
        seq = event.seq
    return fleet, seq, snapshot_seq


def snapshot_header(settings: ControllerSettings) -> str:
    """What a snapshot must have been made with to be used: this fold, and these settings' policy."""
    policy = hashlib.blake2b(orjson.dumps(asdict(settings.policy), option=orjson.OPT_SORT_KEYS), digest_size=8)
    return f"fold={FOLD_VERSION} policy={policy.hexdigest()}"

