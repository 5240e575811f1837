"""One journal of each released version stays here and must fold, whatever became of the events since."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from proverfleet.domain import fold
from proverfleet.domain.codec import CodecError, event_from_dict

JOURNALS = sorted((Path(__file__).resolve().parents[2] / "data").glob("journal-*.jsonl.gz"))


@pytest.mark.parametrize("path", JOURNALS, ids=[p.name for p in JOURNALS])
def test_every_released_journal_folds(path: Path) -> None:
    fleet = fold.new_fleet()
    folded = 0
    with gzip.open(path) as lines:
        for line in lines:
            row = orjson.loads(line)
            if row.get("src") != "controller":
                continue
            row.pop("t", None)
            fold.apply(fleet, event_from_dict(row))
            folded += 1
    assert folded > 400
    ends = {r.machine_id: (r.stage, r.verdict) for r in fleet.rentals.values()}
    assert ends == {42011: ("active", ""), 42012: ("gone", "unfit")}


def test_what_the_world_knows_is_refused() -> None:
    with pytest.raises(CodecError, match="world"):
        event_from_dict({"src": "world", "seq": 1, "wall_ns": 1, "kind": "beat", "v": 1})
