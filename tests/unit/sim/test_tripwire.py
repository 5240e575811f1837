"""Code under simulation that reaches past its ports is named, and no net catches it."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Callable

import pytest

from sim.loop import NS, RunFailed, VirtualLoop
from sim.tripwire import Tripwire, armed

REACHES: list[tuple[str, Callable[[], object]]] = [
    ("time.time", lambda: time.time()),
    ("time.monotonic", lambda: time.monotonic()),
    ("time.sleep", lambda: time.sleep(0)),
    ("random.random", lambda: random.random()),
    ("random.Random", lambda: random.Random()),
    ("os.urandom", lambda: random.SystemRandom().random()),
    ("os.urandom", lambda: os.urandom(4)),
    ("uuid.uuid4", lambda: uuid.uuid4()),
    ("Thread.start", lambda: threading.Thread(target=print).start()),
]


@pytest.mark.parametrize(("name", "reach"), REACHES)
def test_each_reach_ends_the_run_and_names_the_caller(name: str, reach: Callable[[], object]) -> None:
    loop = VirtualLoop()

    def callback() -> None:
        try:
            reach()
        except Exception:
            pytest.fail("an ordinary net caught it")

    loop.call_later(1.0, callback)
    with armed(loop), pytest.raises(RunFailed, match=f"{name}.*called under simulation by") as caught:
        loop.run_until(2 * NS)
    assert isinstance(caught.value.__cause__, Tripwire)
    assert "test_tripwire" in str(caught.value)


def test_seeded_streams_and_log_records_pass_and_all_is_put_back() -> None:
    before = (time.time, random.random, os.urandom, random.Random.seed, threading.Thread.start)
    loop = VirtualLoop()
    with armed(loop):
        assert random.Random("1:x").random() == random.Random("1:x").random()
        logging.getLogger("proverfleet.test").warning("harmless")
    assert before == (time.time, random.random, os.urandom, random.Random.seed, threading.Thread.start)
    assert not loop.failures
