"""Reports: stored before they are answered, never from the wrong hand, never with a secret in them."""

from __future__ import annotations

import asyncio

import pytest
from fakes_ports import Life, World, run
from shell import Script, bodies, end, rent, rented, report, start

from proverfleet.domain.events import Directed
from proverfleet.domain.ids import IntentId
from proverfleet.domain.report import Answer, Directive, ExitFact
from proverfleet.errors import StoreLocked

INTENT = IntentId("aaaa0001")


def test_a_report_is_stored_before_it_is_answered() -> None:
    async def main() -> None:
        world = World()
        controller, life = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        fleet = controller.fleet
        assert await controller.inbox.receive(report(fleet.fleet_id)) == Answer()
        assert [b.report.seq for b in await bodies(world, "reported")] == [1]
        life.ends_at = ("report.committed", 2)
        task = asyncio.get_running_loop().create_task(controller.inbox.receive(report(fleet.fleet_id, seq=2)))
        await life.ended.wait()
        assert not task.done() and [b.report.seq for b in await bodies(world, "reported")] == [1, 2]

    run(main())


def test_a_report_that_cannot_be_stored_is_not_answered_and_not_believed() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        world.store.error = StoreLocked("locked")
        with pytest.raises(StoreLocked):
            await controller.inbox.receive(report(controller.fleet.fleet_id))
        assert controller.fleet.rentals[INTENT].last is None
        world.store.error = None
        await controller.inbox.receive(report(controller.fleet.fleet_id))
        assert controller.fleet.rentals[INTENT].last is not None

    run(main())


def test_directives_come_until_they_are_acknowledged_and_an_ended_rental_is_over() -> None:
    async def main() -> None:
        world = World()
        drain = Directed("drain", INTENT, "d1", "drain", {}, "target lowered")
        controller, _ = start(world, Script({1: lambda f: [rent()], 2: lambda f: [drain], 4: lambda f: [end()]}))
        await rented(world, controller)
        fleet_id = controller.fleet.fleet_id
        await asyncio.sleep(70)
        expected = Answer((Directive("d1", "drain", {}),))
        assert await controller.inbox.receive(report(fleet_id, seq=1)) == expected
        assert await controller.inbox.receive(report(fleet_id, seq=2)) == expected
        assert await controller.inbox.receive(report(fleet_id, seq=3, acks=("d1",))) == Answer()
        await asyncio.sleep(130)
        assert await controller.inbox.receive(report(fleet_id, seq=4)) == Answer(over=True)
        assert [b.report.seq for b in await bodies(world, "reported")] == [1, 2, 3, 4]

    run(main())


def test_who_is_refused() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        fleet_id = controller.fleet.fleet_id
        receive = controller.inbox.receive
        # Another rental's token, none at all, something that is no ASCII; twice each within one beat.
        for token in (report(fleet_id, "bbbb0002").token, "", "é"):
            for _ in range(2):
                assert await receive(report(fleet_id, token=token)) == Answer()
        # A rental that a restored database has forgotten: it must go on working.
        assert await receive(report(fleet_id, "cccc0003")) == Answer()
        assert await receive(report(fleet_id, "dddd0004", token="x" * 40)) == Answer()
        refused = [(b.claimed, b.why) for b in await bodies(world, "hello_refused")]
        assert refused == [(INTENT, "wrong token"), ("cccc0003", "unknown rental"),
                           ("dddd0004", "unknown rental, wrong token")]
        assert not await bodies(world, "reported")

    run(main())


def test_no_secret_is_stored_and_completions_are_stored_once() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}), secrets=("hunter2hunter2",))
        await rented(world, controller)
        fleet_id = controller.fleet.fleet_id
        done = tuple((n, n * 10**9) for n in range(1, 6))
        dead = ExitFact("prover", 139, 11, False, False, "x" * 2000 + " api_key=abcdef123 hunter2hunter2 segfault")
        first = report(fleet_id, seq=1, last_completions=done[:3], exit=dead, params_error="https://u:p@h/x failed")
        await controller.inbox.receive(first)
        await controller.inbox.receive(report(fleet_id, seq=3, last_completions=done, exit=dead))
        await controller.inbox.receive(report(fleet_id, seq=2, last_completions=done[:4]))
        await controller.inbox.receive(report(fleet_id, seq=1, boot="b2", last_completions=done))
        stored = [b.report for b in await bodies(world, "reported")]
        assert [r.last_completions for r in stored] == [done[:3], done[3:], done[:4], done]
        assert first.token and all(r.token == "" for r in stored)
        lines = b"\n".join(await world.store.load(0))
        for secret in (first.token.encode(), b"abcdef123", b"hunter2", b"u:p@"):
            assert secret not in lines
        assert stored[0].exit is not None and stored[0].exit.log_tail.endswith("segfault")
        assert len(stored[0].exit.log_tail) <= 500
        last = controller.fleet.rentals[INTENT].last
        assert last is not None and last.token == ""

    run(main())


def test_before_the_boot_reports_are_to_be_sent_again() -> None:
    async def main() -> None:
        world = World()
        world.store.error = StoreLocked("locked")
        controller, _ = start(world, Script(), Life())
        await asyncio.sleep(50)
        with pytest.raises(StoreLocked):
            await controller.inbox.receive(report("f00d"))
        assert controller.counts.beats_failed >= 2 and controller.counts.boots == 0
        world.store.error = None
        await asyncio.sleep(50)
        assert controller.counts.boots == 1 and controller.counts.beats >= 1

    run(main())


def test_reports_of_one_turn_share_a_transaction_when_grouped() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}), group_reports=True)
        await rented(world, controller)
        fleet_id = controller.fleet.fleet_id
        appends: list[int] = []
        plain = type(world.store).append

        async def counting(self, records):  # type: ignore[no-untyped-def]
            appends.append(len(records))
            await plain(self, records)

        type(world.store).append = counting  # type: ignore[method-assign]
        try:
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(controller.inbox.receive(report(fleet_id, seq=n))) for n in range(1, 6)]
            for task in tasks:
                await task
            world.store.fail_next = [StoreLocked("x")]
            tasks = [loop.create_task(controller.inbox.receive(report(fleet_id, seq=n))) for n in range(6, 9)]
            for task in tasks:
                with pytest.raises(StoreLocked):
                    await task
            await controller.inbox.receive(report(fleet_id, seq=9))
        finally:
            type(world.store).append = plain  # type: ignore[method-assign]
        assert appends == [5, 3, 1]
        assert [b.report.seq for b in await bodies(world, "reported")] == [1, 2, 3, 4, 5, 9]

    run(main())
