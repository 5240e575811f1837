"""The ``[[fault]]`` tables of a scenario, checked against the catalogue."""

from __future__ import annotations

import difflib
from typing import Any

from proverfleet.domain.policy import Policy, PolicyError
from sim.faults.catalogue import KINDS, REQUIRED, Kind, Param
from sim.faults.catalogue import nearest as nearest_kind
from sim.faults.kinds import ANY, CARD, COUNT, DURATION, FLAG, NUMBER, TABLE
from sim.spec import FaultSpec, Scenario
from sim.table import Table, nearest, shown

COMMON_KEYS = ("kind", "at", "for", "times", "every", "machine", "host_id")
RHYTHM_MIN_S = 1.0
"""The shortest beat and report interval: below it a simulated hour takes a real one, and near 0 time stands still."""

NEEDS_MACHINE = ("operator.kill", "operator.blacklist", "operator.wrong_id")

EVERY_TIME = 1_000_000
"""``times`` of a kind of a moment that is the machine's nature: it comes back each time that its mark is reached."""


def read_fault(table: Table, index: int, scenario: Scenario) -> FaultSpec:
    """One fault with every parameter present. ``index`` is its place in the file."""
    name = table.text("kind")
    kind = KINDS.get(name)
    if kind is None:
        near = nearest_kind(name)
        table.fail(f'kind = "{name}" is no kind of fault; '
                   + (f'did you mean "{near}"?' if near else "see `sim faults`"))
    table.where += f" ({name})"
    fault = FaultSpec(kind=name, index=index)
    fault.mark, fault.at_s = table.moment("at", "0m")
    _duration(table, kind, fault)
    default_times = EVERY_TIME if fault.always and kind.moment else kind.times
    fault.times = table.count("times", None, least=1) if "times" in table else default_times
    if "every" in table:
        fault.every_s = table.as_duration("every", table.raw("every"))
        if fault.every_s <= 0:
            table.fail('every must be above 0; it is the time from start to start, as in "2h"')
    fault.machines = _scope(table, kind, scenario)
    fault.params = {p.name: _param(table, kind, p, scenario) for p in kind.params}
    table.finish(COMMON_KEYS)
    return fault


def _duration(table: Table, kind: Kind, fault: FaultSpec) -> None:
    value = table.raw("for")
    if value is None:
        fault.for_s = kind.for_s
    elif value == "always":
        if not kind.may_be_always:
            table.fail('for = "always" is for host. and prover. kinds only (the machine\'s own nature); '
                       "give a duration, or leave it out")
        fault.always, fault.for_s = True, kind.for_s
    else:
        fault.for_s = table.as_duration("for", value)
        if kind.moment and fault.for_s > 0:
            table.fail(f"for = {shown(value)}: {kind.name} happens at once and lasts no time; leave `for` out, "
                       "or repeat it with `times` or `every`")


def _scope(table: Table, kind: Kind, scenario: Scenario) -> list[int] | None:
    """Machine ids, or None for all of them."""
    one, host = table.raw("machine"), table.raw("host_id")
    if one is not None and host is not None:
        table.fail("names both machine and host_id; keep one")
    if host is not None:
        if kind.family != "host":
            table.fail(f"host_id is a scope for host. kinds only; name the machines of host {host} instead")
        out = []
        for h in _ids(table, "host_id", host):
            mine = [m.id for m in scenario.machines if m.host == h]
            if not mine:
                hosts = sorted({str(m.host) for m in scenario.machines})
                table.fail(f"host_id {h} owns no machine here; {nearest(str(h), hosts)}")
            out += mine
        return out
    if one is None:
        if kind.name in NEEDS_MACHINE:
            table.fail(f"lacks machine: {kind.name} is an order about one; write machine = ID")
        return None
    ids = _ids(table, "machine", one)
    known = [str(m.id) for m in scenario.machines]
    for machine in ids:
        if str(machine) not in known:
            table.fail(f"machine {machine} does not exist; "
                       + (nearest(str(machine), known) if known else "add a [[machine]] with that id"))
    return ids


def _ids(table: Table, name: str, value: Any) -> list[int]:
    ids = value if isinstance(value, list) else [value]
    if not ids or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        table.fail(f"{name} must be an id or a list of ids, not {shown(value)}")
    return list(dict.fromkeys(ids))


def _param(table: Table, kind: Kind, param: Param, scenario: Scenario) -> Any:
    value = table.raw(param.name)
    if value is None:
        if param.default is REQUIRED:
            table.fail(f"lacks {param.name}, which {kind.name} needs ({param.type}); see `sim faults {kind.name}`")
        return param.default
    if param.type == ANY:
        return None if value == "null" else _plain(table, param.name, value)
    if param.allowed:
        if value not in param.allowed or isinstance(value, bool):
            options = [str(a) for a in param.allowed]
            near = difflib.get_close_matches(str(value), options, 1, 0.6)
            mend = f'; did you mean "{near[0]}"?' if near else ""
            table.fail(f"{param.name} = {shown(value)} is not one of {', '.join(options)}{mend}")
        return value
    if param.type == NUMBER:
        return table.as_number(param.name, value, least=param.least, most=param.most)
    if param.type == COUNT:
        return table.as_count(param.name, value, least=param.least, most=param.most)
    if param.type == FLAG:
        return table.flag(param.name, False)
    if param.type == DURATION:
        return table.as_duration(param.name, value)
    if param.type == CARD:
        return value if value == "all" else table.as_count(param.name, value)
    if param.type == TABLE:
        return _policy_set(table, param.name, value, scenario)
    if not isinstance(value, str):
        table.fail(f"{param.name} must be text, not {shown(value)}")
    return value


def _policy_set(table: Table, name: str, value: Any, scenario: Scenario) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        table.fail(f"{name} must be an inline table of policy fields, as in {{ silence_s = 2400 }}")
    try:
        Policy.of({**scenario.policy, **value})
    except PolicyError as error:
        table.fail(f"{name}: {str(error).removeprefix('policy: ')}")
    check_rhythm(table, value)
    return dict(value)


def check_rhythm(table: Table, values: dict[str, Any]) -> None:
    """Fails on a beat or a report interval at which a run would not end."""
    for name in ("beat_s", "report_s"):
        value = values.get(name, RHYTHM_MIN_S)
        if getattr(value, "lo", value) < RHYTHM_MIN_S:
            table.fail(f"{name} = {shown(value)} must be at least {RHYTHM_MIN_S:g}: a run would not end")


def _plain(table: Table, name: str, value: Any) -> Any:
    """Any value that JSON holds too; a date of TOML's, or a number of 70 bits, no journal could."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _plain(table, name, part)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        table.fail(f"{name} = {shown(value)} has more than 64 bits")
    elif not isinstance(value, str | bool | int | float):
        table.fail(f"{name} = {shown(value)} must be text, a number, true, false, a list or a table")
    return value
