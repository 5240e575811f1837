"""The ``[[machine]]`` tables of a scenario."""

from __future__ import annotations

import copy

from sim.inventory import CARDS
from sim.spec import MachineSpec
from sim.table import Table, nearest

GPUS_MAX = 64
RATE_MAX = 100_000.0  # proofs an hour: each is a thing that happens

# field -> (least, above, most); all plain numbers with a default in MachineSpec
_NUMBERS: dict[str, tuple[float | None, float | None, float | None]] = {
    "gpu_frac": (None, 0, 1),
    "cpu_cores": (None, 0, None),
    "ram_gib": (None, 0, None),
    "disk_gb": (None, 0, None),
    "disk_mb_per_s": (None, 0, None),
    "inet_down_mbps": (None, 0, None),
    "inet_up_mbps": (None, 0, None),
    "pcie_gb_per_s": (None, 0, None),
    "reliability": (0, None, 1),
    "cpu_factor": (None, 0, None),
    "contention": (0, None, None),
    "gpu_s_per_partition": (None, 0, None),
    "image_pull_s": (0, None, None),
    "noise": (0, None, 1),
}
_OPTIONAL: dict[str, tuple[float | None, float | None, float | None]] = {
    "min_bid_usd_per_hour": (0, None, None),
    "rate_proofs_per_hour": (None, 0, RATE_MAX),
    "warm_up_s": (None, 0, None),
    "known_rate_proofs_per_hour": (None, 0, None),
}


def read_machines(tables: list[Table], most: int) -> list[MachineSpec]:
    """Every machine, ``count`` ones written out with the ids and hosts that follow."""
    out: list[MachineSpec] = []
    seen: dict[int, str] = {}
    for table in tables:
        first, count = _machine(table)
        if len(out) + count > most:
            table.fail(f"more than {most:,} machines in all; a market of fewer shows the same")
        for i in range(count):
            machine = copy.deepcopy(first)
            machine.id, machine.host = first.id + i, first.host + i
            if machine.id in seen:
                table.fail(f"machine {machine.id} is also in {seen[machine.id]}; give each its own id")
            seen[machine.id] = table.where
            out.append(machine)
    return out


def _machine(table: Table) -> tuple[MachineSpec, int]:
    spec = MachineSpec(id=table.fixed("id", None, least=1), host=table.fixed("host", None, least=1))
    table.where += f" (machine {spec.id})"
    count = table.fixed("count", 1, least=1)
    spec.gpu = table.text("gpu", spec.gpu)
    spec.gpus = table.count("gpus", spec.gpus, least=1, most=GPUS_MAX)
    spec.gpu_ram_mb = table.count("gpu_ram_mb", CARDS[spec.gpu].ram_mb if spec.gpu in CARDS else spec.gpu_ram_mb,
                                  least=1)
    if "gpu_actual" in table:
        spec.gpu_actual = table.texts("gpu_actual")
    else:
        table.raw("gpu_actual")
    for name, (least, above, most) in _NUMBERS.items():
        setattr(spec, name, table.number(name, getattr(spec, name), least=least, above=above, most=most))
    spec.price_usd_per_hour = table.number("price_usd_per_hour", None, above=0)
    for name, (least, above, most) in _OPTIONAL.items():
        value = table.raw(name)
        if value is not None:
            setattr(spec, name, table.as_number(name, value, least=least, above=above, most=most))
    limit = table.raw("cgroup_gib")
    if limit == "max":
        spec.cgroup_gib = float("inf")
    elif limit is not None:
        spec.cgroup_gib = table.as_number("cgroup_gib", limit, least=None, above=0)
    spec.cpu_name = table.text("cpu_name", spec.cpu_name)
    spec.place = table.words("place")
    spec.daemon = table.text("daemon", spec.daemon, ("current", "old"))
    spec.works = table.flag("works", spec.works)
    spec.first_sizing = _first_sizing(table)
    table.finish()
    return spec, count


def _first_sizing(table: Table) -> dict[str, int] | None:
    sizing = table.raw("first_sizing")
    if sizing is None:
        return None
    known = ("partition_workers", "concurrency")
    if not isinstance(sizing, dict):
        table.fail("first_sizing must be { partition_workers = N, concurrency = N }")
    for name in sizing:
        if name not in known:
            table.fail(f'first_sizing: unknown key "{name}"; {nearest(name, known)}')
    for name in known:
        if name not in sizing:
            table.fail(f"first_sizing lacks {name}; write {{ partition_workers = N, concurrency = N }}")
    return {name: table.as_count(f"first_sizing.{name}", sizing[name], least=1) for name in known}
