"""Operators' orders: checked here, stored as ``Ordered``, carried out by the rules at the next beat.

An order names exactly what it is about. A kill has to name intent, contract and machine, and all three must agree:
an id from another screen, another rental's or somebody else's contract, is refused (operator.wrong_id; INV-6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from proverfleet.domain.events import Ordered
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.policy import Policy, PolicyError

REASON_CHARS_MAX = 200
TARGET_MAX = 10_000


class OrderRefused(ValueError):
    """The order cannot be: what is wrong, and what to do. Nothing was stored."""


def checked(fleet: Fleet, what: str, args: Mapping[str, Any], fresh_id: Callable[[], str]) -> Ordered:
    """The order as an event. Raises OrderRefused. ``fresh_id``: a random id for a new deploy order."""
    check = _CHECKS.get(what)
    if check is None:
        raise OrderRefused(f"unknown order {what!r}; there are {', '.join(sorted(_CHECKS))}")
    return Ordered(what, check(fleet, dict(args), fresh_id))


def _kill(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "kill", ("intent", "contract_id", "machine_id", "reason"))
    intent = args.get("intent")
    rental = fleet.rentals.get(intent) if isinstance(intent, str) else None  # type: ignore[call-overload]
    if rental is None:
        raise OrderRefused(f"kill: no rental {intent!r}; `proverfleet ps` lists them")
    for name, own in (("contract_id", rental.contract_id), ("machine_id", rental.machine_id)):
        if name not in args:
            raise OrderRefused(f"kill: name the {name} too ({name} of {intent} is {own}); all three must agree")
        if args[name] != own or isinstance(args[name], bool):
            raise OrderRefused(f"kill: {name} {args[name]!r} is not that of rental {intent}, which is {own}")
    if not rental.live:
        raise OrderRefused(f"kill: rental {intent} has ended already ({rental.verdict or rental.stage})")
    return {
        "intent": intent, "contract_id": rental.contract_id, "machine_id": rental.machine_id, "reason": _reason(args),
    }


def _deploy(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "deploy", ("order", "machine_id", "min_rate", "disk_gb", "bid_usd_per_hour"))
    out: dict[str, Any] = {"order": args.get("order") or fresh_id(), "machine_id": _machine(args, "deploy")}
    if not isinstance(out["order"], str) or out["order"] in fleet.orders:
        raise OrderRefused(f"deploy: order {out['order']!r} exists already, or is no text")
    for name in ("min_rate", "disk_gb", "bid_usd_per_hour"):
        if args.get(name) is not None:
            out[name] = _above_zero(args[name], f"deploy: {name}")
    return out


def _blacklist(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "blacklist", ("machine_id", "reason", "until_s", "evict"))
    out: dict[str, Any] = {"machine_id": _machine(args, "blacklist"), "reason": _reason(args) or "operator",
                           "evict": _switch(args, "evict", False)}
    if args.get("until_s") is not None:
        out["until_s"] = _above_zero(args["until_s"], "blacklist: until_s (seconds from now)")
    return out


def _unblacklist(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "unblacklist", ("machine_id",))
    machine_id = _machine(args, "unblacklist")
    if machine_id not in fleet.blacklist:
        raise OrderRefused(f"unblacklist: machine {machine_id} is not on the list")
    return {"machine_id": machine_id}


def _target(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "target", ("value",))
    value = args.get("value")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TARGET_MAX:
        raise OrderRefused(f"target: value must be a whole number from 0 to {TARGET_MAX}, not {value!r}")
    return {"value": value}


def _policy(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "policy", ("set",))
    change = args.get("set")
    if not isinstance(change, Mapping) or not change:
        raise OrderRefused("policy: `set` must be a table of policy fields")
    now = {name: value for name, value in asdict(fleet.policy).items() if value is not None}
    try:
        Policy.of({**now, **change})
    except PolicyError as exc:
        raise OrderRefused(str(exc)) from exc
    return {"set": dict(change)}


def _freeze(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "freeze", ("on",))
    return {"on": _switch(args, "on", True)}


def _clear_systemic(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    _only(args, "clear_systemic", ())
    return {}


def _history(fleet: Fleet, args: dict[str, Any], fresh_id: Callable[[], str]) -> dict[str, Any]:
    """A rate that was measured elsewhere (an older fleet, another manager): what offers are ranked by."""
    names = ("machine_id", "gpu_name", "num_gpus", "gpu_frac", "image", "rate_proofs_per_hour", "proofs")
    _only(args, "history", names)
    out: dict[str, Any] = {"machine_id": _machine(args, "history")}
    for name in ("gpu_name", "image"):
        if not isinstance(args.get(name), str) or not args[name]:
            raise OrderRefused(f"history: {name} must be a text, not {args.get(name)!r}")
        out[name] = args[name]
    for name in ("num_gpus", "gpu_frac", "rate_proofs_per_hour", "proofs"):
        out[name] = _above_zero(args.get(name), f"history: {name}")
    return out | {name: int(out[name]) for name in ("num_gpus", "proofs")}


_CHECKS: dict[str, Callable[[Fleet, dict[str, Any], Callable[[], str]], dict[str, Any]]] = {
    "kill": _kill,
    "deploy": _deploy,
    "blacklist": _blacklist,
    "unblacklist": _unblacklist,
    "target": _target,
    "policy": _policy,
    "freeze": _freeze,
    "clear_systemic": _clear_systemic,
    "history": _history,
}


def _only(args: Mapping[str, Any], what: str, names: tuple[str, ...]) -> None:
    for name in args:
        if name not in names:
            raise OrderRefused(f"{what}: unknown argument {name!r}; there are {', '.join(names) or 'none'}")


def _machine(args: Mapping[str, Any], what: str) -> int:
    value = args.get("machine_id")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise OrderRefused(f"{what}: machine_id must be a machine's number, not {value!r}")
    return value


def _above_zero(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise OrderRefused(f"{name} must be a number above 0, not {value!r}")
    return float(value)


def _switch(args: Mapping[str, Any], name: str, default: bool) -> bool:
    value = args.get(name, default)
    if not isinstance(value, bool):
        raise OrderRefused(f"{name} must be true or false, not {value!r}")
    return value


def _reason(args: Mapping[str, Any]) -> str:
    return str(args.get("reason") or "")[:REASON_CHARS_MAX]
