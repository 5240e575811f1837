from __future__ import annotations

import json
from typing import Any

import pytest

from proverfleet.domain import codec
from proverfleet.domain.events import Beat, Event, EventBody
from tests.unit.domain.bodies import BODIES


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.KIND)
def test_every_kind_comes_back_as_it_was(body: EventBody) -> None:
    event = Event(7, 1_780_000_000_000_000_000, body)
    line = json.loads(json.dumps(codec.event_to_dict(event)))
    assert (line["kind"], line["v"]) == (body.KIND, body.V)
    back = codec.event_from_dict(line)
    assert back == event
    assert type(back.body) is type(body)


def test_the_samples_name_every_kind() -> None:
    assert {b.KIND for b in BODIES} == set(codec.KINDS)


def line(**changes: Any) -> dict[str, Any]:
    return {**codec.event_to_dict(Event(3, 5, Beat(1, 2, False, True, True, 0.5, ("a",)))), **changes}


@pytest.mark.parametrize(("changes", "words"), [
    ({"src": "world"}, "world's stream"), ({"kind": "beet"}, "unknown kind 'beet'"), ({"v": 99}, "upgrade it"),
    ({"v": 0}, "no lift is known"), ({"seq": "3"}, "seq must be a whole number"),
    ({"gap": 1}, "beat.gap: must be bool"),
    ({"draw": "x"}, "beat.draw: must be a number"), ({"extra": 1}, "unknown field 'extra'"),
    ({"ids": [1]}, "beat.ids: must be str"), ({"v": True}, "v must be a whole number"),
])
def test_what_is_no_event_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(codec.CodecError, match=words):
        codec.event_from_dict(line(**changes))


def test_a_missing_field_is_named() -> None:
    short = line()
    del short["draw"]
    with pytest.raises(codec.CodecError, match="line 3: beat: field 'draw' is missing"):
        codec.event_from_dict(short)


def test_an_old_version_is_lifted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def lift(fields: dict[str, Any]) -> dict[str, Any]:
        return {**{k: v for k, v in fields.items() if k != "id"}, "ids": [fields["id"]]}

    monkeypatch.setitem(codec.LIFTS, ("beat", 0), lift)
    old = line(v=0)
    old["id"] = old.pop("ids")[0]
    assert codec.event_from_dict(old).body == Beat(1, 2, False, True, True, 0.5, ("a",))
