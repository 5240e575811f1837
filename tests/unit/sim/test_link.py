"""The line between agent and controller: each fault of tunnel., agent. and work. as the ports feel it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from places import REPORT, Place, fault

from proverfleet.domain.ids import ContractId, IntentId
from proverfleet.domain.report import Report
from proverfleet.errors import LinkDown, MarketError, ProbeFailed
from sim.contract import SimContract
from sim.lies import lie
from sim.ports.link import DirectLink, DirectOwnContract, DirectTunnel
from sim.ports.probe import DirectProbe
from sim.ports.work import DirectWork
from sim.spec import FaultSpec
from sim.stages import StagedParams, StagedProver, StagedState
from sim.truth import NS

START = 1000.0  # the faults of these tests begin here


class Line:
    """A running container with its agent's ports, at the moment before the faults begin."""

    def __init__(self, *faults: FaultSpec, **spec: Any) -> None:
        self.place = Place(*faults, **spec)
        self.contract: SimContract = self.place.running()
        assert self.contract.container is not None
        self.container = self.contract.container
        self.process = self.place.world.agents[self.contract.contract_id]
        ports = (self.place.world, self.process, self.container)
        self.link, self.tunnel, self.own = DirectLink(*ports), DirectTunnel(*ports), DirectOwnContract(*ports)
        self.probe = DirectProbe(self.place.world, self.place.process)
        self.place.to(START + 1)

    @property
    def arrived(self) -> list[int]:
        return [seq for _, seq in self.place.got]

    def send(self, seq: int = 1, **fields: Any) -> None:
        self.place.ask(self.link.send(replace(REPORT, seq=seq, **fields)), 60.0)

    def post(self, seq: int) -> None:
        """Sends without waiting for what comes of it."""

        async def quietly() -> None:
            try:
                await self.link.send(replace(REPORT, seq=seq))
            except LinkDown:
                return

        self.process.spawn(quietly(), f"report-{seq}")

    def look(self) -> Any:
        return self.place.ask(self.probe.machine(ContractId(self.contract.contract_id)))


def on(kind: str, **params: Any) -> FaultSpec:
    return fault(kind, at_s=START, machines=[1], **params)


# ---------------------------------------------------------------- without faults


def test_a_report_takes_one_latency_and_registers_the_rental() -> None:
    line = Line()
    before = line.place.now_s
    assert "registered" not in line.contract.truth.marks
    line.send()
    assert 0.02 <= line.place.now_s - before <= 0.15 and line.arrived == [1]
    assert len(line.contract.truth.marks["registered"]) == 1
    line.send(2)
    assert len(line.contract.truth.marks["registered"]) == 1


def test_a_late_registration_does_not_set_the_stage_back() -> None:
    line = Line()
    line.place.do(StagedParams(line.container).fetch())
    line.place.run(5)
    line.send()
    marks = line.contract.truth.marks
    assert max(marks["params"]) >= max(marks["registered"])


def test_stage_marks_come_with_the_calls_that_begin_the_stages() -> None:
    line = Line()
    prover, params = StagedProver(line.container), StagedParams(line.container)
    for _ in range(2):
        line.place.do(params.fetch())
    line.container.params.fill()
    from proverfleet.domain.sizing import Sizing

    line.place.do(prover.start(Sizing(9, 3)))
    line.place.do(prover.warm_up())
    line.place.do(prover.batch(12, 3))
    line.place.do(prover.work())
    state = StagedState(line.container)
    state.save({"stage": "draining"})
    state.save({"stage": "draining"})
    marks = line.contract.truth.marks
    assert [m for m in marks if len(marks[m]) == 1][3:] == ["params", "warmup", "batch", "active", "draining"]


def test_a_dead_controller_refuses_and_a_suspended_one_lets_us_wait_ten_seconds() -> None:
    line = Line()
    line.place.process.suspend()
    before = line.place.now_s
    with pytest.raises(LinkDown, match="10 s"):
        line.send(1)
    assert line.place.now_s - before == pytest.approx(10.0) and line.arrived == []
    line.place.process.resume()
    line.place.run(1)
    assert line.arrived == [1]  # it lay there all the time, and is stored although nobody waits any more
    line.place.process.crash()
    with pytest.raises(LinkDown, match="refused"):
        line.send(2)
    assert line.place.ask(line.tunnel.ensure()) is False


def test_controller_offline_loses_the_packet() -> None:
    line = Line(fault("controller.offline", at_s=START, for_s=60))
    with pytest.raises(LinkDown, match="10 s"):
        line.send()
    assert line.arrived == []
    assert line.place.ask(line.probe.public_address()) is False
    with pytest.raises(ProbeFailed):
        line.place.ask(line.probe.source())


# ---------------------------------------------------------------- tunnel.


@pytest.mark.parametrize(("kind", "params", "waits_s"), [
    ("tunnel.down", {}, 0), ("tunnel.port_busy", {}, 0), ("tunnel.half_open", {}, 10), ("tunnel.flap", {}, 0),
    ("tunnel.wrong_peer", {}, 0), ("tunnel.wrong_peer", {"how": "other_agent"}, 0),
    ("tunnel.wrong_peer", {"how": "old_socket"}, 10),
])
def test_a_broken_tunnel_is_link_down_and_no_repair_helps_before_its_end(
    kind: str, params: dict[str, Any], waits_s: float
) -> None:
    line = Line(on(kind, for_s=300, **params))
    before = line.place.now_s
    with pytest.raises(LinkDown):
        line.send()
    assert line.place.now_s - before == pytest.approx(waits_s, abs=0.2)
    assert line.place.ask(line.tunnel.ensure()) is False and line.arrived == []
    assert not line.contract.truth.agent_reachable.on
    assert line.contract.truth.dark.on == (params == {} and kind == "tunnel.wrong_peer")  # its key fails SSH too
    line.place.to(START + 301)
    assert line.place.ask(line.tunnel.ensure()) is True
    line.send(2)
    assert line.arrived == [2] and line.contract.truth.agent_reachable.on
    assert [f.kind for f in line.place.world.truth.fired] == [kind]


def test_a_report_that_was_served_stays_stored_when_the_tunnel_dies_under_the_answer() -> None:
    line = Line(fault("tunnel.down", mark="registered", machines=[1], for_s=60))
    with pytest.raises(LinkDown):
        line.send()  # it is the first report's own arrival that brings the fault
        line.send(2)
    assert line.arrived == [1]


def test_another_machine_s_tunnel_does_not_matter() -> None:
    line = Line(fault("tunnel.down", at_s=START, machines=[2]), machines=2)
    line.send()
    assert line.arrived == [1] and line.place.ask(line.tunnel.ensure()) is True


def test_flap_is_down_and_up_in_turns() -> None:
    line = Line(on("tunnel.flap", for_s=300, up_s=60, down_s=30))
    came = []
    for _ in range(12):
        try:
            line.send()
            came.append(True)
        except LinkDown:
            came.append(False)
        line.place.to(START + 1 + 15 * len(came))
    assert came == [False, False, True, True, True, True] * 2


def test_slow_adds_both_ways_and_loses_a_share() -> None:
    line = Line(on("tunnel.slow", latency_ms=2000))
    before = line.place.now_s
    line.send()
    assert 4.0 < line.place.now_s - before < 4.2
    lossy = Line(on("tunnel.slow", latency_ms=0, loss=1.0))
    with pytest.raises(LinkDown):
        lossy.send()
    assert lossy.arrived == []
    thin = Line(on("tunnel.slow", latency_ms=0, kbps=8))
    before = thin.place.now_s
    thin.send()
    assert 2.0 < thin.place.now_s - before < 2.2


@pytest.mark.parametrize(("kind", "params", "rpc"), [
    ("tunnel.rpc_port_missing", {}, False), ("tunnel.down", {}, True), ("tunnel.down", {"rpc_too": True}, False)])
def test_the_chain_node_s_port(kind: str, params: dict[str, Any], rpc: bool) -> None:
    line = Line(on(kind, for_s=300, **params))
    assert line.place.ask(line.tunnel.rpc_ok()) is rpc and line.container.work_flows() is rpc
    line.place.ask(line.tunnel.ensure())
    assert line.place.ask(line.tunnel.rpc_ok()) is rpc  # a repair changes nothing while it lasts
    line.place.to(START + 301)
    assert line.place.ask(line.tunnel.rpc_ok()) is True


# ---------------------------------------------------------------- agent.


def test_duplicates_reach_the_controller_and_one_answer_comes_back() -> None:
    line = Line(on("agent.duplicate", copies=3))
    line.send()
    line.place.run(1)
    assert line.arrived == [1, 1, 1]


def test_late_messages_arrive_late_and_the_agent_does_not_wait_so_long() -> None:
    line = Line(on("agent.late", by_s=300))
    with pytest.raises(LinkDown):
        line.send()
    line.place.to(START + 300)
    assert line.arrived == []
    line.place.to(START + 302)
    assert line.arrived == [1]


def test_late_may_name_one_sort_of_message() -> None:
    line = Line(on("agent.late", by_s=300, only="batch"))
    line.send()
    assert line.arrived == [1]


def test_reordered_messages_change_places() -> None:
    line = Line(on("agent.reorder", within_s=60))
    for seq in range(1, 9):
        line.post(seq)
        line.place.run(5)
    line.place.run(70)
    assert sorted(line.arrived) == list(range(1, 9)) and line.arrived != sorted(line.arrived)


def test_a_stalled_heartbeat_lets_other_reports_go() -> None:
    line = Line(on("agent.heartbeat_stall", for_s=600))
    with pytest.raises(LinkDown):
        line.send(1)
    line.place.do(StagedParams(line.container).fetch())
    line.send(1)
    assert line.arrived == [1]
    with pytest.raises(LinkDown):
        line.send(2)


@pytest.mark.parametrize("what", ["counters", "rate", "identity"])
def test_lies(what: str) -> None:
    place = Place(machines=2)
    place.rent(1)
    place.rent(2, "pf.fleet1.intent2")
    honest = replace(REPORT, mono_ns=100, proofs_accepted=10, busy_s=60.0, last_completions=((9, 40), (10, 80)))
    told: Report = lie(honest, fault("agent.lies", what=what, factor=2.0), place.world)
    if what == "counters":
        assert told.proofs_accepted == 20 and told.last_completions == ((18, 40), (20, 80))
    elif what == "rate":
        assert told.mono_ns == 50 and told.last_completions == ((9, 20), (10, 40)) and told.busy_s == 30.0
    else:
        assert told.rental == IntentId("intent2") and told.token == honest.token


# ---------------------------------------------------------------- probe, darkness


def test_the_probe_finds_the_agent_the_mark_and_the_daemon() -> None:
    from proverfleet.domain.sizing import Sizing

    line = Line()
    found = line.look()
    assert found.mark == "pf.fleet1.intent1" and found.agent_alive and found.daemon_start_s is None
    assert found.partitions is None and found.bytes_on_disk == 0
    line.container.params.fill()
    line.place.do(line.container.prover.start(Sizing(9, 3)))
    line.process.crash()
    found = line.look()
    assert not found.agent_alive and found.daemon_start_s is not None and found.proofs == 0
    assert found.bytes_on_disk == line.container.params.total
    assert line.place.ask(line.probe.source()) is True and line.place.ask(line.probe.public_address()) is True


@pytest.mark.parametrize(("kind", "params"), [
    ("tunnel.down", {"ssh_too": True}), ("tunnel.wrong_peer", {}), ("host.offline", {}), ("host.suspend", {})])
def test_a_probe_that_fails(kind: str, params: dict[str, Any]) -> None:
    line = Line(on(kind, **params))
    with pytest.raises(ProbeFailed):
        line.look()


def test_a_probe_may_meet_somebody_else() -> None:
    assert Line(on("tunnel.wrong_peer", how="other_agent")).look().mark != "pf.fleet1.intent1"
    assert Line(on("tunnel.down")).look().mark == "pf.fleet1.intent1"
    assert Line(on("host.offline", alive=True)).look().agent_alive


def test_dark_is_when_every_channel_is() -> None:
    line = Line(on("tunnel.down", ssh_too=True, for_s=600))
    truth = line.contract.truth
    assert truth.dark.on and truth.dark.spans[-1][0] == round(START * NS)
    line.place.do(line.container.params.fetch())
    line.place.run(1)
    assert not truth.dark.on  # the disk's use moves in the market's columns
    line.place.to(START + 601)
    assert not truth.dark.on and truth.agent_reachable.on
    line.process.crash()
    line.place.run(1)
    assert not truth.agent_reachable.on and not truth.dark.on  # bytes still come
    line.place.ask(line.place.port.destroy(ContractId(line.contract.contract_id)))
    line.place.run(1)
    assert not truth.dark.on and not truth.agent_reachable.on


# ---------------------------------------------------------------- own contract, work


def test_the_lease_ends_its_own_contract() -> None:
    line = Line()
    line.process.spawn(line.own.destroy(), "lease")
    line.place.run(5)
    truth = line.contract.truth
    assert truth.gone_by == "lease" and truth.lease_called is not None
    assert all(call.op != "destroy" for call in line.place.world.truth.calls)


@pytest.mark.parametrize(("kind", "params"), [
    ("market.error", {"op": "destroy"}), ("market.hang", {"op": "destroy", "effect": "last"}),
    ("market.destroy_fails", {})])
def test_the_lease_s_destroy_can_fail(kind: str, params: dict[str, Any]) -> None:
    line = Line(on(kind, **params))
    with pytest.raises(MarketError):
        line.place.ask(line.own.destroy(), 60)
    assert line.contract.contract_id in line.place.market.live


def test_the_account_s_broken_key_is_not_the_container_s() -> None:
    line = Line(fault("market.auth_broken", at_s=START))
    line.process.spawn(line.own.destroy(), "lease")
    line.place.run(5)
    assert line.contract.gone and not line.process.alive


def test_work_is_counted_by_intent_and_starves() -> None:
    line = Line(fault("work.starved", at_s=START, for_s=600), fault("work.rejected", at_s=START + 700, share=1.0))
    place, contract = line.place, line.contract
    port = DirectWork(place.world, place.process)
    assert not place.ask(port.state()).waiting and not line.container.work_flows()
    place.to(START + 601)
    pool = place.world.work
    assert pool.deliver(contract.contract_id, 1, place.world.now_ns(), True)
    assert not pool.deliver(contract.contract_id, 1, place.world.now_ns(), False)
    place.to(START + 701)
    assert not pool.deliver(contract.contract_id, 1, place.world.now_ns(), True)
    assert pool.deliver(contract.contract_id, 1, round((START + 650) * NS), True)  # proved before it began
    state = place.ask(port.state())
    count = state.by_intent[IntentId("intent1")]
    assert state.waiting and (count.accepted, count.rejected) == (2, 2)


def test_one_machine_may_starve_or_be_refused_alone() -> None:
    line = Line(on("work.starved"), on("work.rejected", times=1), machines=2)
    place = line.place
    other = place.running(2, "pf.fleet1.intent2")
    pool = place.world.work
    assert not pool.available(1) and pool.available(2) and pool.available(None)
    assert pool.deliver(other.contract_id, 2, place.world.now_ns(), True)
    assert not pool.deliver(line.contract.contract_id, 1, place.world.now_ns(), True)
    assert pool.deliver(line.contract.contract_id, 1, place.world.now_ns(), True)  # times = 1
