"""Progress on stderr, where it takes long. No thread: the bar is drawn when somebody says how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sim.units import in_words

LOOK_S = 0.2
SHOWN_AFTER_S = 1.0  # what is done sooner needs no bar


@contextmanager
def bar(text: str) -> Iterator[Callable[[float, float, str], None]]:
    """``update(done, total, note)`` moves it. Draws nothing unless stderr is a terminal and it takes over a second."""
    console = Console(file=sys.stderr, stderr=True)
    if not console.is_terminal:
        yield lambda done, total, note: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, auto_refresh=False, transient=True)
    task = progress.add_task(text, total=None, note="")
    began = last = time.monotonic()
    shown = False

    def update(done: float, total: float, note: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        progress.update(task, completed=done, total=total, note=note)
        if now - last < LOOK_S or now - began < SHOWN_AFTER_S:
            return
        if not shown:
            shown = True
            progress.start()
        last = now
        progress.refresh()

    try:
        yield update
    finally:
        if shown:
            progress.stop()


@contextmanager
def of_run(name: str) -> Iterator[Callable[[float, float], None]]:
    """A run's bar, in simulated time."""
    with bar(name) as update:
        yield lambda done, planned: update(done, planned, f"{in_words(round(done))} of {in_words(round(planned))}")
