"""What all tests of the simulation share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from boxes import OPEN


@pytest.fixture(autouse=True)
def close_worlds() -> Iterator[None]:
    """Closes the worlds that a test opened through ``boxes.Box``."""
    yield
    while OPEN:
        OPEN.pop().close()
