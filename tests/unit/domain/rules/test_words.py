"""Every end that a rule can ask for uses a verdict and a cause of the closed lists, and its rule's own name."""

from __future__ import annotations

import ast
from pathlib import Path

import proverfleet.domain.rules
from proverfleet.domain.lifecycle import CAUSES, VERDICTS

RULES = sorted(Path(proverfleet.domain.rules.__path__[0]).glob("*.py"))


def test_verdicts_and_causes_are_of_the_closed_lists():
    checked = 0
    for path in RULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "end"):
                continue
            for arg, allowed in ((node.args[2], VERDICTS), (node.args[3], CAUSES)):
                if isinstance(arg, ast.Constant):
                    checked += 1
                    assert arg.value in allowed, f"{path.name}:{node.lineno}: {arg.value!r}"
    assert checked > 40


def test_every_rule_is_named_after_its_file():
    for path in RULES:
        names = [n.value.value for n in ast.parse(path.read_text()).body
                 if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "RULE"]
        assert not path.read_text().strip() or names == [path.stem], path.name
