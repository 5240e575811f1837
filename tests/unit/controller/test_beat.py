"""The beat goes on: through hangs, odd answers, a store that fails, restarts, a second controller, a backup."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from fakes_ports import FlakyStore, Life, World, fails, hangs, market_offer, row, run
from shell import Script, bodies, events, rent, rented, report, settings, start

from proverfleet.controller.brain import DefaultBrain
from proverfleet.controller.controller import Controller, load, snapshot_header
from proverfleet.controller.points import POINTS
from proverfleet.domain.events import Alerted, Asks
from proverfleet.domain.ids import ContractId, IntentId, mark
from proverfleet.domain.policy import Policy
from proverfleet.errors import StoreFull, StoreLocked, Unreachable
from proverfleet.ports import ProbeAnswer, WorkCount

INTENT = IntentId("aaaa0001")


def test_a_beat_a_minute_the_first_after_a_gap() -> None:
    async def main() -> None:
        world = World()
        start(world, Script())
        await asyncio.sleep(250)
        beats = await bodies(world, "beat")
        assert [b.n for b in beats] == [1, 2, 3, 4, 5]
        assert [b.gap for b in beats] == [True, False, False, False, False]
        assert beats[0].step_ns == 0 and all(abs(b.step_ns - 60e9) < 1e9 for b in beats[1:])
        assert all(b.inbox_ok and b.list_ok and 0 <= b.draw < 1 for b in beats)
        assert len({i for b in beats for i in b.ids}) == 16 * 5
        assert (await bodies(world, "booted"))[0].target == 1

    run(main())


def test_facts_beat_and_decisions_stand_together() -> None:
    async def main() -> None:
        world = World()
        alert = Alerted("hello", "k", "text", None)
        start(world, Script({1: lambda f: [alert, rent()]}))
        await asyncio.sleep(50)
        kinds = [e.body.KIND for e in await events(world)]
        assert kinds[:7] == ["booted", "listed", "worked", "account_read", "beat", "alerted", "rent"]
        assert world.notifier.sent == [("hello", "text")]

    run(main())


def test_a_beat_that_cannot_be_stored_decides_nothing_and_the_next_one_comes() -> None:
    async def main() -> None:
        world = World()
        brain = Script()
        controller, _ = start(world, brain)
        await asyncio.sleep(50)
        world.store.error = StoreFull("disk full")
        before = controller.seq
        await asyncio.sleep(120)
        assert brain.calls == 1 and controller.seq == before and controller.counts.beats_failed == 2
        world.store.error = None
        await asyncio.sleep(120)
        beats = await bodies(world, "beat")
        assert [b.n for b in beats] == [1, 2, 3] and brain.calls == 3
        # The time without a store counts in the step and not in what could be heard.
        assert abs(beats[1].step_ns - 180e9) < 1e9 and not beats[1].inbox_ok and beats[2].inbox_ok

    run(main())


def test_decisions_that_cannot_be_stored_are_not_carried_out() -> None:
    async def main() -> None:
        world = World()
        world.store.fail_next = [None, None, StoreLocked("locked")]
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await asyncio.sleep(50)
        assert world.market.count("create") == 0 and not controller.fleet.rentals
        assert await bodies(world, "rent") == [] and len(await bodies(world, "beat")) == 1

    run(main())


def test_a_beat_starts_at_least_every_two_minutes_whatever_hangs() -> None:
    async def main() -> None:
        world = World()
        world.probe.hang = True
        for op in ("list", "get", "search", "account", "logs"):
            world.market.trouble[op] = hangs(200)

        async def never() -> Any:
            await asyncio.get_running_loop().create_future()

        world.work.state = never  # type: ignore[method-assign]
        ids = tuple(ContractId(n) for n in range(40))
        _, life = start(world, Script(asks=Asks(ids, ids, ids, True, True, (), True)))
        began: list[float] = []
        point = life.point

        loop = asyncio.get_running_loop()
        seen = 0
        while loop.time() < 1200:
            await asyncio.sleep(1)
            if life.points.count("beat.begin") > seen:
                seen = life.points.count("beat.begin")
                began.append(loop.time())
        assert point is not None
        gaps = [b - a for a, b in itertools.pairwise(began)]
        assert max(gaps) <= 120 and len(began) > 10
        listed = await bodies(world, "listed")
        assert {e.trust for e in listed} == {"failed"}
        probed = await bodies(world, "probed")
        assert {p.outcome for p in probed} == {"unreachable"} and len(probed) % 40 == 0

    run(main())


def test_one_odd_answer_costs_the_beat_nothing_else() -> None:
    async def main() -> None:
        world = World()

        async def broken(*args: Any) -> Any:
            raise ZeroDivisionError("a bug in an adapter")

        world.probe.machine = broken  # type: ignore[method-assign]
        world.work.state = broken  # type: ignore[method-assign]
        world.market.account = broken  # type: ignore[method-assign]
        brain = Script(asks=Asks(probes=(ContractId(1),)))
        start(world, brain)
        await asyncio.sleep(200)
        assert brain.calls == 4 and {e.trust for e in await bodies(world, "listed")} == {"trusted"}

    run(main())


def test_a_brain_that_raises_stops_nothing() -> None:
    async def main() -> None:
        world = World()

        def broken(fleet: Any) -> Any:
            raise KeyError("no such rental")

        brain = Script({2: broken})
        controller, _ = start(world, brain)
        await asyncio.sleep(200)
        assert brain.calls == 4 and controller.counts.beats_failed == 1

    run(main())


def test_an_empty_listing_while_owning_is_told_as_such_and_settled_by_id() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        contract = await rented(world, controller)
        await asyncio.sleep(70)
        world.market.listing = lambda rows: []
        await asyncio.sleep(60)
        listed = await bodies(world, "listed")
        assert [e.trust for e in listed][-2:] == ["trusted", "empty"]
        assert not (await bodies(world, "beat"))[-1].list_ok
        assert [(r.contract_id, r.outcome) for r in await bodies(world, "contract_read")] == [(contract, "present")]
        assert contract in controller.fleet.rows

    run(main())


def test_what_was_asked_is_answered() -> None:
    async def main() -> None:
        world = World()
        world.work.counts = {INTENT: WorkCount(3, 1), IntentId("zzzz9999"): WorkCount(9, 0)}
        controller, _ = start(world, brain := Script({1: lambda f: [rent()]}))
        contract = await rented(world, controller)
        fleet_id = controller.fleet.fleet_id
        other = ContractId(5)
        brain.asks = Asks((contract, other), (contract, other), (contract,), True, True, (), False)
        answer = ProbeAnswer(mark(fleet_id, INTENT), False, 12.0, 7, 1, None)  # type: ignore[arg-type]
        world.probe.machines = {contract: answer, other: ProbeAnswer("pf.other.aaaa0001", True)}
        world.probe.source_ok = False
        await asyncio.sleep(130)
        reads = {r.contract_id: r.outcome for r in await bodies(world, "contract_read")}
        assert reads == {contract: "present", other: "absent"}
        probed = {p.contract_id: (p.outcome, p.partitions) for p in await bodies(world, "probed")}
        assert probed == {contract: ("answers", 7), other: ("wrong_peer", None)}
        assert [r.outcome for r in await bodies(world, "logs_read")] == ["ok"]
        assert [s.ok for s in await bodies(world, "source_probed")] == [False]
        assert [o.failed for o in await bodies(world, "offered")] == [False]
        assert [w.changed for w in await bodies(world, "worked")] == [(), ((INTENT, 3, 1),)]

    run(main())


def test_who_was_heard() -> None:
    async def main() -> None:
        world = World()
        world.probe.address_ok = False
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        await asyncio.sleep(100)
        await controller.inbox.receive(report(controller.fleet.fleet_id))
        asked = world.probe.asked.count("address")
        await asyncio.sleep(60)
        assert [b.inbox_ok for b in await bodies(world, "beat")] == [False, False, True]
        assert world.probe.asked.count("address") == asked

    run(main())


def test_a_restart_goes_on_from_snapshot_and_tail() -> None:
    async def main() -> None:
        world = World()
        controller, life = start(world, Script({1: lambda f: [rent()]}), snapshot_every=10)
        await rented(world, controller)
        await asyncio.sleep(400)
        life.end()
        last = controller.seq
        found = await world.store.newest_snapshot(snapshot_header(controller.settings))
        assert found is not None and found[0] < last and "snapshot.saved" in life.points
        whole_store = FlakyStore()
        await whole_store.append(list(enumerate(await world.store.load(0), 1)))
        ports = world.ports(Life())
        with_snapshot = await load(ports, controller.settings)
        ports.store = whole_store
        without = await load(ports, controller.settings)
        assert with_snapshot[1] == without[1] == last
        assert with_snapshot[0] == without[0] == controller.fleet

    run(main())


def test_the_same_run_twice_gives_the_same_bytes() -> None:
    async def main() -> list[bytes]:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}, asks=Asks(search=True)))
        await rented(world, controller)
        await asyncio.sleep(400)
        return await world.store.load(0)

    assert run(main()) == run(main())


def test_a_second_controller_on_the_same_store_takes_over_and_the_first_stands_by() -> None:
    async def main() -> None:
        world = World()
        first, _ = start(world, Script())
        await asyncio.sleep(130)
        second, life = start(world, Script())
        await asyncio.sleep(400)
        assert first.counts.boots == 1 and second.counts.boots == 1
        beats = [b.n for b in await bodies(world, "beat")]
        assert beats == list(range(1, len(beats) + 1)) and len(beats) >= 9
        with pytest.raises(StoreLocked):
            await first.inbox.receive(report("f00d"))
        life.end()
        await asyncio.sleep(200)
        assert first.counts.boots == 2 and [b.target for b in await bodies(world, "booted")] == [1, 1, 1]

    run(main())


def test_a_store_that_was_replaced_by_its_backup_is_noticed_and_gone_on_from() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script({1: lambda f: [rent()]}))
        await rented(world, controller)
        await asyncio.sleep(300)
        world.store._db.execute("DELETE FROM events WHERE seq > 4")
        await asyncio.sleep(100)
        assert controller.counts.boots == 2 and INTENT not in controller.fleet.rentals
        seqs = [e.seq for e in await events(world)]
        assert seqs == list(range(1, len(seqs) + 1))

    run(main())


def test_every_crash_point_is_on_the_list() -> None:
    async def main() -> None:
        world = World()
        world.market.trouble["destroy"] = fails(Unreachable("x"))
        from shell import end, gone_when_acknowledged

        from proverfleet.domain.events import Restart

        brain = Script({1: lambda f: [rent()], 3: lambda f: [end()], 4: lambda f: [
            Restart("restart", INTENT, ContractId(1), "")]}, always=gone_when_acknowledged)
        controller, life = start(world, brain, snapshot_every=20)
        await rented(world, controller)
        await controller.inbox.receive(report(controller.fleet.fleet_id))
        await controller.order("target", {"value": 3})
        await asyncio.sleep(900)
        assert set(life.points) == set(POINTS)

    run(main())


def test_the_beat_follows_the_policy_that_is_in_force() -> None:
    async def main() -> None:
        world = World()
        controller, _ = start(world, Script(), policy=Policy(beat_s=30.0))
        await asyncio.sleep(250)
        assert len(await bodies(world, "beat")) == 9
        await controller.order("policy", {"set": {"beat_s": 100}})
        await asyncio.sleep(400)
        assert len(await bodies(world, "beat")) in (12, 13, 14)

    run(main())


def test_an_operators_policy_and_target_outlive_a_restart() -> None:
    async def main() -> None:
        world = World()
        controller, life = start(world, Script())
        await asyncio.sleep(30)
        await controller.order("policy", {"set": {"silence_s": 900}})
        await controller.order("target", {"value": 5})
        life.end()
        controller, _ = start(world, Script())
        await asyncio.sleep(30)
        assert controller.fleet.policy.silence_s == 900 and controller.fleet.target == 5

    run(main())


def test_foreign_contracts_cost_nothing() -> None:
    async def main() -> None:
        world = World()
        for n in range(60):
            world.market.rows[ContractId(n + 1)] = row(n + 1, label=None, machine_id=None, status=None)
        start(world, Script())
        await asyncio.sleep(130)
        listed = await bodies(world, "listed")
        assert {(e.trust, e.total, e.changed) for e in listed} == {("trusted", 60, ())}
        assert world.market.count("destroy") == 0

    run(main())


def test_the_products_own_brain_fills_the_target_and_nothing_is_amiss() -> None:
    async def main() -> None:
        world, said = World(), []
        world.market.offers = tuple(market_offer(40 + n) for n in range(5))
        controller = Controller(
            world.ports(Life()), DefaultBrain(), settings(target=2), say=lambda name, text: said.append((name, text))
        )
        task = asyncio.get_running_loop().create_task(controller.run())
        await asyncio.sleep(600)
        assert not task.done() and said == [] and controller.counts.beats_failed == 0
        assert len({r.machine_id for r in controller.fleet.live()}) == 2 and world.market.count("create") == 2

    run(main())
