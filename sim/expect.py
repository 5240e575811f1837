"""The ``[expect]`` block: invariants that must break, checks over the ``--json`` object, rentals that must end so.

A check is a Python expression read by an interpreter of its own (never ``eval``): attributes and indexes of the object,
comparison, arithmetic, comprehensions, and the functions all, any, len, max, min, sorted, sum. Nothing else exists.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from proverfleet.domain.lifecycle import STAGES, VERDICTS
from sim.spec import Expect, ExpectRental

INVARIANTS = (*(f"INV-{i}" for i in range(1, 14)), "LIVE-1")
TOP_KEYS = (
    "scenario", "seed", "adapter", "policy", "simulated_s", "wall_s", "cpu_s", "speed", "events", "journal_sha256",
    "verdict", "violations", "failed_checks", "at_stake", "rentals", "kills", "blacklist", "history", "money",
    "faults", "fired", "marks", "alerts", "brakes", "contracts", "calls", "work", "controller",
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "all": all, "any": any, "len": len, "max": max, "min": min, "sorted": sorted, "sum": sum,
}
_POWER_FREE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos,
}
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Call, ast.Name,
    ast.Load, ast.Store, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.keyword,
    *_POWER_FREE, *_COMPARE, *_UNARY,
)


STEPS_MAX = 1_000_000
SIZE_MAX = 1_000_000
"""How much one check may work, and how long a list or text (and, in bits, a number) may become in it."""
_STEPS = " steps"  # the count of its steps, under a name that no check can write


class CheckError(ValueError):
    """A check that cannot be evaluated: says why, in a few words."""


def invariants() -> tuple[str, ...]:
    return INVARIANTS


def endings() -> tuple[str, ...]:
    """What ``ends`` may say: a verdict once ended, a stage before."""
    return (*STAGES, *VERDICTS)


# ---------------------------------------------------------------- checks


def compile_check(text: str) -> ast.expr:
    """The parsed check. CheckError where it is no expression, or uses what a check may not."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CheckError(f"is no Python expression ({getattr(error, 'msg', error)})") from None
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    called = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise CheckError(f"uses {type(node).__name__}, which a check may not")
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise CheckError(f"calls `{ast.unparse(node.func)}`; a check may only call {', '.join(FUNCTIONS)}")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise CheckError(f"reads `{node.attr}`, which a check may not")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in FUNCTIONS and node not in called:
                raise CheckError(f"uses `{node.id}` without calling it")
            if node.id not in FUNCTIONS and node.id not in TOP_KEYS and node.id not in bound:
                near = difflib.get_close_matches(node.id, TOP_KEYS, 1, 0.5)
                mend = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(TOP_KEYS)}"
                raise CheckError(f"knows no `{node.id}`; {mend}")
        if isinstance(node, ast.comprehension) and node.is_async:
            raise CheckError("uses an async comprehension, which a check may not")
    return tree.body


def evaluate(text: str, result: Mapping[str, Any]) -> Any:
    """The value of a check over the ``--json`` object. CheckError says what went wrong."""
    node = compile_check(text)
    try:
        value = _value(node, {**result, _STEPS: [0]})
        if isinstance(value, Iterator):  # true whatever comes out of it
            raise CheckError("is only a generator; write all(...) or any(...) around it")
        return value
    except CheckError:
        raise
    except (TypeError, IndexError, ValueError, ZeroDivisionError, OverflowError, KeyError, RecursionError) as error:
        why = "a value in it is null" if "NoneType" in str(error) else f"{type(error).__name__}: {error}"
        raise CheckError(why) from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise CheckError(f"the result has no `{name}`")
            return names[name]
        case ast.Attribute(value=base, attr=name):
            return _key(_value(base, names), name, node)
        case ast.Subscript(value=base, slice=index):
            return _index(_value(base, names), index, names, node)
        case ast.BoolOp(op=op, values=values):
            return _bool(isinstance(op, ast.And), values, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _arith(op, _value(left, names), _value(right, names))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, names))
        case ast.Compare():
            return _compared(node, names)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            given = {k.arg: _value(k.value, names) for k in keywords if k.arg}
            return FUNCTIONS[name](*[_value(a, names) for a in args], **given)
        case ast.List(elts=elts):
            return [_value(e, names) for e in elts]
        case ast.Tuple(elts=elts):
            return tuple(_value(e, names) for e in elts)
        case ast.Set(elts=elts):
            return {_value(e, names) for e in elts}
        case ast.Dict(keys=keys, values=values):
            return {_value(k, names): _value(v, names) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.ListComp(elt=elt, generators=gens):
            return [_value(elt, inner) for inner in _bound(gens, names)]
        case ast.GeneratorExp(elt=elt, generators=gens):
            return (_value(elt, inner) for inner in _bound(gens, names))
        case ast.SetComp(elt=elt, generators=gens):
            return {_value(elt, inner) for inner in _bound(gens, names)}
        case ast.DictComp(key=key, value=value, generators=gens):
            return {_value(key, inner): _value(value, inner) for inner in _bound(gens, names)}
    raise CheckError(f"uses {type(node).__name__}, which a check may not")


def _bool(every: bool, values: list[ast.expr], names: Mapping[str, Any]) -> Any:
    value: Any = every
    for node in values:
        value = _value(node, names)
        if bool(value) != every:
            break
    return value


def _arith(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Mult | ast.Mod) and not (isinstance(left, int | float) and isinstance(right, int | float)):
        raise CheckError("multiplies what is not a number")  # "x" * 10**9 would eat the memory
    value = _POWER_FREE[type(op)](left, right)
    size = value.bit_length() if isinstance(value, int) else len(value) if isinstance(value, list | tuple | str) else 0
    if size > SIZE_MAX:
        raise CheckError("becomes too large")
    return value


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, names)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def _key(base: Any, name: str, node: ast.expr) -> Any:
    if isinstance(base, Mapping):
        if name in base:
            return base[name]
        near = difflib.get_close_matches(name, [str(k) for k in base], 1, 0.5)
        raise CheckError(f"`{ast.unparse(node)}` is not there" + (f"; there is `{near[0]}`" if near else ""))
    raise CheckError(f"`{ast.unparse(node)}`: a {type(base).__name__} has no keys")


def _index(base: Any, index: ast.expr, names: Mapping[str, Any], node: ast.expr) -> Any:
    if isinstance(index, ast.Slice):
        ends = [None if e is None else _value(e, names) for e in (index.lower, index.upper, index.step)]
        return base[slice(*ends)]
    key = _value(index, names)
    if isinstance(base, Mapping):
        return _key(base, str(key), node)
    try:
        return base[key]
    except IndexError:
        raise CheckError(f"`{ast.unparse(node)}`: there are only {len(base)}") from None


def _bound(gens: list[ast.comprehension], names: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if not gens:
        yield names
        return
    first, rest = gens[0], gens[1:]
    for item in _value(first.iter, names):
        names[_STEPS][0] += 1
        if names[_STEPS][0] > STEPS_MAX:
            raise CheckError(f"takes more than {STEPS_MAX:,} steps")
        inner = {**names, **_targets(first.target, item)}
        if all(_value(test, inner) for test in first.ifs):
            yield from _bound(rest, inner)


def _targets(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple | ast.List):
        out: dict[str, Any] = {}
        for part, value in zip(target.elts, item, strict=True):
            out.update(_targets(part, value))
        return out
    raise CheckError("binds something that is no name")


# ---------------------------------------------------------------- the whole block


def failures(expect: Expect, result: Mapping[str, Any]) -> list[str]:
    """What the result does not keep of ``expect``, a line each, in the order of the file; empty when all holds."""
    out: list[str] = []
    broken = {v["invariant"] for v in result["violations"]}
    out += [f"violations: {name} was expected and did not appear" for name in expect.violations if name not in broken]
    for text in expect.checks:
        try:
            if not evaluate(text, result):
                out.append(f"{text}{_seen(text, result)}")
        except CheckError as error:
            out.append(f"{text}: {error}")
    nth: dict[int, int] = {}
    for wanted in expect.rentals:
        number = nth[wanted.machine] = nth.get(wanted.machine, 0) + 1
        out += _rental(wanted, number, result)
    return out


def _seen(text: str, result: Mapping[str, Any]) -> str:
    """What stood on the left of a simple comparison, so that a failed check says what it saw."""
    node = compile_check(text)
    if not isinstance(node, ast.Compare) or isinstance(node.left, ast.Constant):
        return ""
    try:
        value = _value(node.left, {**result, _STEPS: [0]})
    except (CheckError, TypeError, ValueError):
        return ""
    return f" (it is {value!r})" if isinstance(value, int | float | str | None) else ""


def _rental(wanted: ExpectRental, number: int, result: Mapping[str, Any]) -> list[str]:
    rows = [r for r in result["rentals"] if r["machine_id"] == wanted.machine]
    name = f"rental {number} of machine {wanted.machine}"
    if len(rows) < number:
        return [f"{name}: expected, there are only {len(rows)}"]
    row, out = rows[number - 1], []
    end = row["verdict"] or row["stage"]
    if wanted.ends is not None and end not in wanted.ends:
        why = f" ({row['reason']})" if row["reason"] else ""
        out.append(f"{name}: ends = {' or '.join(wanted.ends)} expected, it is {end}{why}")
    if wanted.kills is not None and row["kills"] != wanted.kills:
        out.append(f"{name}: kills = {wanted.kills} expected, it is {row['kills']}")
    return out
