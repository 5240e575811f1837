"""Checks over the result: what they may say, and that a false one or an error in it is named."""

from __future__ import annotations

from typing import Any

import pytest

from sim.expect import CheckError, compile_check, evaluate, failures
from sim.spec import Expect, ExpectRental

RESULT: dict[str, Any] = {
    "verdict": "ok",
    "violations": [{"invariant": "INV-1"}],
    "rentals": [
        {"machine_id": 7, "stage": "gone", "verdict": "slow", "reason": "too slow", "kills": 1, "cost_usd": 0.5,
         "stages_s": {"setup": 10.0, "benchmark": 70.0}},
        {"machine_id": 8, "stage": "active", "verdict": None, "reason": "", "kills": 0, "cost_usd": 0.25,
         "stages_s": {}},
        {"machine_id": 7, "stage": "active", "verdict": None, "reason": "", "kills": 0, "cost_usd": 0.0,
         "stages_s": {}},
    ],
    "money": {"leaked_usd": 0.05, "usd_per_proof": None},
    "faults": {"tunnel.down": 1},
    "kills": {"total": 1, "by_verdict": {"slow": 1}},
}


@pytest.mark.parametrize("text", [
    "money.leaked_usd <= 0.10",
    "len(rentals) == 3",
    "faults['tunnel.down'] == 1",
    "kills.by_verdict.slow == 1",
    "all(r.stage in ('active', 'gone') for r in rentals)",
    "any(r.verdict == 'slow' for r in rentals)",
    "sum(r.cost_usd for r in rentals) == 0.75",
    "max([r.cost_usd for r in rentals], default=0) == 0.5",
    "sorted(r.machine_id for r in rentals) == [7, 7, 8]",
    "sorted([3, 1, 2], reverse=True) == [3, 2, 1]",
    "rentals[0].stages_s.benchmark - rentals[0].stages_s.setup == 60",
    "rentals[-1].machine_id == 7 and not rentals[1].kills",
    "len(rentals[:2]) == 2",
    "money.usd_per_proof is None or money.usd_per_proof < 1",
    "0 < kills.total <= 1",
    "len({r.machine_id for r in rentals}) == 2",
    "len({r.machine_id: 1 for r in rentals}) == 2",
    "[a + b for a, b in [(1, 2)]] == [3]",
    "(1 if kills.total else 2) == 1",
    "min(len(rentals), 2) % 2 == 0 and 7 // 2 == 3 and -1 < 0",
])
def test_true_checks(text: str) -> None:
    assert evaluate(text, RESULT)


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "open('x')", "rentals.append(1)", "().__class__.__mro__", "lambda: 1",
    "(x := 1)", "f'{kills}'", "print(1)", "eval('1')", "rentals[0].keys()", "2 ** 10", "all", "len = 3", "import os",
    "sorted(rentals, key=len)", "nobody", "await x", "[x async for x in rentals]",
])
def test_what_a_check_may_not(text: str) -> None:
    with pytest.raises(CheckError):
        compile_check(text)


@pytest.mark.parametrize(("text", "says"), [
    ("money.leakt_usd < 1", "there is `leaked_usd`"),
    ("rentals[5].stage == 'active'", "there are only 3"),
    ("money.usd_per_proof < 1", "is null"),
    ("rentals.stage == 1", "has no keys"),
    ("faults['tunnel.flap'] == 1", "is not there"),
    ("kills.total / 0 == 1", "ZeroDivisionError"),
    ("'x' * 1000000000 == ''", "not a number"),
    ("money.__class__ == 1", "may not"),
    ("marks.active == 1", "has no `marks`"),
])
def test_errors_are_named(text: str, says: str) -> None:
    with pytest.raises(CheckError, match=None) as caught:
        evaluate(text, RESULT)
    assert says in str(caught.value)


def test_a_false_check_says_what_it_saw() -> None:
    found = failures(Expect(checks=["kills.total == 2", "len(rentals) > 5", "money.leakt == 1"]), RESULT)
    assert found[0] == "kills.total == 2 (it is 1)"
    assert found[1] == "len(rentals) > 5 (it is 3)"
    assert found[2].startswith("money.leakt == 1: `money.leakt` is not there")


def test_expected_violations_must_appear() -> None:
    assert failures(Expect(violations=["INV-1"]), RESULT) == []
    assert failures(Expect(violations=["INV-2"]), RESULT) == ["violations: INV-2 was expected and did not appear"]


def test_rentals_match_by_machine_in_order() -> None:
    good = Expect(rentals=[ExpectRental(7, ["slow"], 1), ExpectRental(8, ["active"], 0), ExpectRental(7, None, 0)])
    assert failures(good, RESULT) == []
    bad = Expect(rentals=[ExpectRental(7, ["active"], 0), ExpectRental(8, None, None), ExpectRental(8)])
    assert failures(bad, RESULT) == [
        "rental 1 of machine 7: ends = active expected, it is slow (too slow)",
        "rental 1 of machine 7: kills = 0 expected, it is 1",
        "rental 2 of machine 8: expected, there are only 1",
    ]
