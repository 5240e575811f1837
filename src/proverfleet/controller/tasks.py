"""Tasks of the shell: started through one function, so that the test-bed knows whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Say = Callable[[str, str], None]
"""``say(name, text)``: something that an operator should find in the log."""


class Spawn(Protocol):
    def __call__(self, coro: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]: ...


_KEPT: dict[int, asyncio.Task[Any]] = {}


def spawn(coro: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """A plain task of the running loop, kept until it is done (the loop alone would let it be collected)."""
    task = asyncio.get_running_loop().create_task(coro, name=name)
    _KEPT[id(task)] = task
    task.add_done_callback(lambda done: _KEPT.pop(id(done), None))
    return task


def silent(name: str, text: str) -> None:
    """Says nothing: for tests and the test-bed, where the journal tells all."""
