"""The agent: the program on the rented machine. Tasks that never wait for one another.

``work`` goes through the stages, ``ticks`` looks and reports every ``report_s``, ``line`` sends what was reported and
repairs the tunnel; the sensors are read beside them (senses.py). Whatever hangs, the others go on. An error that
nobody decided about ends the agent, and its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from proverfleet.agent import memory
from proverfleet.agent.body import Body
from proverfleet.agent.memory import Memory
from proverfleet.agent.settings import AgentSettings, Identity
from proverfleet.agent.stages import Stages
from proverfleet.ports import AgentPorts

CLOCK_DIGITS = 8


class Agent:
    """One boot of the agent. Its memory is the container's StateFile."""

    def __init__(self, ports: AgentPorts, identity: Identity, settings: AgentSettings) -> None:
        self._ports = ports
        self._identity = identity
        self._settings = settings

    async def run(self) -> None:
        """Runs until the process ends with its contract. Raises what a part could not go on after."""
        body = await self._wake()
        stages = Stages(body)
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks = [
            self._part(stages.run(), "work"),
            self._part(body.ticks(), "ticks"),
            self._part(body.line.run(), "line"),
        ]
        try:
            await self._failed
        finally:
            for task in tasks:
                task.cancel()
            body.close()

    def _part(self, coro: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(coro, name=name)
        task.add_done_callback(self._part_ended)
        return task

    def _part_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _wake(self) -> Body:
        """Finds out whether this is a first boot, a restart of the agent, or one of its container."""
        ports, identity = self._ports, self._identity
        kept = memory.load(ports.state.load(), identity.intent)
        fresh_clock = ports.entropy.hex(CLOCK_DIGITS)
        first = kept is None
        if kept is None:
            kept = Memory(rental=identity.intent)
        memory.wind_clocks(kept, ports.clock.monotonic_ns(), ports.clock.wall_ns(), fresh_clock)
        memory.finish(kept)
        body = Body(ports, identity, self._settings, kept)
        was_up = kept.daemon_up
        was_fetching = kept.stage == "params"
        await body.look()
        if not first:
            if self._container_restarted(body, was_up, was_fetching):
                kept.restarts_container += 1
            else:
                kept.restarts_agent += 1
        kept.container = identity.container
        body.report()
        return body

    def _container_restarted(self, body: Body, was_up: bool, was_fetching: bool) -> bool:
        """By the id of the container's start where there is one; else by what should still run and does not: a daemon
        that left no exit code, or the fetch."""
        if self._identity.container and body.memory.container:
            return self._identity.container != body.memory.container
        if was_up:
            return body.status is not None and not body.status.alive and body.status.exit is None
        return was_fetching and body.params is not None and not body.params.running and not body.params.done
