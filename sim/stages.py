"""Where a rental's stages begin, for the world's marks: at the calls by which its agent begins them.

``params``: the first fetch is asked for; ``warmup``, ``batch``, ``active``: the prover is asked for it; ``draining``:
the agent notes down that it drains (a prover is also drained to change its size); ``registered``: the first report was
served. A retry reaches its marks again.
Out of scope: requested, created, destroying, gone (the market's), running (the container's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.truth import STAGES

if TYPE_CHECKING:
    from sim.container import Container

LATER = STAGES[STAGES.index("registered") + 1 : STAGES.index("destroying")]


class StagedProver:
    """The Prover port of a container, with marks."""

    __slots__ = ("_container", "drain", "has_pce_cache", "start", "status", "stop")

    def __init__(self, container: Container) -> None:
        self._container = container
        prover = container.prover
        # Passed on as they are: status is asked twice a minute by every agent, and a wrapper would cost more than it.
        self.start: Any = prover.start
        self.stop: Any = prover.stop
        self.drain: Any = prover.drain
        self.status: Any = prover.status
        self.has_pce_cache: Any = prover.has_pce_cache

    async def warm_up(self) -> None:
        await self._container.prover.warm_up()
        self._mark("warmup")

    async def batch(self, count: int, concurrency: int) -> None:
        await self._container.prover.batch(count, concurrency)
        self._mark("batch")

    async def work(self) -> None:
        await self._container.prover.work()
        self._mark("active")

    def _mark(self, name: str) -> None:
        self._container.world.mark(name, self._container.contract_id)


class StagedParams:
    """The Params port of a container, with its mark."""

    __slots__ = ("_container", "status")

    def __init__(self, container: Container) -> None:
        self._container = container
        self.status: Any = container.params.status

    async def fetch(self) -> None:
        container = self._container
        await container.params.fetch()
        if "params" not in container.truth.marks:
            container.world.mark("params", container.contract_id)


class StagedState:
    """The StateFile port: a small file on the container's disk, with the mark of the stage that no port begins."""

    __slots__ = ("_container", "_stage")

    def __init__(self, container: Container) -> None:
        self._container = container
        self._stage = (container.disk.get("agent") or {}).get("stage")

    def load(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._container.disk.get("agent")
        return dict(found) if found is not None else None

    def save(self, data: dict[str, Any]) -> None:
        self._container.disk["agent"] = data
        stage = data.get("stage")
        if stage != self._stage:
            self._stage = stage
            if stage == "draining":
                self._container.world.mark("draining", self._container.contract_id)


def registered(container: Container) -> None:
    """Its first report was served. One that comes late changes nothing about the stage that is under way."""
    truth, world = container.truth, container.world
    if "registered" in truth.marks:
        return
    now = world.now_ns()
    under_way = max((name for name in LATER if name in truth.marks), key=lambda n: truth.marks[n][-1], default=None)
    world.mark("registered", container.contract_id)
    if under_way is not None:
        truth.marks[under_way].append(now)
        truth.stage.set(now, STAGES.index(under_way))
