"""House rules that a machine can check. Each message says what to use instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = [p for top in ("src", "sim", "fakes", "reports") for p in sorted((ROOT / top).rglob("*.py"))]
PRODUCT = [p for p in CODE if p.is_relative_to(ROOT / "src") and "adapters" not in p.parts]
WORLD = [p for p in CODE if p.is_relative_to(ROOT / "sim")]

INSTEAD = {
    ("time", "time"): "Clock.wall_ns",
    ("time", "time_ns"): "Clock.wall_ns",
    ("time", "monotonic"): "Clock.monotonic_ns",
    ("time", "monotonic_ns"): "Clock.monotonic_ns",
    ("time", "perf_counter"): "Clock.monotonic_ns",
    ("time", "sleep"): "Clock.sleep",
    ("datetime", "now"): "Clock.wall_ns",
    ("datetime", "utcnow"): "Clock.wall_ns",
    ("os", "urandom"): "Entropy",
    ("uuid", "uuid4"): "Entropy.hex",
    ("uuid", "uuid1"): "Entropy.hex",
    ("asyncio", "TaskGroup"): "tasks awaited in order",
    ("asyncio", "wait"): "tasks awaited in order",
    ("asyncio", "as_completed"): "tasks awaited in order",
}
MODULES = {"random": "Entropy", "secrets": "Entropy", "threading": "tasks", "concurrent": "tasks"}

# Measures its own CPU and wall time beside the simulation, or is the place where real clocks are guarded.
REAL_CLOCK = {"run.py", "sweep.py", "tripwire.py", "cli.py", "progress.py"}


def calls(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = node.func.value
            if isinstance(base, ast.Name):
                yield node.lineno, base.id, node.func.attr
            elif isinstance(base, ast.Attribute):
                yield node.lineno, base.attr, node.func.attr


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module.split(".")[0]


def test_the_product_reads_no_clock_and_draws_no_dice_past_its_ports() -> None:
    found = []
    for path in PRODUCT:
        tree = ast.parse(path.read_text())
        for line, module, name in calls(tree):
            if (module, name) in INSTEAD:
                found.append(f"{path.relative_to(ROOT)}:{line}: {module}.{name}: use {INSTEAD[module, name]}")
        for line, module in imports(tree):
            if module in MODULES:
                found.append(f"{path.relative_to(ROOT)}:{line}: import {module}: use {MODULES[module]}")
    assert not found, "\n".join(found)


def test_the_world_reads_no_real_clock() -> None:
    found = []
    for path in WORLD:
        if path.name in REAL_CLOCK:
            continue
        for line, module, name in calls(ast.parse(path.read_text())):
            if module in ("time", "datetime", "uuid") and (module, name) in INSTEAD:
                found.append(f"{path.relative_to(ROOT)}:{line}: {module}.{name}: use the process's clock or a stream")
    assert not found, "\n".join(found)


def sets_iterated(tree: ast.AST) -> Iterator[int]:
    def is_set(node: ast.expr) -> bool:
        return isinstance(node, ast.Set | ast.SetComp) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset"))

    for node in ast.walk(tree):
        if (isinstance(node, ast.For) and is_set(node.iter)) or (
            isinstance(node, ast.comprehension) and is_set(node.iter)
        ):
            yield node.iter.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple") and (
                node.args and is_set(node.args[0])):
            yield node.lineno


def test_no_iteration_over_a_set_where_its_order_shows() -> None:
    found = [f"{p.relative_to(ROOT)}:{line}: iterates over a set: use sorted(...) or a dict"
             for p in CODE for line in sets_iterated(ast.parse(p.read_text()))]
    assert not found, "\n".join(found)


def test_files_and_functions_stay_small() -> None:
    found = []
    for path in CODE:
        text = path.read_text()
        lines = text.count("\n")
        if lines > 420:
            found.append(f"{path.relative_to(ROOT)}: {lines} lines: split it where two ideas share it")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > 65:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {size} lines: split it")
    assert not found, "\n".join(found)


def test_every_rule_says_what_it_protects() -> None:
    rules = sorted((ROOT / "src/proverfleet/domain/rules").glob("*.py"))
    assert len(rules) > 15
    silent = [p.name for p in rules if not ast.get_docstring(ast.parse(p.read_text())) and p.read_text().strip()]
    assert not silent, f"rules without a docstring: {silent}"


def test_the_lock_file_names_no_registry() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text and "--index" not in text and "--find-links" not in text
