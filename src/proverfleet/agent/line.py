"""The line to the controller: sends what waits in the outbox, repairs the tunnel, backs off.

Nothing here holds up the work or the making of reports: both go on while the line is dead.
"""

from __future__ import annotations

from collections.abc import Callable

from proverfleet.agent.outbox import Outbox
from proverfleet.agent.wake import Wake
from proverfleet.domain.report import Answer, Report
from proverfleet.errors import PortError
from proverfleet.ports import AgentPorts

BACKOFF_FIRST_S = 2.0
BACKOFF_MAX_S = 30.0


class Line:
    """``rpc_ok`` is what the last check of port 1234 said (None: not checked); it is checked while ``rpc_wanted``.

    ``heard(report, answer)`` is called for each answer; ``repaired()`` after a repair that was asked for.
    """

    __slots__ = ("_heard", "_ports", "_posted", "_repaired", "outbox", "repair_due", "rpc_ok", "rpc_wanted")

    def __init__(
        self, ports: AgentPorts, heard: Callable[[Report, Answer], None], repaired: Callable[[], None]
    ) -> None:
        self._ports = ports
        self._heard = heard
        self._repaired = repaired
        self._posted = Wake()
        self.outbox = Outbox()
        self.rpc_ok: bool | None = None
        self.rpc_wanted = False
        self.repair_due = False

    def post(self, report: Report) -> None:
        """Queues a report. Returns at once."""
        self.outbox.add(report)
        self._posted.ring()

    async def run(self) -> None:
        await self._mend()
        failures = 0
        while True:
            if not self.outbox.reports:
                await self._posted.wait()
            report = self.outbox.oldest()
            try:
                answer = await self._ports.link.send(report)
            except PortError:
                failures += 1
                mended = await self._mend()
                if not mended or failures > 1:
                    await self._ports.clock.sleep(self._backoff_s(failures))
                continue
            failures = 0
            self.outbox.answered(report)
            self._heard(report, answer)
            if self.repair_due:
                self.repair_due = False
                await self._mend()
                self._repaired()
            if not self.rpc_wanted:
                self.rpc_ok = None
            elif not self.outbox.reports:
                await self._check_rpc()

    async def _mend(self) -> bool:
        try:
            return await self._ports.tunnel.ensure()
        except PortError:
            return False

    async def _check_rpc(self) -> None:
        """The benchmark passes without port 1234 and the work does not (field-cases.md): look, and repair."""
        try:
            self.rpc_ok = await self._ports.tunnel.rpc_ok()
        except PortError:
            self.rpc_ok = None
            return
        if not self.rpc_ok:
            await self._mend()

    def _backoff_s(self, failures: int) -> float:
        """2, 4, 8 … 30 s, times a jitter of 0.5 … 1: twenty agents must not come back in one instant."""
        full = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 10))
        return full * (0.5 + 0.5 * self._ports.entropy.random())
