"""Named dice. Each name has its own stream, so that leaving one thing out does not move the dice of another."""

from __future__ import annotations

import random


class Streams:
    """``get("host:42011")`` is always the same stream of this seed: ``Random(f"{seed}:host:42011")``."""

    __slots__ = ("_streams", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def get(self, name: str) -> random.Random:
        """The stream called ``name``; made on first use, going on where it was afterwards."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = random.Random(f"{self.seed}:{name}")
        return stream

    def fresh(self, name: str) -> random.Random:
        """A stream of its own that is not kept: for names that are used once."""
        return random.Random(f"{self.seed}:{name}")


class StreamEntropy:
    """The Entropy port on a stream."""

    __slots__ = ("_stream",)

    def __init__(self, stream: random.Random) -> None:
        self._stream = stream

    def random(self) -> float:
        return self._stream.random()

    def hex(self, digits: int) -> str:
        return f"{self._stream.getrandbits(4 * digits):0{digits}x}"
