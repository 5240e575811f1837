"""What operators order while a run goes on: operator.*, through the controller's own API, never past it.

An order that reaches no controller is given again (sim/wiring.py), as a person would; one that is refused is over.
Out of scope: two operators at once, orders by hand in the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.truth import OrderTruth

if TYPE_CHECKING:
    from sim.faults.engine import Apply, Undo
    from sim.spec import FaultSpec
    from sim.truth import ContractTruth
    from sim.world import World


def operator_faults(world: World) -> dict[str, Apply]:
    """Kind -> apply, for the engine."""

    def give(what: str, args: dict[str, Any], machine_id: int | None = None, value: Any = None) -> None:
        world.truth.orders.append(OrderTruth(world.now_ns(), what, machine_id, value))
        world.loop.create_task(world.order(what, args), name=f"operator/{what}")

    def kill(spec: FaultSpec, machine_id: int | None) -> Any:
        contracts = _live(world, machine_id)
        if not contracts:
            return False
        for c in contracts:
            give("kill", _kill(c, str(spec.params.get("reason", ""))), c.machine_id, c.contract_id)
        return None

    def blacklist(spec: FaultSpec, machine_id: int | None) -> Any:
        if machine_id is None:
            return False
        args: dict[str, Any] = {"machine_id": machine_id, "reason": spec.params.get("reason") or "operator",
                                "evict": bool(spec.params.get("evict", False))}
        if spec.params.get("until") is not None:
            args["until_s"] = float(spec.params["until"])
        give("blacklist", args, machine_id, args["evict"])
        return None

    def target(spec: FaultSpec, machine_id: int | None) -> None:
        value = int(spec.params["value"])
        world.truth.target.set(world.now_ns(), value)
        give("target", {"value": value}, None, value)

    def policy(spec: FaultSpec, machine_id: int | None) -> None:
        change: Mapping[str, Any] = spec.params["set"]
        give("policy", {"set": dict(change)}, None, dict(change))

    def freeze(spec: FaultSpec, machine_id: int | None) -> Undo:
        give("freeze", {"on": True}, None, True)
        return lambda: give("freeze", {"on": False}, None, False)

    def wrong_id(spec: FaultSpec, machine_id: int | None) -> Any:
        args = _wrong(world, str(spec.params.get("what", "foreign")), machine_id)
        if args is None:
            return False
        world.record("wrong_order", **args)
        world.loop.create_task(world.order("kill", args), name="operator/wrong_id")
        return None

    return {
        "operator.kill": kill, "operator.blacklist": blacklist, "operator.target": target, "operator.policy": policy,
        "operator.freeze": freeze, "operator.wrong_id": wrong_id,
    }


def _live(world: World, machine_id: int | None) -> list[ContractTruth]:
    return [
        c for c in world.truth.contracts.values()
        if c.ours and c.gone is None and (machine_id is None or c.machine_id == machine_id)
    ]


def _kill(c: ContractTruth, reason: str) -> dict[str, Any]:
    return {"intent": c.intent, "contract_id": c.contract_id, "machine_id": c.machine_id, "reason": reason}


def _wrong(world: World, what: str, machine_id: int | None) -> dict[str, Any] | None:
    """A kill of one of ours that names a contract which is not its own: a foreign one, or another rental's."""
    ours = _live(world, None)
    mine = next((c for c in ours if machine_id is None or c.machine_id == machine_id), None)
    if mine is None:
        return None
    if what == "foreign":
        others = [c for c in world.truth.contracts.values() if not c.ours and c.gone is None]
    else:
        others = [c for c in ours if c is not mine]
    other_id = others[0].contract_id if others else mine.contract_id + 1
    args = _kill(mine, "a wrong id")
    args["contract_id"] = other_id
    return args

