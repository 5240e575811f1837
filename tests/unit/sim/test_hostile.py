"""What is meant to break the test-bed: numbers beyond arithmetic, files beyond reading, checks without an end, full
disks, killed sweeps. Each is one line that says what is wrong, or it works; nothing hangs, nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sim.cli import invoke
from sim.expect import CheckError, evaluate
from sim.import_log import read, skeleton
from sim.journal import JournalError, RunJournal, read_run
from sim.scenario import ScenarioError, parse, read_policy, resolve
from sim.scenario_toml import to_toml
from sim.sweep import sweep

MACHINE = "[[machine]]\nid = 7\nhost = 70\nprice_usd_per_hour = 0.3\n"
HUGE = "9" * 22


def said(text: str, machine: str = MACHINE) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(f'name = "x"\n{text}\n{machine}', "x.toml")
    line = str(caught.value)
    assert "\n" not in line and line.startswith("x.toml: ") and len(line) < 1500
    return line


# ---------------------------------------------------------------- scenario files


@pytest.mark.parametrize("value", [
    "inf", "-inf", "nan", "1e308", "1e-320", HUGE, '"inf..inf"', '"1..inf"', '"1..1e300"'])
@pytest.mark.parametrize("where", [
    "[market]\ncredit_usd = {}", "[policy]\ntarget_usd_per_proof = {}", "[policy]\noom_retries = {}",
    "[fleet]\ntarget = {}", '[fleet]\ndeploy = [{{ machine = 7, at = "0m", min_rate = {} }}]',
    '[[fault]]\nkind = "host.slow_disk"\nmb_per_s = {}', '[[fault]]\nkind = "tunnel.down"\ntimes = {}',
])
def test_no_number_beyond_arithmetic(where: str, value: str) -> None:
    said(where.format(value))


@pytest.mark.parametrize("field", [
    "cpu_cores", "ram_gib", "disk_mb_per_s", "inet_down_mbps", "pcie_gb_per_s", "warm_up_s", "contention",
    "image_pull_s", "rate_proofs_per_hour", "gpus", "count", "cgroup_gib"])
@pytest.mark.parametrize("value", ["inf", "1e308", "1e-320", HUGE])
def test_no_machine_beyond_arithmetic(field: str, value: str) -> None:
    assert field in said("", f"{MACHINE}{field} = {value}")


@pytest.mark.parametrize(("text", "says"), [
    ("[policy]\nbeat_s = 0.001", "beat_s = 0.001 must be at least 1"),
    ('[policy]\nreport_s = "0.5..9.5"', "must be at least 1"),
    ('[[fault]]\nkind = "operator.policy"\nset = { report_s = 0.001 }', "must be at least 1"),
    ("[market]\nmachines = 1000000", "at most 10000"),
    ("[fleet]\ntarget = 1000000", "at most 1000"),
    ("about = 1979-05-27", "about must be text"),
    ('[fleet]\ndeploy = [{ machine = "7..7", at = "0m" }]', "may not be a range"),
    ('[fleet]\ndeploy = [{ machine = 7, at = "99999999999999h" }]', "longer than any run"),
    ('[fleet]\ndeploy = [{ machine = 7, at = "٣h" }]', "is no duration"),
    ('[[fault]]\nkind = "market.row_poison"\nvalue = [{ a = 1979-05-27 }]', "must be text, a number"),
    (f'[[fault]]\nkind = "market.row_poison"\nvalue = {HUGE}', "more than 64 bits"),
    ('[[fault]]\nkind = "host.throttle"\nfactor = 1e6', "at most 10"),
    ('[[fault]]\nkind = "prover.stuck_gpu"\nfactor = 1e6', "at most 10"),
    ('[[fault]]\nkind = "prover.invalid_proofs"\ns_per_proof = 0', "at least 0.1"),
    ('[[fault]]\nkind = "agent.duplicate"\ncopies = 1000000', "at most 100"),
    ('[[fault]]\nkind = "market.foreign_contract"\ncount = 1000000', "at most 1000"),
    ("a = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
    ("hours = " + "9" * 5000, "is no TOML"),
    (f'[expect]\nchecks = ["{"1+" * 3000}"]', "..."),
])
def test_what_no_file_may_say(text: str, says: str) -> None:
    assert says in said(text)


@pytest.mark.parametrize(("machine", "says"), [
    (MACHINE.replace("id = 7", 'id = "7..9"'), "may not be a range"),
    (MACHINE + 'count = "1..2"', "may not be a range"),
    (MACHINE + "count = 1000000", "more than 10,000 machines"),
    (MACHINE + "place = {}", "place must be text"),
])
def test_what_no_machine_may_say(machine: str, says: str) -> None:
    assert says in said("", machine)


@pytest.mark.parametrize("name", ["a\\nb", "\\u001b[2J", "\\u0000", "x" * 101])
def test_a_name_is_one_line(name: str) -> None:
    with pytest.raises(ScenarioError, match="name must be one line"):
        parse(f'name = "{name}"\n{MACHINE}')


def test_every_text_comes_back_from_toml() -> None:
    fault = '[[fault]]\nkind = "market.row_poison"\nvalue = { "a b" = "\\u0000\\u001b\\u007f\\"é", c = [1, true] }\n'
    one = parse(f'name = "x"\nabout = "\\u0007"\n{fault}{MACHINE}')
    assert parse(to_toml(one)) == one


def test_counts_that_are_ranges_are_drawn() -> None:
    one = parse(f'name = "x"\n[fleet]\ntarget = "1..3"\n[market]\nmachines = "2..4"\n{MACHINE}')
    assert to_toml(parse(to_toml(one))) == to_toml(one)
    drawn = [resolve(one, seed) for seed in range(20)]
    assert {d.target for d in drawn} == {1, 2, 3} and {len(d.machines) for d in drawn} == {3, 4, 5}


@pytest.mark.parametrize(("text", "says"), [
    ('rules = "legacy"', "use --policy default or --policy legacy"),
    ('beat_s = "50..70"', "may be a range only in a scenario"),
    ("[policy]\nbeat_s = 60\n[other]\na = 1", 'unknown key "other"'),
    ("beat_s = nan", "beat_s"),
    ("a = " + "[" * 3000, "nested too deeply"),
])
def test_what_no_policy_file_may_say(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read_policy(file)
    assert says in str(caught.value)


# ---------------------------------------------------------------- checks


TEN = "[1,2,3,4,5,6,7,8,9,10]"


@pytest.mark.parametrize(("check", "says"), [
    (f"len([0 {' '.join(f'for x{i} in {TEN}' for i in range(12))}])", "steps"),
    (f"len([0 for x0 in [[1, 1]] {' '.join(f'for x{i + 1} in [x{i} + x{i}]' for i in range(40))}])", "too large"),
    (f"len([0 for x0 in [9] {' '.join(f'for x{i + 1} in [x{i} * x{i}]' for i in range(40))}])", "too large"),
    ("(1 for x in [])", "only a generator"),
])
def test_a_check_ends(check: str, says: str) -> None:
    with pytest.raises(CheckError, match=says):
        evaluate(check, {})


# ---------------------------------------------------------------- journals and output


def test_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "m1475", "--seed", "1", "--journal", "/dev/full"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == "sim run: cannot write the journal /dev/full: No space left on device\n"


def test_a_disk_that_fills_up_while_it_is_written() -> None:
    journal = RunJournal(None, {})
    journal.path, journal._file = Path("/dev/full"), Path("/dev/full").open("wb", 0)  # noqa: SIM115
    journal.world(1, "mark", {})
    with pytest.raises(JournalError, match="No space left"):
        journal.flush()
    journal.close()


def test_a_device_that_never_ends_is_no_journal() -> None:
    with pytest.raises(JournalError, match="is a device"):
        read_run(Path("/dev/zero"))


def test_a_path_that_no_file_can_have(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["run", "a" * 5000], ["run", "m1475", "--journal", "a" * 5000]):
        assert invoke(args) == 2
        out, err = capsys.readouterr()
        assert out == "" and "File name too long" in err and err.count("\n") == 1


def test_the_name_of_a_scenario_is_no_path(tmp_path: Path) -> None:
    from sim.commands import store_failure

    path = store_failure(parse(f'name = "../../x/y"\n{MACHINE}'), 3, tmp_path / "here")
    assert path.parent == tmp_path / "here" and path.is_file()


# ---------------------------------------------------------------- faults


def test_a_crash_that_waits_for_its_point_ends_with_the_faults() -> None:
    """Recovery is judged without faults: what was armed and not reached would crash every create of the repair."""
    from sim.run import run

    slow = MACHINE + "count = 2\nrate_proofs_per_hour = 20\n"
    good = "[[machine]]\nid = 21\nhost = 21\nprice_usd_per_hour = 0.4\ncount = 3\n"
    crash = '[[fault]]\nkind = "controller.crash"\npoint = "create.intent_committed"\nat = "requested"\n' \
            'every = "5m"\nfor = "5s"\n'
    done = run(parse(f'name = "x"\nhours = 1\n[fleet]\ntarget = 2\n{slow}{good}{crash}'), 3)
    assert not [f for f in done.truth.fired if f.start > done.truth.faults_end]
    assert not done.verdict.violations


# ---------------------------------------------------------------- sweeps


@pytest.mark.parametrize("args", ["-j 257", "-j 99999999999999999999", "--seeds 0..9000000000000000000"])
def test_a_sweep_has_bounds(args: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["sweep", "m1475", *args.split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_killed_sweep_leaves_no_child() -> None:
    """``out`` stays open as long as anybody who inherited it lives."""
    out, inherited = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(out)

        def one(seed: int) -> dict[str, object]:
            os.write(inherited, b"x")
            time.sleep(600)
            return {}

        try:
            sweep(range(3), 3, one, lambda so_far: None)
        finally:
            os._exit(0)
    os.close(inherited)
    for _ in range(3):
        assert os.read(out, 1) == b"x"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.read(out, 1) == b""
    os.close(out)


# ---------------------------------------------------------------- logs


START = "[entrypoint] 10:00:00 Starting benchmark: 12 proofs, concurrency 3, partition-workers 16\n"


@pytest.mark.parametrize("more", [
    "[entrypoint] 09:00:00 b.sh exited with error\n",
    '[entrypoint] 10:01:00 a\x07"\\b.sh exited with error status 99999999999999999999\n',
    "[entrypoint] 10:10:00 Benchmark result: ... proofs/hour\n",
    "[entrypoint] 10:10:00 Benchmark FAILED: 1.2.3 proofs/hour < min_rate 4.5.6\n",
    "[entrypoint] 10:10:00 Benchmark FAILED: 0.0 proofs/hour < min_rate 0\n",
    "[entrypoint] 99:99:99 b.sh exited with error\n",
    START.replace("concurrency 3", "concurrency 0"),
    f"[entrypoint] 10:00:01 Starting benchmark: {'9' * 5000} proofs, concurrency 3, partition-workers 16\n",
    'C.1  0x RTX 4090   $0.000 0 GB 0m at 0.0\nC.1  1x RTX "4090"\\n  $0.3 504GB\n',
    "[entrypoint] 10:00:01 " + "Parameter file " * 50_000 + "\n",
])
def test_any_log_becomes_a_scenario_that_reads(more: str) -> None:
    assert parse(skeleton(read(START + more), 'odd"\nname')).machines[0].id == 1001
