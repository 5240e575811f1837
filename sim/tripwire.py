"""A tripwire around virtual time: whoever reaches past the Clock and Entropy ports while a simulation runs is named.

Out of scope: names bound before the run (``from time import monotonic``) and ``datetime.now``, which is C and cannot
be replaced on the class. tests/unit/test_house.py bans both in the source.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from sim.loop import VirtualLoop

real_process_time = time.process_time
"""CPU seconds of this process, as they were before any tripwire."""
real_perf_counter = time.perf_counter
"""Wall seconds, likewise."""

HARMLESS = frozenset({"logging", "warnings", "traceback", "linecache", "importlib._bootstrap_external", "tempfile"})
"""Modules that may ask: what they learn goes into log records and caches, never into a decision (measured: a run's hash
is the same with and without them)."""

STEPS_ON_THE_WAY = frozenset({"random", "secrets", "uuid", "os", "threading"})
"""Modules that only pass the question on: their caller is named."""

SECRETS = ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice")
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")
DICE = (
    "random", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform", "gauss", "expovariate",
    "betavariate", "triangular", "normalvariate", "getrandbits", "randbytes", "seed",
)


class Tripwire(BaseException):
    """Code under simulation used a real clock, real entropy or a thread. Not an Exception: no net may catch it."""


def _wrap(name: str, real: Callable[..., Any], loop: VirtualLoop, thread: int, instead: str) -> Callable[..., Any]:
    def tripped(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        module = caller.f_globals.get("__name__", "?")
        if module in HARMLESS or threading.get_ident() != thread:
            return real(*args, **kwargs)
        return _trip(name, caller, loop, instead)

    return tripped


def _trip(name: str, caller: Any, loop: VirtualLoop, instead: str) -> NoReturn:
    while caller.f_globals.get("__name__") in STEPS_ON_THE_WAY and caller.f_back is not None:
        caller = caller.f_back
    where = f"{caller.f_globals.get('__name__', '?')}.{caller.f_code.co_name}, line {caller.f_lineno}"
    wire = Tripwire(f"{name} called under simulation by {where}: use {instead}")
    loop.fail("tripwire", wire)
    raise wire


def _unseeded(loop: VirtualLoop, thread: int) -> Callable[..., None]:
    real = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        caller = sys._getframe(1)
        if a is None and threading.get_ident() == thread and caller.f_globals.get("__name__") not in HARMLESS:
            _trip("random.Random() without a seed", caller, loop, "a named stream (sim/streams.py)")
        real(self, a, version)

    return seed


@contextmanager
def armed(loop: VirtualLoop) -> Iterator[None]:
    """While inside, real clocks, real entropy and new threads raise Tripwire in this thread and end ``loop``'s run."""
    thread = threading.get_ident()
    clock, entropy = "the Clock port", "the Entropy port or a named stream"
    places: list[tuple[Any, str, str, str]] = [(time, n, f"time.{n}", clock) for n in CLOCKS]
    places += [(random, n, f"random.{n}", entropy) for n in DICE]
    places += [
        (random, "_urandom", "os.urandom", entropy),
        (os, "urandom", "os.urandom", entropy),
        (os, "getrandom", "os.getrandom", entropy),
        (uuid, "uuid1", "uuid.uuid1", entropy),
        (uuid, "uuid4", "uuid.uuid4", entropy),
        (threading.Thread, "start", "threading.Thread.start", "a task"),
    ]
    if "secrets" in sys.modules:
        secrets = sys.modules["secrets"]
        places += [(secrets, n, f"secrets.{n}", entropy) for n in SECRETS]
    before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _, _ in places]
    seed_before = random.Random.seed
    try:
        for owner, attribute, name, instead in places:
            setattr(owner, attribute, _wrap(name, getattr(owner, attribute), loop, thread, instead))
        random.Random.seed = _unseeded(loop, thread)  # type: ignore[method-assign]
        yield
    finally:
        for owner, attribute, real in before:
            setattr(owner, attribute, real)
        random.Random.seed = seed_before  # type: ignore[method-assign]
