"""The pull of an image: layers of equal size at a rate that changes, computed when somebody looks.

Out of scope: layers that are on the machine already, parallel layers, unpacking as a phase of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

NS = 1_000_000_000
LAYERS = 12
SHOW_S = 60.0  # the text moves at least this often while bytes arrive


@dataclass(slots=True)
class Pull:
    """``left_s``: seconds that the rest takes at the offer's own bandwidth; ``rate``: the share of it there is."""

    whole_s: float
    left_s: float
    at: int
    rate: float = 1.0

    @property
    def done(self) -> bool:
        return self.left_s <= 0.0

    def advance(self, now: int) -> None:
        if now > self.at:
            self.left_s = max(0.0, self.left_s - self.rate * (now - self.at) / NS)
            if self.left_s < 1e-9:
                self.left_s = 0.0
            self.at = now

    def next_ns(self) -> int | None:
        """ns until the text must move again: the next layer, the end, or a minute. None: nothing moves."""
        if self.rate <= 0.0:
            return None
        layer_s = self.whole_s / LAYERS
        to_layer = self.left_s % layer_s or layer_s
        return max(1, ceil(min(to_layer / self.rate, SHOW_S) * NS))

    def text(self) -> str:
        """The status text, as the market shows it."""
        share = 1.0 - self.left_s / self.whole_s if self.whole_s > 0 else 1.0
        layer = min(LAYERS, int(share * LAYERS + 1e-9) + 1)
        return f"pulling image: layer {layer} of {LAYERS} ({100 * share:.1f} %)"
