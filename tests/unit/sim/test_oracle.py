"""The oracle on hand-made truths: each invariant holds on the good one and fires on the one bent for it."""

from __future__ import annotations

from sim.oracle import judge, live_state
from sim.oracle.kills import wrong_kill
from sim.oracle.view import HOUR, MINUTE, view_of
from sim.spec import DeploySpec, MachineSpec, Scenario
from sim.truth import NS, CallTruth, ContractTruth, FiredTruth, ListEntryTruth, OrderTruth, Steps, Truth

MACHINE = 7
CONTRACT = 900
TWO = [MachineSpec(id=i, host=i, price_usd_per_hour=0.32) for i in (7, 8)]


def scenario(**changes: object) -> Scenario:
    base = Scenario(name="t", deploy=[DeploySpec(machine=MACHINE)],
                    machines=[MachineSpec(id=MACHINE, host=1, price_usd_per_hour=0.32)])
    for name, value in changes.items():
        setattr(base, name, value)
    return base


def contract(
    contract_id: int = CONTRACT, machine: int = MACHINE, created: int = 0, intent: str = "aaaa"
) -> ContractTruth:
    c = ContractTruth(contract_id, machine, 1, f"pf.f.{intent}", True, intent, 0.32, created)
    c.running = created + 5 * MINUTE
    for name, at in (("running", 5), ("registered", 6), ("params", 7), ("warmup", 30), ("batch", 40), ("active", 60)):
        c.marks[name] = [created + at * MINUTE]
    c.progress.open(created)
    c.work_available.open(created)
    c.busy.open(created + 30 * MINUTE)
    c.accounted.open(created)
    c.paid.set(created, 0.32)
    return c


def world(c: ContractTruth, rate: float = 60.0, end: int = 6 * HOUR) -> Truth:
    truth = Truth(end=end)
    truth.contracts[c.contract_id] = c
    truth.potential[c.machine_id] = Steps(rate)
    truth.credit = Steps(100.0)
    truth.controller_up.open(0)
    truth.controller_hears.open(0)
    truth.beats = list(range(0, end, MINUTE))
    return truth


def kill(truth: Truth, at: int, contract_id: int = CONTRACT) -> None:
    truth.calls.append(CallTruth("destroy", at, "controller", contract_id=contract_id, done=True))
    c = truth.contracts[contract_id]
    c.gone = at + NS
    for spans in (c.progress, c.busy, c.work_available):
        spans.close(at + NS)


def broken(truth: Truth, s: Scenario) -> list[str]:
    return [v.invariant for v in judge(truth, s, truth.end).violations]


def test_a_good_run_has_no_violation_and_is_at_stake() -> None:
    c = contract()
    verdict = judge(world(c), scenario(), 6 * HOUR)
    assert verdict.violations == ()
    assert verdict.at_stake["INV-2"] > 0 and verdict.at_stake["INV-10"] > 0


def test_killing_a_progressing_machine_is_wrong() -> None:
    truth = world(contract())
    kill(truth, 3 * HOUR)
    assert "INV-1" in broken(truth, scenario())


def test_a_kill_just_after_the_stall_limit_is_right_and_well_before_it_is_wrong() -> None:
    for minutes, right in ((31, True), (20, False)):
        c = contract()
        c.progress.close(3 * HOUR)
        truth = world(c)
        kill(truth, 3 * HOUR + minutes * MINUTE)
        assert ("INV-1" not in broken(truth, scenario())) is right


def test_progress_that_came_back_within_the_unknowable_150_s_does_not_make_a_right_kill_wrong() -> None:
    c = contract()
    c.progress.close(3 * HOUR)
    truth = world(c)
    c.progress.open(3 * HOUR + 34 * MINUTE)
    kill(truth, 3 * HOUR + 34 * MINUTE + 100 * NS)
    assert "INV-1" not in broken(truth, scenario())


def test_starved_time_is_no_stall() -> None:
    c = contract()
    c.progress.close(3 * HOUR)
    c.work_available.close(3 * HOUR)
    truth = world(c)
    kill(truth, 3 * HOUR + 50 * MINUTE)
    assert "INV-1" in broken(truth, scenario())


def test_a_true_rate_below_min_rate_makes_a_kill_right_but_not_because_of_the_policys_own_number() -> None:
    truth = world(contract(), rate=39.0)
    kill(truth, 3 * HOUR)
    assert "INV-1" not in broken(truth, scenario())
    truth = world(contract(), rate=41.0)
    kill(truth, 3 * HOUR)
    assert "INV-1" in broken(truth, scenario())


def test_an_operators_order_makes_any_kill_right_only_after_it_was_given() -> None:
    truth = world(contract())
    truth.orders.append(OrderTruth(3 * HOUR - MINUTE, "kill", MACHINE))
    kill(truth, 3 * HOUR)
    assert broken(truth, scenario()) == []
    truth.orders[0].at = 3 * HOUR + MINUTE
    assert "INV-1" in broken(truth, scenario())


def test_unaccounted_paid_time_is_a_leak_after_ten_minutes() -> None:
    c = contract()
    c.accounted.close(2 * HOUR)
    assert "INV-2" in broken(world(c), scenario())


def test_a_failed_destroy_that_is_not_repeated_is_a_leak() -> None:
    c = contract()
    c.progress.close(2 * HOUR)
    truth = world(c)
    truth.calls.append(CallTruth("destroy", 3 * HOUR, "controller", contract_id=CONTRACT, failed=True))
    assert "INV-2" in broken(truth, scenario())


def test_a_second_create_for_an_intent_is_seen() -> None:
    truth = world(contract())
    for at in (0, HOUR):
        truth.calls.append(CallTruth("create", at, "controller", label="pf.f.aaaa", machine_id=MACHINE))
    assert "INV-4" in broken(truth, scenario())


def test_touching_a_foreign_contract_is_seen() -> None:
    truth = world(contract())
    other = contract(901, 8)
    other.ours, other.label, other.intent = False, None, None
    truth.contracts[901] = other
    truth.calls.append(CallTruth("destroy", HOUR, "controller", contract_id=901))
    assert "INV-6" in broken(truth, scenario())


def test_blame_needs_a_fault_of_the_machine() -> None:
    truth = world(contract())
    truth.listed.append(ListEntryTruth(3 * HOUR, MACHINE, "crashed twice"))
    truth.fired.append(FiredTruth("params.source_down", 0, None, HOUR, 2 * HOUR, "source"))
    assert "INV-7" in broken(truth, scenario())
    truth.fired.append(FiredTruth("host.gpu_xid", 1, MACHINE, HOUR, 2 * HOUR, "machine"))
    assert "INV-7" not in broken(truth, scenario())


def test_a_missing_beat_is_seen_while_the_process_runs_only() -> None:
    truth = world(contract())
    truth.beats = [t for t in truth.beats if not HOUR < t < HOUR + 5 * MINUTE]
    assert "INV-10" in broken(truth, scenario())
    truth.controller_up.spans = [[0, HOUR + NS], [HOUR + 5 * MINUTE, None]]
    assert "INV-10" not in broken(truth, scenario())


def test_idle_pay_is_seen_after_limit_and_ten_minutes() -> None:
    c = contract()
    c.progress.close(3 * HOUR)
    assert "INV-11" in broken(world(c), scenario())
    c = contract()
    c.progress.close(6 * HOUR - 35 * MINUTE)
    assert "INV-11" not in broken(world(c), scenario())


def test_a_slow_rental_that_is_kept_is_seen_after_three_windows() -> None:
    assert "INV-11" in broken(world(contract(), rate=37.0, end=8 * HOUR), scenario())
    assert "INV-11" not in broken(world(contract(), rate=39.5, end=8 * HOUR), scenario())


def test_a_secret_that_shows_is_seen() -> None:
    verdict = judge(world(contract()), scenario(), 6 * HOUR, secrets_seen=("journal line 3",))
    assert [v.invariant for v in verdict.violations] == ["INV-12"]


def test_over_renting_is_seen() -> None:
    truth = world(contract())
    truth.contracts[901] = contract(901, 8, created=2 * HOUR, intent="bbbb")
    truth.potential[8] = Steps(60.0)
    assert "INV-13" in broken(truth, scenario())


def test_a_drain_that_loses_a_proof_is_wrong_and_one_that_waited_is_right() -> None:
    for waited, right in ((20 * MINUTE, True), (MINUTE, False)):
        c = contract()
        c.proof_s = 600.0
        c.in_flight.open(HOUR)
        c.marks["draining"] = [3 * HOUR]
        truth = world(c)
        s = scenario(deploy=[], target=1)
        truth.target = Steps(1.0)
        truth.target.set(3 * HOUR - MINUTE, 0.0)
        assert (wrong_kill(view_of(truth, s, truth.end), c, 3 * HOUR + waited) == "") is right


def test_not_live_when_something_that_must_end_is_still_paid() -> None:
    c = contract()
    truth = world(c)
    truth.calls.append(CallTruth("destroy", 6 * HOUR - MINUTE, "controller", contract_id=CONTRACT, failed=True))
    assert judge(truth, scenario(deploy=[]), 6 * HOUR).live == "not_live"


def test_not_recoverable_when_no_offer_can_succeed() -> None:
    truth = world(contract(), rate=10.0)
    truth.contracts.clear()
    truth.target = Steps(1.0)
    assert judge(truth, scenario(deploy=[]), 6 * HOUR).live == "not_recoverable"


def test_what_still_comes_is_waited_for_the_whole_eight_hours() -> None:
    for hours, recoverable in ((2, True), (8, False)):
        c = contract()
        del c.marks["active"]
        truth = world(c, end=20 * HOUR)
        truth.target = Steps(1.0)
        truth.faults_end = HOUR
        truth.potential[8] = Steps(60.0)  # another machine that could succeed
        found = live_state(truth, scenario(deploy=[], target=1, machines=TWO), (1 + hours) * HOUR)
        assert found.recoverable is recoverable
