"""Creates, destroys and starts, through crashes, lost replies and a market that fails."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from fakes_ports import Life, World, fails, hangs, intent_of, run
from shell import Script, bodies, end, events, gone_when_acknowledged, rent, rented, report, start

from proverfleet.domain.events import Blacklisted, Extra, Restart
from proverfleet.domain.ids import ContractId, IntentId, MachineId
from proverfleet.errors import AuthBroken, RateLimited, Refused, ServerError, StoreLocked, Unreachable
from proverfleet.ports import Created

INTENT = IntentId("aaaa0001")


def test_a_rental_is_asked_for_once_with_mark_and_credentials() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}), agent_env={"PF_CONTROLLER": "c.example:1"})
        contract = await rented(world, controller)
        spec = world.market.specs[0]
        assert intent_of(spec) == INTENT
        assert (spec.env["PF_INTENT"], spec.env["PF_REPORT_S"], spec.env["PF_BATCH_PROOFS"]) == (INTENT, "30", "12")
        assert spec.env["PF_CONTROLLER"] == "c.example:1" and "PF_LEASE_HARD_S" not in spec.env
        assert spec.env["PF_TOKEN"] == report(controller.fleet.fleet_id).token
        assert world.market.count("create") == 1 and contract in world.market.rows
        kinds = [e.body.KIND for e in await events(world) if "create" in e.body.KIND or e.body.KIND == "rent"]
        assert kinds == ["rent", "create_sent", "create_answered"]

    run(main())


def test_the_intent_is_stored_before_the_call_leaves() -> None:
    async def main() -> None:
        world = World()
        life = Life()
        life.ends_at = ("create.intent_committed", 1)
        start(world, Script({1: lambda f: [rent()]}), life)
        await life.ended.wait()
        assert [b.intent for b in await bodies(world, "create_sent")] == [INTENT]
        assert world.market.count("create") == 0

    run(main())


@pytest.mark.parametrize("trouble", ["lost", "hang", "5xx"])
def test_a_create_whose_reply_is_lost_is_in_doubt_and_never_repeated(trouble: str) -> None:
    async def main() -> None:
        world = World()
        troubles = {"lost": fails(Unreachable("reset")), "hang": hangs(), "5xx": fails(ServerError(503))}
        world.market.after["create"] = troubles[trouble]
        start(world, Script({1: lambda f: [rent()]}))
        await asyncio.sleep(600)
        answers = await bodies(world, "create_answered")
        assert [(a.outcome, a.contract_id) for a in answers] == [("doubt", None)]
        assert world.market.count("create") == 1 and len(world.market.rows) == 1

    run(main())


def test_outcomes_of_a_create() -> None:
    async def main() -> None:
        world = World()
        errors = [Refused("no_such_ask", "gone"), RateLimited(None), AuthBroken("x")]
        world.market.trouble["create"] = [t for e in errors for t in fails(e)]
        answers = {4: Created(None, True), 5: Created(ContractId(5), False, "no credit for it")}
        create = world.market.create

        async def odd(offer_id, spec):  # type: ignore[no-untyped-def]
            if world.market.count("create") >= 3:
                world.market.sent.append(("create", offer_id))
                return answers[world.market.count("create")]
            return await create(offer_id, spec)

        world.market.create = odd  # type: ignore[method-assign]
        start(world, Script({n: lambda f, n=n: [rent(f"aaaa000{n}", machine=n)] for n in range(1, 6)}))  # type: ignore[misc]
        await asyncio.sleep(400)
        got = [(a.outcome, a.contract_id, a.code) for a in await bodies(world, "create_answered")]
        assert got == [("refused", None, "no_such_ask"), ("refused", None, "rate_limited"),
                       ("refused", None, "auth_broken"), ("doubt", None, "no_id"), ("pending", 5, "no credit for it")]

    run(main())


@pytest.mark.parametrize("point", ["create.intent_committed", "create.replied"])
def test_a_crash_between_intent_and_outcome_leaves_the_create_in_doubt(point: str) -> None:
    async def main() -> None:
        world = World()
        life = Life()
        life.ends_at = (point, 1)
        start(world, Script({1: lambda f: [rent()]}), life)
        await life.ended.wait()
        await asyncio.sleep(5)
        controller, _ = start(world, Script())
        await asyncio.sleep(300)
        assert controller.fleet.rentals[INTENT].in_doubt
        assert [a.outcome for a in await bodies(world, "create_answered")] == ["doubt"]
        assert world.market.count("create") == (0 if point == "create.intent_committed" else 1)

    run(main())


def test_a_crash_before_the_intent_was_stored_is_no_doubt() -> None:
    async def main() -> None:
        world = World()
        life = Life()
        life.ends_at = ("beat.committed", 1)
        start(world, Script({1: lambda f: [rent()]}), life)
        await life.ended.wait()
        start(world, Script())
        await asyncio.sleep(100)
        assert [(a.outcome, a.code) for a in await bodies(world, "create_answered")] == [("refused", "not_sent")]
        assert world.market.count("create") == 0

    run(main())


def test_an_intent_that_cannot_be_stored_is_not_sent() -> None:
    async def main() -> None:
        world = World()
        # Boot, facts and beat, decisions: stored. Then the intent is refused.
        world.store.fail_next = [None, None, None, StoreLocked("locked")]
        start(world, Script({1: lambda f: [rent()]}))
        await asyncio.sleep(30)
        assert world.market.count("create") == 0
        assert [(a.outcome, a.code) for a in await bodies(world, "create_answered")] == [("refused", "not_sent")]

    run(main())


def test_an_outcome_waits_for_the_store() -> None:
    async def main() -> None:
        world = World()
        controller, life = start(world, Script({1: lambda f: [rent()]}))
        while "create.intent_committed" not in life.points:
            await asyncio.sleep(0.01)
        world.store.error = StoreLocked("locked")
        await asyncio.sleep(100)
        assert not await bodies(world, "create_answered")
        world.store.error = None
        await rented(world, controller)
        assert world.market.count("create") == 1

    run(main())


def test_a_machine_that_was_blacklisted_meanwhile_is_not_rented() -> None:
    async def main() -> None:
        world = World()
        entry = Blacklisted("reputation", MachineId(42), "slow", None, False)
        start(world, Script({1: lambda f: [entry, rent()]}))
        await asyncio.sleep(60)
        assert world.market.count("create") == 0
        assert [a.code for a in await bodies(world, "create_answered")] == ["blacklisted"]

    run(main())


def test_a_destroy_that_fails_is_repeated_with_back_off_until_it_is_proven() -> None:
    async def main() -> None:
        world = World()
        world.market.trouble["destroy"] = fails(ServerError(500), 5)
        brain = Script({1: lambda f: [rent()], 3: lambda f: [end()]}, always=gone_when_acknowledged)
        controller, _ = start(world, brain)
        contract = await rented(world, controller)
        await asyncio.sleep(1200)
        sent = await bodies(world, "destroy_sent")
        assert [(s.contract_id, s.attempt) for s in sent] == [(contract, n) for n in range(1, 7)]
        at = [e.wall_ns / 1e9 for e in await events(world) if e.body.KIND == "destroy_sent"]
        waits = [round(b - a) for a, b in itertools.pairwise(at)]
        assert waits == [5, 10, 20, 40, 80]
        assert controller.fleet.rentals[INTENT].stage == "gone" and contract not in world.market.rows
        assert world.market.count("destroy") == 6

    run(main())


def test_a_destroy_that_is_acknowledged_and_ignored_is_repeated() -> None:
    async def main() -> None:
        world = World()

        async def ignored(contract_id: ContractId) -> None:
            world.market.sent.append(("destroy", contract_id))

        world.market.destroy = ignored  # type: ignore[method-assign]
        controller, _ = start(world, Script({1: lambda f: [rent()], 3: lambda f: [end()]}))
        await rented(world, controller)
        await asyncio.sleep(1800)
        assert 4 <= world.market.count("destroy") <= 9

    run(main())


def test_open_destroys_go_on_after_a_restart() -> None:
    async def main() -> None:
        world = World()
        world.market.trouble["destroy"] = fails(ServerError(500), 2)
        life = Life()
        life.ends_at = ("destroy.replied", 2)
        controller, _ = start(world, Script({1: lambda f: [rent()], 3: lambda f: [end()]}), life)
        await rented(world, controller)
        await life.ended.wait()
        controller, _ = start(world, Script(always=gone_when_acknowledged))
        await asyncio.sleep(400)
        assert controller.fleet.rentals[INTENT].stage == "gone" and not world.market.rows

    run(main())


def test_the_old_managers_single_destroy_can_be_plugged_in() -> None:
    async def main() -> None:
        world = World()
        world.market.trouble["destroy"] = fails(ServerError(500), 1)
        controller, _ = start(world, Script({1: lambda f: [rent()], 3: lambda f: [end()]}, again=False))
        await rented(world, controller)
        await asyncio.sleep(1800)
        assert world.market.count("destroy") == 1 and len(world.market.rows) == 1

    run(main())


def test_a_destroy_goes_on_while_the_store_is_full() -> None:
    async def main() -> None:
        world = World()
        life = Life()
        controller, _ = start(world, Script({1: lambda f: [rent()], 3: lambda f: [end()]}), life)
        await rented(world, controller)
        while "post_mortem.built" not in life.points:
            await asyncio.sleep(0.01)
        world.store.error = StoreLocked("full")
        await asyncio.sleep(60)
        assert not world.market.rows

    run(main())


def test_the_post_mortem_is_saved_first_and_holds_nothing_up() -> None:
    async def main() -> None:
        world = World()
        world.market.trouble["logs"] = hangs()
        controller, life = start(world, Script({1: lambda f: [rent()], 3: lambda f: [end()]}))
        await rented(world, controller)
        await controller.inbox.receive(report(controller.fleet.fleet_id))
        await asyncio.sleep(300)
        saved = await bodies(world, "post_mortem_saved")
        assert [(s.intent, s.complete) for s in saved] == [(INTENT, False)]
        assert life.points.index("post_mortem.saved") < life.points.index("destroy.intent_committed")
        assert not world.market.rows
        data = await world.store.post_mortem(INTENT)
        assert data is not None and b"stood still for 31 min" in data and b'"bytes_received":1000000000' in data
        at = {e.body.KIND: e.wall_ns for e in await events(world)}
        assert at["destroy_sent"] - at["end"] <= 60 * 10**9

    run(main())


def test_an_extra_contract_and_a_restart() -> None:
    async def main() -> None:
        world = World()
        extra = world.market.make(77, None)
        restart = Restart("restart", INTENT, ContractId(5), "credit is back")
        second = Extra("duplicate", extra, "duplicate", "second contract")
        start(world, Script({1: lambda f: [rent()], 3: lambda f: [second, restart]}))
        await asyncio.sleep(250)
        assert extra not in world.market.rows
        assert [(s.contract_id, s.ok) for s in await bodies(world, "start_answered")] == [(5, True)]

    run(main())


def test_a_rental_that_ends_while_its_create_is_under_way_is_destroyed_when_the_answer_comes() -> None:
    async def main() -> None:
        world = World()
        world.market.latency_s = 25.0
        brain = Script({1: lambda f: [rent()]}, always=gone_when_acknowledged)
        controller, life = start(world, brain)
        while "create.intent_committed" not in life.points:
            await asyncio.sleep(0.1)
        assert controller._journal is not None
        await controller._journal.commit((end(),))
        await asyncio.sleep(400)
        assert world.market.count("create") == 1 and not world.market.rows

    run(main())
