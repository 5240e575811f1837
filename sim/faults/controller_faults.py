"""Faults of the controller's own process, computer and database: controller.*.

In scope: crashes at a named point or at a time, clean restarts, cut-off, suspension, clocks, a database that is locked,
full or restored, an upgrade, a second instance. Out of scope: a controller that lies, a database edited by hand.
``controller.offline`` only has to be on: the network asks for it (sim/net.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from sim.loop import NS

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.faults.store import Database
    from sim.process import Process
    from sim.spec import FaultSpec
    from sim.supervisor import Supervised
    from sim.world import World

UPGRADED = "0.2.0"
FIRST_RESTART_S = 1.0  # a restored database is put in place while the controller is down for this long


class ControllerPlace(Protocol):
    """What the wiring offers about the controller: its supervisor, its database, its version, its armed points."""

    supervised: Supervised
    database: Database
    version: str
    armed: list[tuple[FaultSpec, int | None]]

    def second(self, same_store: bool) -> Supervised:
        """A second controller, not started."""
        ...


def controller_faults(world: World, place: ControllerPlace) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def crash(spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        if spec.params.get("point"):
            place.armed.append((spec, machine_id))
            return False
        return place.supervised.start if place.supervised.crash() else False

    def restart(spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        return place.supervised.start if place.supervised.stop() else False

    def suspend(spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
        process = place.supervised.process
        if process is None or not process.alive or process.suspended:
            return False
        process.suspend()
        return process.resume

    def clock_step(spec: FaultSpec, machine_id: int | None) -> None:
        box = world.box("controller")
        box.skew(round(float(spec.params["by_s"]) * NS), float(spec.params.get("drift_ppm", 0.0)))

    def db_restored(spec: FaultSpec, machine_id: int | None) -> None:
        place.supervised.crash()
        when = place.database.restore(float(spec.params["age"]))
        world.record("db_restored", backup_of=when)
        place.supervised.start_in(FIRST_RESTART_S)

    def second_instance(spec: FaultSpec, machine_id: int | None) -> Undo:
        other = place.second(bool(spec.params.get("same_store", True)))
        other.start()

        def away() -> None:
            other.crash()

        return away

    def offline(spec: FaultSpec, machine_id: int | None) -> Undo:
        return lambda: None

    table: dict[str, Apply] = {
        "controller.offline": offline,
        "controller.crash": crash,
        "controller.restart": restart,
        "controller.suspend": suspend,
        "controller.clock_step": clock_step,
        "controller.db_restored": db_restored,
        "controller.second_instance": second_instance,
        "controller.upgrade": lambda spec, machine_id: _upgrade(place, spec),
        "controller.db_locked": lambda spec, machine_id: _db_locked(world, place, spec, machine_id),
        "controller.db_full": lambda spec, machine_id: _db_full(place.database, spec),
    }
    return table


def _upgrade(place: ControllerPlace, spec: FaultSpec) -> Undo:
    """Restart as a newer program, whose fold takes no older snapshot; ``back``: and as the old one after ``for``."""

    def become(version: str) -> None:
        place.version = version
        place.database.hide_snapshots = True
        place.supervised.stop()
        place.supervised.start_in(FIRST_RESTART_S)

    before = place.version
    become(UPGRADED)
    return (lambda: become(before)) if spec.params.get("back") else None


def _db_full(database: Database, spec: FaultSpec) -> Undo:
    database.full = spec
    database.full_left = float(spec.params.get("free_mb", 0)) * 1e6

    def freed() -> None:
        if database.full is spec:
            database.full = None

    return freed


def _db_locked(world: World, place: ControllerPlace, spec: FaultSpec, machine_id: int | None) -> Undo | Literal[False]:
    """Somebody holds the lock: until ``for`` is over, or (a lock of our own that was never let go) until a restart."""
    database = place.database
    database.locked = spec

    def unlocked() -> None:
        if database.locked is spec:
            database.locked = None

    if spec.params.get("cleared_by") == "controller_restart":
        world.faults.fire(spec, machine_id, unlocked, until_ended=True)
        return False
    return unlocked


def controller_started(world: World, place: ControllerPlace) -> None:
    """A controller process starts: what only a restart cures is cured."""
    locked = place.database.locked
    if locked is not None and locked.params.get("cleared_by") == "controller_restart":
        place.database.locked = None
        world.faults.ended(locked)


async def at_point(world: World, place: ControllerPlace, process: Process, name: str) -> None:
    """The controller is at a crash point: ends here if a fault waits for it. Never returns then."""
    if world.faults.stopped:  # a point that was not reached in the scenario's hours must not be one of recovery
        return
    for armed in place.armed:
        spec, machine_id = armed
        if spec.params["point"] == name and process is place.supervised.process:
            place.armed.remove(armed)
            place.supervised.crash()
            world.faults.fire(spec, machine_id, place.supervised.start)
            await process.never()
