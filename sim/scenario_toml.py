"""Writes a scenario back as TOML, so that what the swarm drew or the shrinker left can be stored, read and run.

``parse(to_toml(s))`` is ``s`` again; ``host_id`` scopes and ``count`` come back written out, machine by machine.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from sim.faults.catalogue import KINDS
from sim.scenario_faults import EVERY_TIME
from sim.spec import FaultSpec, MachineSpec, Scenario
from sim.units import Range, at_in_words, in_words

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def to_toml(scenario: Scenario) -> str:
    """The whole scenario as a file. What stands at its default is left out."""
    out = [f"name = {_text(scenario.name)}"]
    if scenario.about:
        out.append(f"about = {_text(scenario.about)}")
    if scenario.source:
        out.append(f"source = {_value(scenario.source)}")
    out.append(f"hours = {_value(scenario.hours)}")
    policy: dict[str, Any] = {"rules": scenario.rules} if scenario.rules != "default" else {}
    policy |= scenario.policy
    if policy:
        out += ["", "[policy]", *(f"{k} = {_value(v)}" for k, v in policy.items())]
    if scenario.legacy:
        out += ["", "[legacy]", *(f"{k} = {_value(v)}" for k, v in scenario.legacy.items())]
    out += ["", "[fleet]"]
    if scenario.target or not scenario.deploy:
        out.append(f"target = {_value(scenario.target)}")
    if scenario.deploy:
        out.append("deploy = [")
        for d in scenario.deploy:
            row: dict[str, Any] = {"machine": d.machine, "at": in_words(d.at_s)}
            row |= {k: getattr(d, k) for k in ("min_rate", "disk_gb", "bid_usd_per_hour") if getattr(d, k) is not None}
            out.append(f"  {_value(row)},")
        out.append("]")
    out += ["", "[market]", f"credit_usd = {_value(scenario.credit_usd)}"]
    if scenario.random_machines:
        out.append(f"machines = {_value(scenario.random_machines)}")
    for machine in scenario.machines:
        out += ["", "[[machine]]", *_machine(machine)]
    for fault in scenario.faults:
        out += ["", "[[fault]]", *_fault(fault)]
    out += _expect(scenario)
    return "\n".join(out) + "\n"


def _machine(machine: MachineSpec) -> list[str]:
    plain = MachineSpec(id=machine.id, host=machine.host)
    always = ("id", "host", "gpu", "ram_gib", "price_usd_per_hour", "gpu_ram_mb")
    out = []
    for f in fields(MachineSpec):
        value = getattr(machine, f.name)
        if f.name in always or value != getattr(plain, f.name):
            out.append(f"{f.name} = {_text('max') if value == float('inf') else _value(value)}")
    return out


def _fault(fault: FaultSpec) -> list[str]:
    kind = KINDS[fault.kind]
    out = [f"kind = {_text(fault.kind)}"]
    if fault.machines is not None:
        out.append(f"machine = {_value(fault.machines[0] if len(fault.machines) == 1 else fault.machines)}")
    out.append(f"at = {_text(at_in_words(fault.mark, fault.at_s))}")
    if fault.always:
        out.append('for = "always"')
    elif fault.for_s is not None and fault.for_s != kind.for_s:
        out.append(f"for = {_text(in_words(fault.for_s))}")
    if fault.times is not None and fault.times != (EVERY_TIME if fault.always and kind.moment else kind.times):
        out.append(f"times = {_value(fault.times)}")
    if fault.every_s is not None:
        out.append(f"every = {_text(in_words(fault.every_s))}")
    for param in kind.params:
        value = fault.params.get(param.name, param.default)
        if value == param.default and type(value) is type(param.default):
            continue
        if param.type == "duration":
            out.append(f"{param.name} = {_text(in_words(value))}")
        else:
            out.append(f"{param.name} = {_text('null') if value is None else _value(value)}")
    return out


def _expect(scenario: Scenario) -> list[str]:
    expect, out = scenario.expect, []
    if expect.violations or expect.checks:
        out += ["", "[expect]"]
        if expect.violations:
            out.append(f"violations = {_value(expect.violations)}")
        if expect.checks:
            out += ["checks = [", *(f"  {_text(c)}," for c in expect.checks), "]"]
    for rental in expect.rentals:
        out += ["", "[[expect.rental]]", f"machine = {rental.machine}"]
        if rental.ends is not None:
            out.append(f"ends = {_value(rental.ends[0] if len(rental.ends) == 1 else rental.ends)}")
        if rental.kills is not None:
            out.append(f"kills = {rental.kills}")
    return out


def _value(value: Any) -> str:
    if isinstance(value, Range):
        lo, hi = (str(int(e)) if value.whole else repr(e) for e in (value.lo, value.hi))
        return _text(f"{lo}..{hi}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    raise TypeError(f"a scenario cannot hold {value!r}")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(char, escaped)
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + '"'
