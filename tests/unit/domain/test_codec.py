from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from proverfleet.domain import codec
from proverfleet.domain.events import Beat, Event, EventBody, Reported
from proverfleet.domain.report import GpuFact
from tests.builders import report
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


USUAL = report("hello", token="", backlog=0, attempt=0, proofs_failed=0, starved_s=0.0, restarts_agent=0,
               restarts_prover=0, restarts_container=0, last_completions=(), gpus=(GpuFact("GPU-1"),))


@pytest.mark.parametrize("changes", [
    {}, {"token": "t"}, {"backlog": 3, "attempt": 1}, {"starved_s": 0.5, "restarts_prover": 2}, {"gpus": None},
    {"gpus": ()}, {"gpus": (GpuFact("a", "RTX", 1, 0.0, 0.0, 0.0, 0, 0.0), GpuFact("b"))}, {"rpc_ok": False},
    {"rss_gib": 0.0, "p": 0, "limit_gib": None}, {"acks": ("x",), "waiting": "retry", "digests_differ": True},
])
def test_a_report_loses_nothing_by_what_the_journal_leaves_out(changes: dict[str, Any]) -> None:
    made = dataclasses.replace(USUAL, **changes)
    line = json.loads(json.dumps(codec.event_to_dict(Event(1, 2, Reported(made)))))
    assert not {"exit", "params_error"} & line["report"].keys() and line["v"] == 2
    back = codec.event_from_dict(line).body
    assert isinstance(back, Reported) and back.report == made


def test_a_report_of_version_1_had_every_field_and_comes_back() -> None:
    line = {"seq": 1, "wall_ns": 2, "kind": "reported", "v": 1, **codec.body_to_dict(Reported(USUAL))}
    assert codec.event_from_dict(json.loads(json.dumps(line))).body == Reported(USUAL)


def test_a_report_that_is_none_or_lacks_what_has_no_usual_value_is_refused() -> None:
    line = codec.event_to_dict(Event(1, 2, Reported(USUAL)))
    with pytest.raises(codec.CodecError, match="must be an object"):
        codec.event_from_dict({**line, "report": 7})
    with pytest.raises(codec.CodecError, match="'seq' is missing"):
        codec.event_from_dict({**line, "report": {k: v for k, v in line["report"].items() if k != "seq"}})
