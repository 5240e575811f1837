"""Many seeds of one scenario, or of the swarm, each in a child process of its own.

A child is a fork made after everything was imported, so a world starts in milliseconds and nothing leaks from one seed
to the next. It sends one JSON line back and ends. What a sweep must show by itself (contracts.md section 2) is checked
here: enough worlds reach ``active``, something was rightly killed, every fault that was drawn also fired.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal as signals
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from sim.oracle.view import stall_limit_ns, view_of
from sim.spec import Scenario
from sim.truth import Truth

ACTIVE_SHARE_MIN = 0.4
FULL_SEEDS = 200  # from here on a fault that never fired, or an invariant never at stake, fails a sweep of the swarm
QUANTILES = (0.5, 0.9, 0.99, 1.0)
STAGES = ("loading", "setup", "benchmark", "active")

RunSeed = Callable[[int], dict[str, Any]]
"""Runs one seed and returns :func:`facts` of it."""


@dataclass(slots=True)
class Failure:
    """One thing that did not hold. ``invariant``: its id, "expectation", or "error" for a run that broke."""

    invariant: str
    seed: int
    text: str


@dataclass(slots=True)
class Sweep:
    """Everything that the seeds showed, added up."""

    seeds: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    reached: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))
    rentals: int = 0
    worlds_active: int = 0
    not_recoverable: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    wrong: int = 0
    nearness: list[float] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    at_stake: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, one: dict[str, Any]) -> None:
        self.seeds += 1
        for f in one["failures"]:
            self.failures.append(Failure(f[0], one["seed"], f[1]))
        if one.get("broken"):
            return
        self.simulated_s += one["simulated_s"]
        self.cpu_s += one["cpu_s"]
        self.rentals += one["rentals"]
        self.worlds_active += bool(one["reached"]["active"])
        self.not_recoverable += one["live"] == "not_recoverable"
        self.wrong += one["wrong"]
        self.nearness += one["nearness"]
        for mine, its in ((self.reached, one["reached"]), (self.kills, one["kills"]), (self.faults, one["faults"]),
                          (self.marks, one["marks"]), (self.at_stake, one["at_stake"])):
            for name, n in its.items():
                mine[name] = mine.get(name, 0) + n

    @property
    def right_kills(self) -> int:
        return sum(self.kills.values()) - self.wrong

    def quantiles(self) -> dict[str, float | None]:
        """Of the survivors' longest time without progress over the limit of its stage (1: one beat from the end)."""
        ordered = sorted(self.nearness)
        return {f"{q:g}": ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None
                for q in QUANTILES}

    def never_fired(self) -> list[str]:
        return [kind for kind, n in sorted(self.faults.items()) if not n]

    def never_at_stake(self) -> list[str]:
        return [name for name, n in sorted(self.at_stake.items()) if not n]

    def problems(self, swarm: bool) -> list[str]:
        """What the sweep as a whole failed to show; a sweep of one scenario shows what that scenario is about."""
        if not swarm or not self.seeds:
            return []
        out = []
        share = self.worlds_active / self.seeds
        if share < ACTIVE_SHARE_MIN:
            out.append(f"rentals reached active in only {share:.0%} of the worlds, {ACTIVE_SHARE_MIN:.0%} needed")
        if self.right_kills <= 0:
            out.append("no right kill in any world: the sweep shows nothing about kills")
        if self.seeds >= FULL_SEEDS:
            if self.never_fired():
                out.append(f"faults that were drawn and never fired: {', '.join(self.never_fired())}")
            if self.never_at_stake():
                out.append(f"invariants that were never at stake: {', '.join(self.never_at_stake())}")
        return out

    def to_json(self, swarm: bool) -> dict[str, Any]:
        return {
            "seeds": self.seeds, "simulated_s": round(self.simulated_s, 1), "cpu_s": round(self.cpu_s, 2),
            "wall_s": round(self.wall_s, 2), "rentals": self.rentals, "reached": self.reached,
            "worlds_active": self.worlds_active, "not_recoverable": self.not_recoverable,
            "right_kills": self.right_kills, "wrong_kills": self.wrong, "kills_by_verdict": self.kills,
            "nearness": self.quantiles(), "faults": self.faults, "marks": self.marks, "at_stake": self.at_stake,
            "never_fired": self.never_fired(), "problems": self.problems(swarm),
            "failures": [{"invariant": f.invariant, "seed": f.seed, "text": f.text} for f in self.failures],
        }


# ---------------------------------------------------------------- one seed


def facts(result: dict[str, Any], truth: Truth, scenario: Scenario) -> dict[str, Any]:
    """What a sweep keeps of one run: small, and plain JSON."""
    failures = [(v["invariant"], f"at {v['at_s']:.0f} s, machine {v['machine_id']}: {v['text']}")
                for v in result["violations"]] if result["verdict"] != "ok" else []
    failures += [("expectation", text) for text in result["failed_checks"]]
    rows = result["rentals"]
    return {
        "seed": result["seed"], "failures": failures, "simulated_s": result["simulated_s"], "cpu_s": result["cpu_s"],
        "rentals": len(rows), "reached": {s: sum(s in r["stages_s"] for r in rows) for s in STAGES},
        "live": result["live"], "kills": {v: n for v, n in result["kills"]["by_verdict"].items() if n},
        "wrong": result["kills"]["wrong"], "nearness": nearness(truth, scenario), "faults": result["faults"],
        "marks": result["marks"], "at_stake": result["at_stake"],
    }


def nearness(truth: Truth, scenario: Scenario) -> list[float]:
    """For each contract of ours that no destroy of ours ended: its longest time without progress over the limit of
    its stage, less what the controller could not hear and what the market had stopped. What comes near 1 was nearly
    killed (above 1: a brake or a broken source held it); a sweep in which nothing does tests no limit."""
    v = view_of(truth, scenario, truth.end)
    out = []
    for c in v.ours:
        if c.contract_id in v.destroys:
            continue
        end, t, worst = c.gone if c.gone is not None else truth.end, c.created, 0.0
        spans: list[list[int | None]] = [*c.progress.spans, [end, end]]
        for a, b in spans:
            if a is not None and a > t:
                idle = c.work_available.total(t, a) if c.work_available.spans else a - t
                deaf = a - t - truth.controller_hears.total(t, a)
                away = c.host_offline.total(t, a) + c.market_stopped.total(t, a)
                worst = max(worst, (idle - deaf - away) / stall_limit_ns(v, c, t))
            t = max(t, end if b is None else b)
        out.append(round(worst, 3))
    return out


# ---------------------------------------------------------------- children


def sweep(seeds: range, jobs: int, run_seed: RunSeed, update: Callable[[Sweep], None]) -> Sweep:
    """Runs every seed, ``jobs`` at a time; ``update`` after each. KeyboardInterrupt ends the children first."""
    out, began = Sweep(), time.perf_counter()
    todo = iter(seeds)
    selector = selectors.DefaultSelector()
    open_: dict[int, tuple[int, int, bytearray]] = {}  # pipe -> (pid, seed, what came)

    def start() -> None:
        seed = next(todo, None)
        if seed is not None:
            pid, pipe = _child(seed, run_seed)
            open_[pipe] = (pid, seed, bytearray())
            selector.register(pipe, selectors.EVENT_READ)

    try:
        for _ in range(max(1, jobs)):
            start()
        while open_:
            for key, _ in selector.select():
                pipe = key.fd
                pid, seed, got = open_[pipe]
                piece = os.read(pipe, 1 << 16)
                if piece:
                    got += piece
                    continue
                selector.unregister(pipe)
                os.close(pipe)
                del open_[pipe]
                _, status = os.waitpid(pid, 0)
                out.add(_received(seed, bytes(got), status))
                out.wall_s = time.perf_counter() - began
                update(out)
                start()
    finally:
        for pipe, (pid, _, _) in open_.items():
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(pipe)
        selector.close()
    out.failures.sort(key=lambda f: (f.invariant, f.seed))
    return out


def _child(seed: int, run_seed: RunSeed) -> tuple[int, int]:
    """Forks; returns (pid, pipe) in the parent and never returns in the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 0
    try:
        os.close(reader)
        _end_with(parent)
        try:
            one = run_seed(seed)
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            one = {"seed": seed, "broken": True,
                   "failures": [("error", f"{type(error).__name__}: {error} ({where})".replace("\n", " "))]}
            code = 1
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(orjson.dumps(one))
    finally:
        os._exit(code)  # no clean-up of the parent's things in a child


def _end_with(parent: int) -> None:
    """Has the kernel end this child with its parent, whatever ends that one: a killed sweep leaves nothing running."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signals.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we could ask
        os._exit(1)


def _received(seed: int, data: bytes, status: int) -> dict[str, Any]:
    try:
        one = orjson.loads(data)
    except orjson.JSONDecodeError:
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        how = f"was ended by signal {signal}" if signal else "sent no result"
        return {"seed": seed, "broken": True, "failures": [("error", f"its process {how}")]}
    return one if isinstance(one, dict) else {"seed": seed, "broken": True, "failures": [("error", "no object")]}
