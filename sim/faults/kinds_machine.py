"""What can go wrong on a machine: its host, its prover, its parameters (reference/faults.md, "host.", "prover.",
"params.").

In scope: sickness of the box, of the container, of the daemon and of the parameter source. Out of scope: a machine
that is simply slow, small or mislabelled; that is the machine's own data (``[[machine]]``), not a fault.
"""

from __future__ import annotations

from sim.faults.kinds import RUN, H, Kind, M, S, card, choice, count, flag, lasting, moment, number, text

_CLEARED = ("prover_restart", "container_restart", "nothing")

HOST: tuple[Kind, ...] = (
    lasting("host.offline", "host or its daemon out of reach; no billing meanwhile",
            flag("alive", False), number("unknown_s", 120, "s"), for_s=70 * M, blame="machine"),
    lasting("host.reboot", "everything on the box dies and comes back; disk kept, monotonic clock anew",
            for_s=3 * M, blame="machine"),
    lasting("host.container_restart", "the container ends, and starts again",
            flag("new_ports", False), flag("keeps_disk", True), for_s=20 * S, blame="nobody"),
    lasting("host.suspend", "host and agent stand still, then wall time jumps", for_s=10 * M, blame="machine"),
    lasting("host.clock_skew", "wrong wall clock on the machine",
            number("by_s", 120, "s", least=None), number("drift_ppm", 0, "ppm", least=None), for_s=RUN, blame="nobody"),
    moment("host.clock_step", "the machine's wall clock jumps once", number("by_s", 3600, "s", least=None),
           blame="nobody"),
    lasting("host.slow_disk", "params, SRS and PCE load slowly", number("mb_per_s", 60, "MB/s"), for_s=RUN,
            blame="machine"),
    lasting("host.disk_full", "writes fail with ENOSPC", number("free_gb", 0, "GB"), for_s=RUN, blame="machine"),
    lasting("host.slow_network", "real bandwidth below the offer's, image pull included",
            number("down_mbps", 25, "Mbit/s, 0: nothing passes"),
            number("up_mbps", None, "Mbit/s", says="as down_mbps"), for_s=RUN, blame="machine"),
    lasting("host.ram_below_offer", "the container's limit is below what the box shows",
            number("cgroup_gib", None, "GiB", says="half of ram_gib"), number("shown_gib", None, "GiB", says="ram_gib"),
            for_s=RUN, blame="machine"),
    lasting("host.neighbour", "others on the box take a part of it; a ghost kernel is gpu_share without a process",
            number("cpu_share", 0.3, "share", most=1), number("gpu_share", 0, "share", most=1),
            number("memory_bandwidth_share", 0, "share", most=1), flag("gpu_util_shown", True),
            for_s=20 * M, blame="machine"),
    lasting("host.throttle", "heat, power cap, cold clocks",
            number("factor", 0.7, "of the machine's rate", most=10), number("ramp_s", 0, "s"), for_s=20 * M,
            blame="machine"),
    lasting("host.gpu_xid", "sticky CUDA error: every proof on that card fails at once",
            count("xid", 79), card("gpu", 0), flag("logged", True), for_s=RUN, blame="machine",
            for_note="until the container restarts"),
    lasting("host.gpu_lost", "a card falls off the bus; later cards move down one index", card("gpu", 0), for_s=RUN,
            blame="machine"),
    lasting("host.gpu_missing", "fewer cards than rented, from the start", count("present", 0), for_s=RUN,
            blame="machine"),
    lasting("host.nvml_lost", "NVML cannot be read",
            choice("how", "error", "hang", "not_supported", "bytes", "garbage"), flag("running_ok", True),
            for_s=RUN, blame="nobody"),
    lasting("host.pcie_degraded", "slow link; idle_only is the normal power saving",
            count("gen", 1, least=1), count("lanes", 1, least=1), flag("idle_only", False), for_s=RUN,
            blame="machine"),
)

PROVER: tuple[Kind, ...] = (
    moment("prover.oom", "killed by the kernel (137), or CUDA out of memory", choice("where", "host", "gpu"),
           blame="us"),
    moment("prover.crash", "the daemon dies; text is its fingerprint",
           count("exit_code", 139, most=255), text("text", "segmentation fault"), blame="machine"),
    lasting("prover.hang", "alive, answers, does no work", choice("cleared_by", *_CLEARED), for_s=RUN,
            blame="machine"),
    lasting("prover.freeze", "stands still, then goes on where it was", for_s=22 * M, blame="machine"),
    lasting("prover.stuck_gpu", "busy: counts time, does nothing; error: fails in ms; lock: waits; cpu_fallback: slow",
            choice("how", "busy", "error", "lock", "cpu_fallback"),
            number("factor", 0.1, "of the rate, cpu_fallback", most=10),
            card("gpu", "all"), choice("cleared_by", *_CLEARED), for_s=RUN, blame="machine"),
    lasting("prover.invalid_proofs", "wrong proofs, perhaps very fast ones",
            number("invalid_share", 1.0, "share", most=1),
            number("s_per_proof", None, "s", least=0.1, says="unchanged"), flag("seen_by_prover", True), for_s=RUN,
            blame="machine"),
    moment("prover.bench_error", "the benchmark ends without a result",
           choice("how", "exit", "no_rate", "no_summary"), count("exit_code", 1, most=255), text("text"),
           blame="machine"),
    lasting("prover.slow_srs", "the SRS loads slowly", number("load_s", 180, "s"), flag("pinned", True), for_s=RUN,
            blame="machine"),
    moment("prover.cache_corrupt", "a cache file on disk is bad", choice("what", "pce", "srs"), blame="machine"),
)

PARAMS: tuple[Kind, ...] = (
    lasting("params.source_down", "nobody gets bytes", flag("mirror_up", False), for_s=2 * H, blame="source"),
    lasting("params.slow", "the source is slow; with machine: for that one", number("mbps", 20, "Mbit/s per machine"),
            for_s=RUN, blame="source"),
    lasting("params.stall", "connection open, no bytes", flag("mirror_up", False), for_s=2 * H, blame="source"),
    moment("params.corrupt", "a fetched file fails its checksum",
           count("file", 1, "number of the file", least=1), flag("same_digest", True), blame="source"),
)
