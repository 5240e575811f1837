"""The agent's work, stage by stage: hello → tunnel → params → sizing → warmup → batch → active (→ draining → stopped).

Each stage is a coroutine that returns the next one's name. It waits only for the bell (a tick that saw a change, or an
order), so that any order is obeyed at the next wait; an order that leads elsewhere raises :class:`Turn`.
A stage begins by finding out how far it had come: after a restart of agent or container it goes on from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

from proverfleet.agent import bench, memory
from proverfleet.agent.body import Body
from proverfleet.domain.report import Directive, ExitFact
from proverfleet.domain.sizing import Sizing, concurrency_for
from proverfleet.errors import PortError
from proverfleet.ports import Exit, ProverStatus

FACTS_TICKS = 4
RESIZE_DRAIN_TICKS = 30
HELD = "held"
NO_EXIT = Exit(None, None, False, False, "the daemon is not running, and left no exit code")


class Turn(Exception):
    """An order leads to another stage than the one that was at work."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


class Stages:
    def __init__(self, body: Body) -> None:
        self._body = body
        self._ports = body.ports
        self._memory = body.memory
        self._earned = True
        self._run: dict[str, Callable[[], Awaitable[str]]] = {
            "hello": self._hello, "tunnel": self._tunnel, "params": self._params, "sizing": self._sizing,
            "warmup": self._warmup, "batch": self._batch, "active": self._active, "draining": self._draining,
            "stopped": self._stopped, HELD: self._held,
        }

    async def run(self) -> None:
        """Works until the process ends: a rental that is over keeps its heartbeat and its lease until the contract is
        really gone, so that neither a forgotten destroy nor a dead controller leaves it billing unheard."""
        stage = HELD if self._memory.waiting else self._memory.stage
        if self._memory.over:
            stage = "stopped"
        while True:
            try:
                stage = await self._run[stage]()
            except Turn as turn:
                stage = turn.stage

    # ------------------------------------------------------------ set-up

    async def _hello(self) -> str:
        return "tunnel"

    async def _tunnel(self) -> str:
        """The line opens the tunnel by itself; meanwhile the arrival facts are read, before any byte is fetched."""
        body, kept = self._body, self._memory
        body.enter("tunnel")
        if not kept.facts_read:
            body.read_facts()
            for _ in range(FACTS_TICKS):
                await self._next()
                if kept.facts_read:
                    break
            kept.facts_read = True
        return "params"

    async def _params(self) -> str:
        """Needs no controller: the fetch begins and goes on while the line is down. A fetch that stopped with an error
        is begun again at the next tick; whether it is worth it is the controller's affair."""
        body = self._body
        body.enter("params")
        await self._fetched()
        return "sizing"

    async def _fetched(self) -> None:
        body = self._body
        while True:
            if body.params is not None and body.params.done:
                return
            if body.params is None or not body.params.running:
                with suppress(PortError):
                    await self._ports.params.fetch()
            await self._next()

    async def _sizing(self) -> str:
        body, kept = self._body, self._memory
        body.enter("sizing")
        if kept.p is None or kept.concurrency is None:
            kept.p, kept.concurrency = bench.first_size(body.settings, await body.limit_gib())
        return "warmup"

    # ------------------------------------------------------------ benchmark

    async def _warmup(self) -> str:
        """Without a PCE cache on disk the first proof runs small, for the memory spike of synthesis without it."""
        body, kept = self._body, self._memory
        body.enter("warmup")
        await self._fetched()
        p, concurrency = self._size()
        if not await self._has_cache():
            small = bench.warm_up_size(p)
            if not await self._daemon(small, concurrency_for(small)):
                return HELD
            status = body.status
            if status is None or not status.running:
                await self._ask(self._ports.prover.warm_up)
            while True:
                end = self._ended()
                if end is not None:
                    return self._hold(end)
                if body.status is not None and not body.status.running:
                    break
                await self._next()
        if not await self._daemon(p, concurrency):
            return HELD
        kept.batch_on = False
        return "batch"

    async def _batch(self) -> str:
        body, kept = self._body, self._memory
        await self._fetched()
        p, concurrency = self._size()
        if not await self._daemon(p, concurrency):
            return HELD
        status = body.status
        shows = status is not None and (status.running or status.done or status.bench_exit is not None)
        going = kept.batch_on and shows
        if not going:
            body.skip_completions()
        body.enter("batch")
        if not going:
            await self._begin_batch(concurrency)
        while True:
            end = self._ended()
            if end is not None:
                return self._hold(end)
            if body.status is not None and body.status.done:
                break
            await self._next()
        accepted, failed = self._close_batch(body.status)
        return "active" if accepted else self._hold(bench.no_proof(failed))

    async def _begin_batch(self, concurrency: int) -> None:
        body, kept = self._body, self._memory
        kept.batch_accepted, kept.batch_failed = kept.total.accepted, kept.total.failed
        kept.batch_mono_ns = self._ports.clock.monotonic_ns()
        kept.bench = kept.bench_rate = None
        kept.batch_on = True
        body.save()
        count = body.settings.batch_proofs
        await self._ask(lambda: self._ports.prover.batch(count, concurrency))

    def _close_batch(self, status: ProverStatus) -> tuple[int, int]:
        kept = self._memory
        accepted = kept.total.accepted - kept.batch_accepted
        failed = kept.total.failed - kept.batch_failed
        kept.batch_on = False
        if accepted:
            kept.bench, kept.bench_rate = bench.result(
                accepted, failed, status.completions, kept.batch_mono_ns, self._ports.clock.monotonic_ns()
            )
        return accepted, failed

    # ------------------------------------------------------------ proofs that earn

    async def _active(self) -> str:
        """Begins by itself after a batch with a proof in it: its proofs earn while the controller judges."""
        body = self._body
        await self._fetched()
        if not await self._daemon(*self._size()):
            return HELD
        body.line.rpc_wanted = True
        body.enter("active")
        await self._ask(self._ports.prover.work)
        while True:
            end = self._ended()
            if end is not None:
                return self._hold(end)
            await self._next()

    async def _draining(self) -> str:
        """Takes nothing new; "stopped" says that nothing is in flight any more. A benchmark earns nothing, and is not
        waited for."""
        body = self._body
        body.enter("draining")
        await self._ask(self._ports.prover.drain)
        while self._earned and body.status is not None and body.status.alive and body.status.running:
            await self._next()
        status = body.status
        if status is not None and not status.alive and status.exit is not None:
            self._memory.exit = bench.exit_fact("prover", status.exit)
        return "stopped"

    async def _stopped(self) -> str:
        await self._stop()
        self._body.line.rpc_wanted = False
        self._body.enter("stopped")
        while True:
            await self._next()

    # ------------------------------------------------------------ failures

    def _ended(self) -> ExitFact | None:
        """How daemon or benchmark ended, if they did. Never called while we stop or start the daemon ourselves."""
        status = self._body.status
        if status is None:
            return None
        if not status.alive:
            return bench.exit_fact("prover", status.exit or NO_EXIT)
        if status.bench_exit is not None and self._memory.batch_on:
            return bench.exit_fact("bench", status.bench_exit)
        return None

    def _hold(self, end: ExitFact) -> str:
        """Records how it ended, as what it was (never as a rate), and waits: the controller decides what is tried."""
        kept = self._memory
        kept.exit = end
        kept.waiting = "retry"
        kept.batch_on = False
        if end.what == "prover":
            kept.daemon_up = False
        self._body.report()
        return HELD

    async def _held(self) -> str:
        while True:
            await self._next()

    # ------------------------------------------------------------ the daemon

    async def _daemon(self, p: int, concurrency: int) -> bool:
        """Sees to it that a daemon of this size runs: adopts the one that lives, else starts one.

        False: it ended by its own failure while we were not looking, or cannot be started; that is recorded, and the
        agent waits. A daemon that is simply not there after a restart of the container is started again.
        """
        body, kept = self._body, self._memory
        status = await body.look()
        if status is not None and status.alive and not kept.restart_due:
            if (kept.daemon_p, kept.daemon_concurrency) == (p, concurrency):
                self._adopt()
                return True
        elif status is not None and kept.daemon_up and status.exit is not None and not kept.restart_due:
            self._hold(bench.exit_fact("prover", status.exit))
            return False
        await self._stop()
        kept.daemon_p, kept.daemon_concurrency, kept.restart_due = p, concurrency, False
        body.save()
        try:
            await self._ports.prover.start(Sizing(p, concurrency, body.settings.daemon))
        except PortError as error:
            self._hold(bench.not_started(error))
            return False
        body.generation += 1
        body.status = None
        self._adopt()
        await body.look()
        body.forget_shape()
        return True

    def _adopt(self) -> None:
        self._memory.daemon_up = True
        memory.finish(self._memory)

    async def _stop(self) -> None:
        """Stops the daemon, if one lives, and closes its counts."""
        body = self._body
        if body.status is None or body.status.alive:
            await body.look()
            body.generation += 1
            with suppress(PortError):
                await self._ports.prover.stop()
        body.generation += 1
        memory.close_daemon(self._memory)
        self._memory.daemon_up = False

    async def _ask(self, what: Callable[[], Awaitable[None]]) -> None:
        """One request to the daemon; if it is dead, the look right after says so."""
        with suppress(PortError):
            await what()
        await self._body.look()
        self._body.forget_shape()

    async def _has_cache(self) -> bool:
        try:
            return await self._ports.prover.has_pce_cache()
        except PortError:
            return False

    def _size(self) -> tuple[int, int]:
        kept = self._memory
        p = kept.p or bench.UNKNOWN_MEMORY_P
        return p, kept.concurrency or concurrency_for(p)

    # ------------------------------------------------------------ orders

    async def _next(self) -> None:
        """Waits for the bell; then obeys what was ordered. Raises Turn when that leads elsewhere."""
        body = self._body
        if not body.orders and not (body.told_over and not self._memory.over):
            await body.bell.wait()
        body.bell.clear()
        if body.told_over and not self._memory.over:
            await self._end()
        while body.orders:
            order = body.orders.popleft()
            if order.id not in self._memory.done:
                await self._obey(order)

    async def _end(self) -> NoReturn:
        self._memory.over = True
        self._memory.waiting = ""
        memory.finish(self._memory)
        raise Turn("stopped")

    async def _obey(self, order: Directive) -> None:
        """Does one order. The id is on disk together with what it changes, before anything is done: a crash in between
        is made good by the stage that resumes, never by doing the order twice."""
        kept = self._memory
        memory.take(kept, order.id)
        if order.what == "over":
            await self._end()
        if kept.over or kept.stage in ("draining", "stopped"):
            memory.finish(kept)
            return
        if order.what == "drain":
            kept.waiting = ""
            self._earned = kept.stage == "active"
            memory.finish(kept)
            raise Turn("draining")
        if order.what in ("retry", "resize", "restart_prover"):
            await self._again(order)
        memory.finish(kept)

    async def _again(self, order: Directive) -> None:
        """Another try (a new attempt), another size, or the same again: all start the daemon anew."""
        kept = self._memory
        if order.what == "resize" and kept.stage == "active" and not kept.waiting:
            await self._ask(self._ports.prover.drain)
            for _ in range(RESIZE_DRAIN_TICKS):
                if self._body.status is None or not self._body.status.running or not self._body.status.alive:
                    break
                await self._next()
        p = order.args.get("p")
        if isinstance(p, int) and not isinstance(p, bool) and p >= 1:
            concurrency = order.args.get("concurrency")
            kept.p = p
            kept.concurrency = concurrency if isinstance(concurrency, int) and concurrency >= 1 else concurrency_for(p)
        if order.what != "restart_prover":
            kept.attempt += 1
            kept.exit = None
            kept.bench = kept.bench_rate = None
        if kept.stage in ("hello", "tunnel", "params", "sizing"):
            return
        kept.waiting = ""
        kept.restart_due = True
        kept.restarts_prover += 1
        self._body.save()
        raise Turn("active" if kept.stage == "active" else "warmup")
