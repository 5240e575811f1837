"""Operators' orders: what is stored, and what is refused with a reason that names the mend."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_ports import World, run
from shell import Script, bodies, end, rent, rented, start

from proverfleet.controller.orders import OrderRefused
from proverfleet.errors import StoreLocked

KILL = {"intent": "aaaa0001", "contract_id": 9001, "machine_id": 42, "reason": "I said so"}


@pytest.mark.parametrize(("what", "args", "stored"), [
    ("kill", KILL, KILL),
    ("target", {"value": 0}, {"value": 0}),
    ("freeze", {}, {"on": True}),
    ("freeze", {"on": False}, {"on": False}),
    ("clear_systemic", {}, {}),
    ("deploy", {"machine_id": 7, "min_rate": 29, "order": "o1"}, {"order": "o1", "machine_id": 7, "min_rate": 29.0}),
    ("blacklist", {"machine_id": 7}, {"machine_id": 7, "reason": "operator", "evict": False}),
    ("blacklist", {"machine_id": 7, "reason": "x", "until_s": 60, "evict": True},
     {"machine_id": 7, "reason": "x", "evict": True, "until_s": 60.0}),
    ("policy", {"set": {"beat_s": 30}}, {"set": {"beat_s": 30}}),
])
def test_good_orders_are_stored(what: str, args: dict[str, Any], stored: dict[str, Any]) -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        assert await controller.order(what, args) == stored
        assert [(o.what, o.args) for o in await bodies(world, "ordered")] == [(what, stored)]

    run(main())


@pytest.mark.parametrize(("what", "args", "says"), [
    ("destroy", {}, "unknown order 'destroy'"),
    ("kill", {}, "no rental None"),
    ("kill", {**KILL, "intent": "bbbb"}, "no rental 'bbbb'"),
    ("kill", {**KILL, "contract_id": 9002}, "contract_id 9002 is not that of rental aaaa0001, which is 9001"),
    ("kill", {**KILL, "machine_id": 43}, "machine_id 43 is not"),
    ("kill", {"intent": "aaaa0001", "machine_id": 42}, "name the contract_id too"),
    ("kill", {**KILL, "force": True}, "unknown argument 'force'"),
    ("target", {"value": -1}, "whole number from 0"),
    ("target", {"value": True}, "whole number"),
    ("deploy", {"machine_id": "7"}, "machine_id must be"),
    ("deploy", {"machine_id": 7, "disk_gb": 0}, "disk_gb must be a number above 0"),
    ("deploy", {"machine_id": 7, "bid_usd_per_hour": float("nan")}, "bid_usd_per_hour"),
    ("blacklist", {"host_id": 7}, "unknown argument 'host_id'"),
    ("blacklist", {"machine_id": 7, "evict": "yes"}, "evict must be true or false"),
    ("unblacklist", {"machine_id": 7}, "not on the list"),
    ("policy", {"set": {}}, "table of policy fields"),
    ("policy", {"set": {"beat_z": 30}}, "did you mean"),
    ("policy", {"set": {"beat_s": 500}}, "beat_s"),
    ("freeze", {"on": 1}, "true or false"),
])
def test_bad_orders_are_refused_and_leave_nothing(what: str, args: dict[str, Any], says: str) -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        with pytest.raises(OrderRefused, match=says):
            await controller.order(what, args)
        assert await bodies(world, "ordered") == []

    run(main())


def test_an_ended_rental_is_not_killed_twice_and_an_unstored_order_is_none() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()], 2: lambda f: [end()]}))
        await rented(world, controller)
        world.store.error = StoreLocked("locked")
        with pytest.raises(StoreLocked):
            await controller.order("target", {"value": 2})
        assert controller.fleet.target == 1
        world.store.error = None
        import asyncio

        await asyncio.sleep(70)
        with pytest.raises(OrderRefused, match="ended already"):
            await controller.order("kill", KILL)

    run(main())
