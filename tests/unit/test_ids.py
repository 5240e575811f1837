"""A host where a machine belongs is a type error, and a look-alike mark is no mark."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

from proverfleet.domain.ids import FleetId, IntentId, mark, parse_mark

ROOT = Path(__file__).resolve().parents[2]


def test_mypy_refuses_a_host_where_a_machine_belongs(tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(
        "from proverfleet.domain.ids import HostId, MachineId\n"
        "from proverfleet.domain.events import Blacklisted\n"
        "good = Blacklisted('r', MachineId(1), 'x', None, False)\n"
        "bad = Blacklisted('r', HostId(1), 'x', None, False)\n"
    )
    out, _, status = api.run(["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache"),
                              "--no-incremental", str(probe)])
    assert status == 1
    assert [line.split(":")[1] for line in out.splitlines() if "error" in line and "HostId" in line] == ["4"], out


@pytest.mark.parametrize("label", [None, "", "pf", "pf.", "pf.abcd", "pf.abcd.ef01 ", " pf.abcd.ef01", "pf.abcd.ef01.x",
                                   "xpf.abcd.ef01", "pf.ABCD.ef01", 7, ["pf.abcd.ef01"], "pf.abcd.ef01\n"])
def test_look_alikes_are_no_mark(label: object) -> None:
    assert parse_mark(label) is None


def test_a_mark_comes_back_as_it_went() -> None:
    assert parse_mark(mark(FleetId("abcd"), IntentId("ef01"))) == ("abcd", "ef01")
