"""Scenario files: what they may say, what they may not, and that every mistake is one line that names its mend."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sim import scenario as files
from sim.scenario import ScenarioError, load, names, parse, resolve
from sim.scenario_toml import to_toml
from sim.spec import Scenario
from sim.units import Range, duration, in_words, moment, seconds

MACHINE = '[[machine]]\nid = 7\nhost = 70\nprice_usd_per_hour = 0.3\n'


def scenario(text: str) -> Scenario:
    return parse(f'name = "x"\n{text}\n{MACHINE}', "x.toml")


def complaint(text: str, machine: str = MACHINE) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(f'name = "x"\n{text}\n{machine}', "x.toml")
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("x.toml: ")
    return line


@pytest.mark.parametrize(("text", "value"), [
    ("25m", 1500.0), ("2h58m30s", 10_710.0), ("90s", 90.0), ("0s", 0.0), ("1d", 86_400.0), ("1.5h", 5400.0),
    ("250ms", 0.25), ("0.1s", 0.1),
])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value
    assert seconds(in_words(value)) == value


@pytest.mark.parametrize("text", ["25x", "25", "", "m", "-5m", "1h 5m", "5m..2m", "1h..", "4hours"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"unit|no duration|empty|backwards"):
        duration(text)


def test_marks() -> None:
    assert moment("batch+620s") == ("batch", 620.0)
    assert moment("active") == ("active", 0.0)
    assert moment("25m") == ("", 1500.0)
    name, offset = moment("batch+10m..20m")
    assert name == "batch" and isinstance(offset, Range) and (offset.lo, offset.hi) == (600.0, 1200.0)
    with pytest.raises(ValueError, match='did you mean "batch"'):
        moment("bacth+5s")


def test_a_whole_file() -> None:
    found = parse("""
name = "example"
about = "one line"
source = ["field-cases.md"]
hours = 6
[policy]
target_usd_per_proof = 0.01
rules = "legacy"
[fleet]
target = 2
deploy = [{ machine = 42012, at = "5m", min_rate = 29.0, bid_usd_per_hour = 0.2 }]
[market]
machines = 3
credit_usd = 50
[[machine]]
id = 42011
host = 7001
count = 2
gpu = "RTX PRO 4000"
gpu_actual = ["GTX 1660"]
cgroup_gib = "max"
price_usd_per_hour = 0.296
first_sizing = { partition_workers = 16, concurrency = 3 }
[[fault]]
kind = "tunnel.down"
machine = [42011, 42012]
at = "batch+120s"
for = "40m"
every = "2h"
ssh_too = true
[[fault]]
kind = "host.throttle"
host_id = 7002
for = "always"
[[fault]]
kind = "market.row_poison"
how = "value"
value = "null"
[expect]
violations = ["INV-1"]
checks = ["len(rentals) == 2"]
[[expect.rental]]
machine = 42011
ends = ["active", "slow"]
kills = 0
""", "example.toml")
    assert (found.rules, found.policy, found.target, found.credit_usd) == (
        "legacy", {"target_usd_per_proof": 0.01}, 2, 50.0)
    assert [(m.id, m.host, m.cgroup_gib) for m in found.machines] == [(42011, 7001, math.inf), (42012, 7002, math.inf)]
    down, throttle, poison = found.faults
    assert (down.mark, down.at_s, down.for_s, down.every_s, down.machines) == (
        "batch", 120.0, 2400.0, 7200.0, [42011, 42012])
    assert down.params == {"ssh_too": True, "rpc_too": False}
    assert (throttle.always, throttle.machines, throttle.params["factor"]) == (True, [7002 - 7002 + 42012], 0.7)
    assert (poison.for_s, poison.times, poison.params["value"], poison.params["op"]) == (None, None, None, "list")
    assert found.deploy[0].bid_usd_per_hour == 0.2
    assert found.expect.rentals[0].ends == ["active", "slow"]
    assert parse(to_toml(found), "example.toml") == found


def test_for_always_brings_a_moment_back_each_time() -> None:
    found = scenario('[[fault]]\nkind = "prover.oom"\nat = "batch+60s"\nfor = "always"').faults[0]
    assert found.always and (found.times or 0) > 1000


@pytest.mark.parametrize(("text", "says"), [
    ('houres = 6', 'unknown key "houres"; did you mean "hours"?'),
    ('hours = 0', "hours = 0 must be above 0"),
    ('hours = "six"', "hours"),
    ('[policy]\nsilence = 5', 'unknown key "silence"; did you mean "silence_s"?'),
    ('[policy]\nsilence_s = 5', "silence_s = 5 is below two beats"),
    ('[policy]\nbeat_s = 500', "beat_s = 500 must be above 0 and at most 110"),
    ('[policy]\nrules = "legaci"', 'did you mean "legacy"?'),
    ('[fleet]\ntarget = 1.5', "target must be a whole number"),
    ('[fleet]\ntarget = -1', "target = -1 must be at least 0"),
    ('[fleet]\ndeploy = [{ machine = 8, at = "0m" }]', 'machine 8 does not exist; known: 7'),
    ('[fleet]\ndeploy = [{ machine = 7, at = "batch+5s" }]', "an order follows no stage mark"),
    ('[fleet]\ndeploy = [{ machine = 7, on = "0m" }]', 'unknown key "on"'),
    ('[[fault]]\nkind = "tunel.down"', 'did you mean "tunnel.down"?'),
    ('[[fault]]\nkind = "tunnel.down"\nat = "25x"', 'unknown unit "x"'),
    ('[[fault]]\nkind = "tunnel.down"\nat = 25', "at = 25 has no unit"),
    ('[[fault]]\nkind = "tunnel.down"\nat = "bacth+5s"', 'did you mean "batch"?'),
    ('[[fault]]\nkind = "tunnel.down"\nfor = "always"', "host. and prover. kinds only"),
    ('[[fault]]\nkind = "prover.crash"\nfor = "5m"', "happens at once"),
    ('[[fault]]\nkind = "tunnel.down"\nmachine = 9', "machine 9 does not exist"),
    ('[[fault]]\nkind = "tunnel.down"\nhost_id = 70', "host_id is a scope for host. kinds only"),
    ('[[fault]]\nkind = "host.reboot"\nhost_id = 71', "host_id 71 owns no machine here"),
    ('[[fault]]\nkind = "host.reboot"\nhost_id = 70\nmachine = 7', "both machine and host_id"),
    ('[[fault]]\nkind = "host.throttle"\nfaktor = 0.5', 'unknown key "faktor"; did you mean "factor"?'),
    ('[[fault]]\nkind = "host.throttle"\nfactor = "half"', "is no number"),
    ('[[fault]]\nkind = "market.list_empty"\nhow = "row"', 'did you mean "rows"?'),
    ('[[fault]]\nkind = "host.neighbour"\ncpu_share = 1.5', "at most 1"),
    ('[[fault]]\nkind = "tunnel.down"\ntimes = 0', "times = 0 must be at least 1"),
    ('[[fault]]\nkind = "tunnel.down"\nevery = "0s"', "every must be above 0"),
    ('[[fault]]\nkind = "operator.target"', "lacks value"),
    ('[[fault]]\nkind = "operator.kill"', "lacks machine"),
    ('[[fault]]\nkind = "operator.policy"\nset = { silence_s = 1 }', "silence_s = 1 is below"),
    ('[[fault]]\nkind = "controller.crash"\npoint = "create.reply"', 'did you mean "create.replied"?'),
    ('[[fault]]\nkind = "controller.db_restored"\nage = 6', "has no unit"),
    ('[expect]\nviolations = ["INV-14"]', "is no invariant; did you mean"),
    ('[expect]\nchecks = ["len(rental) == 2"]', "did you mean `rentals`?"),
    ('[expect]\nchecks = ["open(\'x\')"]', "may only call"),
    ('[expect]\nchecks = ["1 +"]', "is no Python expression"),
    ('[[expect.rental]]\nmachine = 7\nends = "activ"', 'did you mean "active"?'),
    ('[[expect.rental]]\nmachine = 7\nkills = 2', "kills = 2 must be 0 or 1"),
    ('[[expect.rental]]\nmachine = 17', "machine 17 does not exist"),
    ('[market]\ncredit_usd = "many"', "is no number"),
])
def test_mistakes(text: str, says: str) -> None:
    assert says in complaint(text)


@pytest.mark.parametrize(("machine", "says"), [
    ("", "has no machine"),
    ('[[machine]]\nid = 7\nhost = 70', "price_usd_per_hour is missing"),
    ('[[machine]]\nhost = 70\nprice_usd_per_hour = 1', "id is missing"),
    (MACHINE + MACHINE, "machine 7 is also in [[machine]] 1"),
    (MACHINE + 'gpu_fraq = 0.5', 'did you mean "gpu_frac"?'),
    (MACHINE + 'gpu_frac = 2', "at most 1"),
    (MACHINE + 'cgroup_gib = "lots"', "is no number"),
    (MACHINE + 'first_sizing = { partition_workers = 3 }', "lacks concurrency"),
    (MACHINE + 'price_usd_per_hour = 1', "is no TOML"),
])
def test_mistakes_in_machines(machine: str, says: str) -> None:
    assert says in complaint("", machine)


def test_a_name_is_needed() -> None:
    with pytest.raises(ScenarioError, match="name is missing"):
        parse(MACHINE, "x.toml")


def test_ranges_are_drawn_from_the_seed_and_each_on_its_own() -> None:
    text = ('[[fault]]\nkind = "tunnel.down"\nat = "4h..4h2m"\nfor = "10m..50m"\n'
            '[[fault]]\nkind = "host.throttle"\nfactor = "0.5..0.9"\nat = "1h..2h"')
    found = scenario(text)
    one, again, other = resolve(found, 1), resolve(found, 1), resolve(found, 2)
    assert one == again != other
    at = one.faults[0].at_s
    assert type(at) is float and 14_400 <= at <= 14_520
    assert 0.5 <= one.faults[1].params["factor"] <= 0.9
    found.faults.pop(0)  # taking one away moves no other's dice
    assert resolve(found, 1).faults[0] == one.faults[1]
    assert parse(to_toml(one), "x.toml") == one


def test_random_machines_are_drawn_before_the_run() -> None:
    found = scenario("[market]\nmachines = 12")
    drawn = resolve(found, 3)
    assert len(drawn.machines) == 13 and drawn.random_machines == 0
    assert len({m.id for m in drawn.machines}) == 13
    assert drawn == resolve(found, 3)


@pytest.mark.parametrize("name", sorted(names()))
def test_every_scenario_file_reads_and_comes_back(name: str) -> None:
    found = load(name)
    assert found.name == name
    assert parse(to_toml(found), found.path) == found
    drawn = resolve(found, 1)
    assert parse(to_toml(drawn), drawn.path) == drawn


def test_find_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.find("m1475").name == "m1475.toml"
    with pytest.raises(ScenarioError, match='did you mean "m1475"'):
        files.find("m1457")
    with pytest.raises(ScenarioError, match="is a folder"):
        files.find(str(tmp_path))
    mine = tmp_path / "scenarios" / "mine.toml"
    mine.parent.mkdir()
    mine.write_text(f'name = "mine"\n{MACHINE}')
    monkeypatch.chdir(tmp_path)
    assert load("mine").name == "mine"
    assert load(str(mine)).name == "mine"


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load(path)
    path.write_text("name = ")
    with pytest.raises(ScenarioError, match="is no TOML"):
        load(path)


def test_a_policy_file(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("silence_s = 2400")
    assert files.read_policy(path) == {"silence_s": 2400}
    path.write_text("[policy]\nsilence_s = 2400")
    assert files.read_policy(path) == {"silence_s": 2400}
    path.write_text("silense_s = 2400")
    with pytest.raises(ScenarioError, match='did you mean "silence_s"'):
        files.read_policy(path)
    with pytest.raises(ScenarioError, match="no such policy file"):
        files.read_policy(tmp_path / "none.toml")
