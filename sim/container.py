"""One container: from the pull of its image to its end, with its disk, its prover, its parameters and its sensors.

In scope: layers as the market's text shows them, running, exit and restart (disk kept or not), halt by the market and
start again, the truth about progress, work and proofs. Out of scope: anything inside it besides agent and prover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from sim.params import SimParams
from sim.prover import SimProver
from sim.pull import NS, Pull
from sim.sensors import SimSensors
from sim.truth import ContractTruth, ExitTruth

if TYPE_CHECKING:
    from sim.host import Host
    from sim.spec import FaultSpec

START_S = 5.0  # from the last layer to the running container
IMAGE_GB = 12.0
PCE_GB = 25.0


class Tenant(Protocol):
    """What a container needs of the market's contract."""

    @property
    def contract_id(self) -> int: ...
    @property
    def label(self) -> str | None: ...
    @property
    def truth(self) -> ContractTruth: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def disk_gb(self) -> float: ...
    def set_status(self, actual: str | None, msg: str | None) -> None:
        """What the market shows from now on; None: null."""
        ...


_SOURCES = {"pull": 1, "params": 2, "prover": 4}


class Container:
    """``state``: pulling | starting | running | down | gone. ``up``: its processes run; ``reachable``: packets pass."""

    def __init__(self, host: Host, contract: Tenant) -> None:
        self.host = host
        self.world = host.world
        self.contract = contract
        self.contract_id = contract.contract_id
        self.truth = contract.truth
        self.label = contract.label
        self.env: dict[str, str] = dict(contract.env)
        self.disk_gb = float(contract.disk_gb)
        self.disk: dict[str, Any] = {}
        self.pce = False
        self.bad_pce: FaultSpec | None = None
        self.bad_srs: FaultSpec | None = None
        self.image_fault: int | None = None
        self.state = "pulling"
        self.status: str | None = "created"
        self.status_msg: str | None = None
        self.ports_epoch = 0
        self.pull = Pull(host.spec.image_pull_s, host.spec.image_pull_s, host.world.now_ns())
        self.params = SimParams(self)
        self.prover = SimProver(self)
        self.sensors = SimSensors(self)
        self._moving = 0
        self._turn = 0

    # ------------------------------------------------------------ what can be asked

    @property
    def up(self) -> bool:
        return self.state == "running"

    @property
    def reachable(self) -> bool:
        """Do packets reach what runs in it?"""
        return self.state == "running" and not self.host.now.cut

    @property
    def gpu_util(self) -> float | None:
        """As the market shows it, 0 … 100; None before it runs."""
        if self.state != "running":
            return None
        self.prover.settle(self.world.now_ns())
        daemon, c = self.prover.daemon, self.host.now
        busy = daemon is not None and daemon.proving and not daemon.loading
        own = 97.0 if busy and (c.gpu_stuck or (daemon is not None and daemon.moving)) else 0.0
        return max(own, 100.0 * c.foreign_load if c.foreign_shown else 0.0)

    @property
    def rss_gib(self) -> float:
        daemon = self.prover.daemon
        return 0.4 + (daemon.rss_gib if daemon is not None else 0.0)

    @property
    def disk_used_gb(self) -> float:
        return IMAGE_GB + self.params.on_disk / 1e9 + (PCE_GB if self.pce else 0.0)

    @property
    def disk_free_gb(self) -> float:
        left = max(0.0, self.disk_gb - self.disk_used_gb)
        full = self.host.now.disk_free_gb
        return left if full is None else min(left, full)

    def log_text(self) -> str:
        """What the market's log call shows of it."""
        self.settle(self.world.now_ns())
        daemon = self.prover.daemon
        if self.state in ("pulling", "starting"):
            return self.status_msg or ""
        lines = [f"params {self.params.on_disk} of {self.params.total} bytes"]
        if daemon is not None:
            lines.append(f"cuzk-daemon p={daemon.p} srs={daemon.srs_bytes} partitions={daemon.partitions}")
        if self.prover.exit is not None:
            lines.append(self.prover.exit.log_tail)
        return "\n".join(lines)

    def work_flows(self) -> bool:
        """Do tasks of the consumer reach it? Needs the chain node's port as well."""
        world, machine = self.world, self.host.spec.id
        if world.faults.active("tunnel.rpc_port_missing", machine) is not None:
            return False
        down = world.faults.active("tunnel.down", machine)
        if down is not None and down.params.get("rpc_too"):
            return False
        work = getattr(world, "work", None)
        return True if work is None else bool(work.available(machine))

    # ------------------------------------------------------------ time

    def settle(self, now: int) -> None:
        """Brings everything in it, and the world's truth about it, up to ``now``."""
        if self.state == "pulling":
            self.pull.advance(now)
        self.params.settle(now)
        self.prover.settle(now)

    def refresh(self) -> None:
        """Takes in the machine's conditions as they stand now."""
        if self.state == "pulling":
            self._pull_on()
        self.params.refresh()
        self.prover.refresh()
        self.truth.bandwidth_mbps = self.host.now.down_mbps

    def _later(self, delay_ns: int, what: Callable[[], None]) -> None:
        """Calls ``what`` after ``delay_ns`` unless the container has turned to something else by then."""
        self._turn += 1
        turn = self._turn
        event = self.world.env.timeout(max(0, delay_ns))
        assert event.callbacks is not None
        event.callbacks.append(lambda _: what() if turn == self._turn else None)

    # ------------------------------------------------------------ its life

    def begin(self) -> None:
        """The contract was made: the image is pulled, then the container starts."""
        now = self.world.now_ns()
        self.truth.work_available.open(now)
        self.show("created", None)
        self.show("loading", self.pull.text())
        self._pull_on()

    def _pull_on(self) -> None:
        if self.state != "pulling":
            return
        c, pull, now = self.host.now, self.pull, self.world.now_ns()
        pull.advance(now)
        broken = c.image_fault
        if broken is not None and broken.params["how"] == "not_found":
            self.cannot_start("Error response from daemon: manifest for proverfleet/agent not found: manifest unknown")
            return
        speed = c.down_mbps / self.host.spec.inet_down_mbps if self.host.spec.inet_down_mbps > 0 else 0.0
        full = c.disk_free_gb is not None and c.disk_free_gb < IMAGE_GB
        pull.rate = 0.0 if c.pull_stopped or c.frozen or full else min(1.0, speed)
        if full:
            self.truth.broken.open(now)
            self.show("loading", "failed to register layer: no space left on device")
        else:
            self.truth.broken.close(now)
        if pull.done:
            self.state = "starting"
            self.note("pull", False, now)
            if c.gpu_oom_fault is not None:
                self.image_fault = c.gpu_oom_fault
            self._later(int(START_S * NS), self.run)
            return
        self.note("pull", pull.rate > 0.0, now)
        delay = pull.next_ns()
        if delay is None:
            self._turn += 1
        else:
            self._later(delay, self._pulled)

    def _pulled(self) -> None:
        self.pull.advance(self.world.now_ns())
        self.show("loading", self.pull.text())
        self._pull_on()

    def cannot_start(self, why: str) -> None:
        """The market says that it will not start."""
        now = self.world.now_ns()
        self.state = "down"
        self._turn += 1
        self.note("pull", False, now)
        self.truth.broken.open(now)
        self.show("loading", why)

    def run(self) -> None:
        """Its processes start."""
        if self.state == "gone":
            return
        if self.host.now.frozen:
            self._later(30 * NS, self.run)
            return
        now = self.world.now_ns()
        first = self.truth.running is None
        broken = self.host.now.image_fault
        if first and broken is not None and broken.params["how"] == "agent_exits":
            self.state = "down"
            self.truth.broken.open(now)
            self.show("exited", "container exited with code 1")
            return
        self.state = "running"
        self.truth.broken.close(now)
        self.show("running", "success, running proverfleet/agent/ssh")
        if first:
            self.truth.running = now
            self.host.judge_fit(self)
            self.world.mark("running", self.contract_id)
        self.params.refresh()
        self.world.start_container(self)
        self.world.changed()

    def end_processes(self, how: str, status: str | None, msg: str | None) -> None:
        """Everything that runs in it ends. ``how``: restart | reboot | halted | destroyed."""
        now = self.world.now_ns()
        self.settle(now)
        was_up = self.state == "running"
        self._turn += 1
        self.prover.container_ended(now)
        self.params.container_ended(now)
        if self.state != "pulling":
            self.state = "down"
        self.note("pull", False, now)
        if was_up:
            self.world.stop_container(self, how)
        if status is not None:
            self.show(status, msg)
        self.world.changed()

    def restart(self, down_ns: int, *, keeps_disk: bool = True, new_ports: bool = False, how: str = "restart",
                status: str = "exited") -> None:
        """Ends, and starts again after ``down_ns``. A container that does not run yet is left alone."""
        if self.state != "running":
            return
        self.truth.restarts_container += 1
        self.end_processes(how, status, None)
        self.truth.broken.open(self.world.now_ns())
        if not keeps_disk:
            self.disk.clear()
            self.pce = False
            self.params.wipe()
        if new_ports:
            self.ports_epoch += 1
        self.host.clear("container_restart")
        self._later(down_ns, self.run)

    def halt(self) -> None:
        """The market stops it (outbid, credit): no processes, no cards, the disk is kept."""
        if self.state in ("gone", "halted"):
            return
        self.end_processes("halted", None, None)
        self.state = "halted"

    def resume(self) -> None:
        """The market lets it run again: the pull goes on, or the container starts."""
        if self.state != "halted":
            return
        self.pull.at = self.world.now_ns()
        if self.pull.done:
            self.state = "starting"
            self._later(int(START_S * NS), self.run)
        else:
            self.state = "pulling"
            self._pull_on()

    def end(self) -> None:
        """The contract is gone."""
        now = self.world.now_ns()
        self.settle(now)
        daemon = self.prover.daemon
        if daemon is not None and daemon.mode == "work":
            self.truth.lost_proofs += daemon.in_flight
        self.end_processes("destroyed", None, None)
        self.state = "gone"
        for spans in (self.truth.progress, self.truth.work_available, self.truth.busy, self.truth.in_flight,
                      self.truth.broken, self.truth.host_offline):
            spans.close(now)

    def show(self, status: str | None, msg: str | None) -> None:
        """Its own state, as the market sees it while it has contact with the host."""
        self.status, self.status_msg = status, msg
        self.host.show(self)

    # ------------------------------------------------------------ the world's truth

    def note(self, source: str, on: bool, at: int) -> None:
        """Units of work are being finished (or no longer) by one of: pull, params, prover."""
        bit = _SOURCES[source]
        moving = self._moving | bit if on else self._moving & ~bit
        if moving != self._moving:
            self._moving = moving
            if bool(moving) != self.truth.progress.on:
                self.world.changed()  # what the market's columns show is one of the rental's channels
            if moving:
                self.truth.progress.open(at)
            else:
                self.truth.progress.close(at)

    def prover_busy(self, on: bool, at: int) -> None:
        if on:
            self.truth.busy.open(at)
            self.truth.in_flight.open(at)
        else:
            self.truth.busy.close(at)
            self.truth.in_flight.close(at)

    def work_available(self, on: bool, at: int) -> None:
        if on:
            self.truth.work_available.open(at)
        else:
            self.truth.work_available.close(at)

    def proved(self, at: int, mode: str, valid: bool, failed: bool) -> None:
        """A proof was finished at ``at``. One that the daemon itself gives up is never handed to the consumer."""
        truth = self.truth
        if valid:
            truth.proofs.append(at)
        else:
            truth.invalid.append(at)
        wrong = self.host.now.invalid
        if mode != "work" or failed or (not valid and wrong is not None and wrong.params.get("seen_by_prover", True)):
            return
        work = getattr(self.world, "work", None)
        accepted = valid if work is None else bool(work.deliver(self.contract_id, self.host.spec.id, at, valid))
        (truth.accepted if accepted else truth.rejected).append(at)

    def params_failed(self, at: int, fault: int | None) -> None:
        """A file failed its checksum for the third time."""
        self.truth.exits.append(ExitTruth(at, "params", fault))

    def write_pce(self, at: int) -> None:
        """The cache is saved after the first proof, where there is room for it."""
        if not self.pce and self.disk_free_gb >= PCE_GB:
            self.pce = True
