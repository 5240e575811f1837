"""Lines, our own programs, and what is asked of them (reference/faults.md, "tunnel.", "agent.", "controller.",
"systemic.", "work.", "operator.").

In scope: the tunnel, agents and controllers that die, hang, lie or get odd clocks, broken images, the consumer's word,
operators' orders. Out of scope: Byzantine controllers, and an operator who edits the database by hand.
"""

from __future__ import annotations

from proverfleet.controller.points import POINTS
from sim.faults.kinds import (
    COUNT,
    DURATION,
    REQUIRED,
    RUN,
    TABLE,
    H,
    Kind,
    M,
    Param,
    S,
    choice,
    count,
    flag,
    lasting,
    moment,
    number,
    on_calls,
    text,
)

TUNNEL: tuple[Kind, ...] = (
    lasting("tunnel.down", "no reports, no directives; the agent buffers, the prover goes on",
            flag("ssh_too", False), flag("rpc_too", False), for_s=40 * M, blame="nobody"),
    lasting("tunnel.half_open", "writes are taken, nothing arrives, no reset", for_s=15 * M, blame="nobody"),
    lasting("tunnel.flap", "up and down in turns", number("up_s", 60, "s", least=1), number("down_s", 30, "s", least=1),
            for_s=30 * M, blame="nobody"),
    lasting("tunnel.port_busy", "the remote port is held by the dead session", for_s=15 * M, blame="us"),
    lasting("tunnel.rpc_port_missing", "port 1234 is not forwarded: curio fails, the benchmark does not", for_s=RUN,
            blame="us"),
    lasting("tunnel.wrong_peer", "the address answers, but it is somebody else, or the old session",
            choice("how", "old_key", "old_socket", "other_agent"), for_s=10 * M, blame="nobody"),
    lasting("tunnel.slow", "a bad line", number("latency_ms", 2000, "ms"), number("loss", 0, "share", most=1),
            number("kbps", 0, "kbit/s, 0: no limit"), for_s=20 * M, blame="nobody"),
)

AGENT: tuple[Kind, ...] = (
    moment("agent.crash", "the agent dies without a word; the prover lives",
           count("exit_code", 1, most=255), number("restarts_after_s", 20, "s, 0: never"), blame="us"),
    lasting("agent.hang", "alive, sends nothing, obeys nothing; the prover lives", for_s=10 * M, blame="us"),
    lasting("agent.heartbeat_stall", "heartbeats stop, other reports go on late", for_s=12 * M, blame="us"),
    moment("agent.restart", "clean restart, says hello again", blame="us"),
    on_calls("agent.duplicate", "each message arrives more than once", count("copies", 2, least=2, most=100),
             for_s=10 * M, blame="nobody"),
    on_calls("agent.reorder", "messages change places", number("within_s", 60, "s"), for_s=10 * M, blame="nobody"),
    lasting("agent.lies", "the rented machine says what is not so", choice("what", "counters", "rate", "identity"),
            number("factor", 2.0), for_s=RUN, blame="machine"),
    lasting("agent.old_version", "an agent of the previous released version", for_s=RUN, blame="us"),
    on_calls("agent.late", "messages arrive late", number("by_s", 300, "s"), text("only", "all"), for_s=10 * M,
             blame="nobody"),
)

CRASH_POINTS = tuple(POINTS)
"""Named places in the controller at which it may die; ``sim faults controller.crash`` lists them with their meaning."""

CONTROLLER: tuple[Kind, ...] = (
    lasting("controller.crash", "dies without `finally`, commits nothing more; starts again after `for`",
            Param("point", None, "text", "", CRASH_POINTS, says="none: at `at`"), for_s=20 * S, blame="us"),
    lasting("controller.offline", "lives, but market, tunnels and probes are all out of its reach", for_s=45 * M,
            blame="nobody"),
    lasting("controller.restart", "stops cleanly, starts again", for_s=10 * S, blame="us"),
    lasting("controller.suspend", "stands still; wall time goes on", for_s=10 * M, blame="us"),
    moment("controller.clock_step", "the controller's wall clock jumps", number("by_s", 5700, "s", least=None),
           number("drift_ppm", 0, "ppm", least=None), blame="us"),
    lasting("controller.db_locked", "writes answer \"locked\"", choice("reads", "ok", "old", "fail"),
            choice("cleared_by", "time", "controller_restart"), for_s=8 * S, blame="us"),
    lasting("controller.db_full", "writes fail with \"disk full\"", number("free_mb", 0, "MB"), for_s=6 * H,
            blame="us"),
    moment("controller.db_restored", "the store is replaced by its own backup of that age",
           Param("age", 6 * H, DURATION), blame="us"),
    lasting("controller.upgrade", "restart with a newer fold and a migration", flag("back", False), for_s=30 * M,
            blame="us"),
    lasting("controller.second_instance", "a second controller runs on the same account", flag("same_store", True),
            for_s=90 * S, blame="us"),
)

SYSTEMIC: tuple[Kind, ...] = (
    lasting("systemic.image_broken", "the image fails on every new rental",
            choice("how", "agent_exits", "not_found", "gpu_oom"), number("vram_below_gb", 0, "GB, 0: all cards"),
            for_s=3 * H, blame="us"),
    lasting("systemic.registry_down", "no image pull makes progress", for_s=1 * H, blame="source"),
)

WORK: tuple[Kind, ...] = (
    lasting("work.starved", "no proofs to do; one unit arrives at the moment it ends", for_s=40 * M, blame="nobody"),
    on_calls("work.rejected", "the consumer refuses valid proofs, of everybody or of `machine`",
             number("share", 1.0, "share", most=1), for_s=6 * H, blame="nobody"),
)

OPERATOR: tuple[Kind, ...] = (
    moment("operator.kill", "the operator ends the rental on `machine`, in flight or not", text("reason"),
           blame="nobody"),
    moment("operator.blacklist", "an entry for `machine`", text("reason", "operator"), flag("evict", False),
           Param("until", None, DURATION, says="never"), blame="nobody"),
    moment("operator.target", "a new [fleet] target", Param("value", REQUIRED, COUNT), blame="nobody"),
    moment("operator.policy", "policy changed while running", Param("set", REQUIRED, TABLE), blame="nobody"),
    moment("operator.wrong_id", "an order that names a contract that is not what the operator thinks",
           choice("what", "foreign", "other_rental"), blame="nobody"),
    lasting("operator.freeze", "the manual brake", for_s=1 * H, blame="nobody"),
)

__all__ = ["AGENT", "CONTROLLER", "CRASH_POINTS", "OPERATOR", "SYSTEMIC", "TUNNEL", "WORK"]
