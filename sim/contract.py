"""One contract of the market: its four states and its status text, its price, and what it has cost so far.

States and texts follow reference/vast-api.md sections 3.1 and 3.2, billing section 3.4: GPU and storage while it is
shown running, storage alone in every other state, nothing while its host is offline.
In scope: what a host reports, what the market stops and lets go on, the history of all of it.
Out of scope: ports, SSH addresses, volumes, reserved contracts, contract ends by date.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sim.truth import NS, ContractTruth

if TYPE_CHECKING:
    from sim.container import Container
    from sim.host import Host
    from sim.market import SimMarket

HOUR_NS = 3600 * NS
EXIT_SHOWN_NS = 45 * NS
"""A contract that the market stops is still shown as it was for one or two polls, then ``exited`` (section 3.2)."""
AWAY = ("unknown", "offline")
SAMPLES = 512


class State(NamedTuple):
    """What the market says about a contract at one moment."""

    actual_status: str | None
    intended_status: str
    cur_state: str
    next_state: str
    status_msg: str | None
    price_usd_per_hour: float


class SimContract:
    """``stopped``: "" | outbid | credit | pending: why the market does not let it run. ``machine_id`` may be one of
    no machine of ours (a foreign contract). Prices are $/h; ``disk_gb`` is what was allocated."""

    __slots__ = (
        "_paid_at", "_rate", "_stop_at", "container", "contract_id", "created_ns", "disk_gb", "env", "gone",
        "gpu_usd_per_hour", "history", "host", "host_id", "image", "is_bid", "label", "lacks_fields", "machine_id",
        "market", "paid_usd", "reported", "reported_msg", "samples", "stop_seen", "stopped", "storage_usd_per_hour",
        "times", "truth",
    )

    def __init__(
        self, market: SimMarket, truth: ContractTruth, *, image: str, env: Mapping[str, str], disk_gb: float,
        gpu_usd_per_hour: float, storage_usd_per_hour: float, is_bid: bool, stopped: str = "",
    ) -> None:
        self.market = market
        self.truth = truth
        self.contract_id = truth.contract_id
        self.machine_id = truth.machine_id
        self.host_id = truth.host_id
        self.label = truth.label
        self.image = image
        self.env = env
        self.disk_gb = disk_gb
        self.gpu_usd_per_hour = gpu_usd_per_hour
        self.storage_usd_per_hour = storage_usd_per_hour
        self.is_bid = is_bid
        self.lacks_fields = False
        self.created_ns = self._paid_at = market.world.now_ns()
        self.gone = False
        self.paid_usd = 0.0
        self.host: Host | None = market.world.hosts.get(truth.machine_id)
        self.container: Container | None = None
        self.reported: str | None = None
        self.reported_msg: str | None = None
        self.stopped = stopped
        self.stop_seen: str | None = None
        self._stop_at = -EXIT_SHOWN_NS
        self._rate = 0.0
        self.times: list[int] = []
        self.history: list[State] = []
        self.samples: deque[tuple[int, float | None, float | None]] = deque(maxlen=SAMPLES)
        if stopped:
            truth.market_stopped.open(self.created_ns)
        truth.price.set(self.created_ns, self.price_usd_per_hour)
        self.show()

    # ------------------------------------------------------------ what is shown

    @property
    def price_usd_per_hour(self) -> float:
        """GPU and storage while it runs (``dph_total``)."""
        return round(self.gpu_usd_per_hour + self.storage_usd_per_hour, 9)

    @property
    def state(self) -> State:
        return self.history[-1]

    def state_at(self, ns: int) -> State | None:
        """What was shown at that moment; None: it did not exist (yet, or any more)."""
        if ns < self.created_ns or (self.truth.gone is not None and ns >= self.truth.gone):
            return None
        return self.history[max(0, bisect_right(self.times, ns) - 1)]

    def readings(self) -> tuple[float | None, float | None]:
        """GPU utilisation in per cent and disk in use in GB, as the host last told; None before it runs."""
        container = self.container
        if container is None or not container.up or self.stopped:
            return None, None
        if not container.host.online:
            return (self.samples[-1][1], self.samples[-1][2]) if self.samples else (None, None)
        util = container.gpu_util
        container.params.settle(self.market.world.now_ns())
        found = util, round(container.disk_used_gb, 2)
        self.samples.append((self.market.world.now_ns(), *found))
        return found

    def readings_at(self, ns: int) -> tuple[float | None, float | None]:
        """As :meth:`readings`, as they had been read last by that moment."""
        for at, util, disk in reversed(self.samples):
            if at <= ns:
                return util, disk
        return None, None

    def set_status(self, actual: str | None, msg: str | None) -> None:
        """The host reports (or the market has lost contact with it: unknown, offline)."""
        self.reported, self.reported_msg = actual, msg
        self.show()

    def _actual(self, now: int) -> str | None:
        if not self.stopped or self.reported in AWAY:
            return self.reported
        if now < self._stop_at + EXIT_SHOWN_NS or self.stopped == "pending":
            return self.stop_seen
        return "exited"

    def show(self) -> None:
        """Takes in what changed: history, and from now on the bill."""
        if self.gone:
            return
        now = self.market.world.now_ns()
        target = "stopped" if self.stopped else "running"
        state = State(self._actual(now), target, target, target, self.reported_msg, self.price_usd_per_hour)
        if not self.history or self.history[-1] != state:
            self.times.append(now)
            self.history.append(state)
        self._bill(now, state.actual_status)

    # ------------------------------------------------------------ the bill

    def settle(self) -> None:
        """Brings what it has cost up to now."""
        now = self.market.world.now_ns()
        self.paid_usd += self._rate * (now - self._paid_at) / HOUR_NS
        self._paid_at = now
        self.truth.paid_usd = self.paid_usd

    def _bill(self, now: int, actual: str | None) -> None:
        if self.gone or (self.host is not None and not self.host.online) or actual in AWAY:
            rate = 0.0
        elif actual == "running" and not self.stopped:
            rate = self.gpu_usd_per_hour + self.storage_usd_per_hour
        else:
            rate = self.storage_usd_per_hour
        if rate != self._rate:
            self.settle()
            self.market.ledger.change(rate - self._rate)
            self._rate = rate
            self.truth.paid.set(now, rate)

    def reprice(self, price_usd_per_hour: float) -> None:
        """Its price with storage is another from now on."""
        self.settle()
        self.gpu_usd_per_hour = max(0.0, price_usd_per_hour - self.storage_usd_per_hour)
        self.truth.price.set(self.market.world.now_ns(), self.price_usd_per_hour)
        self.show()

    # ------------------------------------------------------------ stopped and let go on

    def halt(self, why: str) -> None:
        """The market stops it: its processes end, its disk is kept and billed."""
        if self.gone or self.stopped:
            return
        loop = self.market.world.loop
        self.stop_seen, self.stopped, self._stop_at = self.state.actual_status, why, loop.now_ns
        self.truth.market_stopped.open(loop.now_ns)
        if self.host is not None and self.container is not None:
            self.host.halt(self)
        self.show()
        loop.at(loop.now_ns + EXIT_SHOWN_NS, self.show)
        self.market.world.changed()

    def resume(self) -> None:
        """The market lets it run (again): the pull goes on, or the container starts."""
        if self.gone or not self.stopped:
            return
        self.stopped = ""
        self.truth.market_stopped.close(self.market.world.now_ns())
        if self.host is None:
            self.show()
        elif self.container is None:
            self.container = self.host.boot(self)
        else:
            self.set_status("loading" if self.host.online else self.reported, self.reported_msg)
            self.host.resume(self)
        self.market.world.changed()

    def end(self, by: str) -> None:
        """It is gone for good. ``by``: destroy | market | lease."""
        if self.gone:
            return
        world, truth = self.market.world, self.truth
        now = world.now_ns()
        self.gone = True
        self._bill(now, None)
        self.settle()
        truth.gone, truth.gone_by = now, by
        if self.host is not None and self.container is not None:
            self.host.stop(self)
        for spans in (truth.market_stopped, truth.dark, truth.agent_reachable, truth.accounted):
            spans.close(now)
        if truth.ours:
            world.mark("gone", self.contract_id)
        world.changed()
