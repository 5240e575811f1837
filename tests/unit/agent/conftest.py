"""Closes the loops of the boxes that a test opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agent_box import OPEN


@pytest.fixture(autouse=True)
def closed_boxes() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()
