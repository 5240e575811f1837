"""What the market has to rent: realistic mixes of cards, CPUs, memory, lines and prices, drawn from one stream.

Cards and CPU classes: reference/cuzk-model.md section 5 (only the 5070 Ti is measured; the rest are its estimates).
Prices are the usual on-demand $/h of one card, which operators spread by about a third either way.
Places are Faker's, seeded from the same stream. Out of scope: names of operators, which no decision reads.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from sim.spec import MachineSpec


@dataclass(frozen=True, slots=True)
class Card:
    """One model of card. ``gpu_s``: effective s per partition, transfer included; ``weight``: share in the market."""

    ram_mb: int
    gpu_s: float
    usd_per_hour: float
    weight: float


CARDS: dict[str, Card] = {
    "RTX 4090": Card(24_564, 3.0, 0.33, 5),
    "RTX 5090": Card(32_607, 2.4, 0.42, 3),
    "RTX 3090": Card(24_576, 4.6, 0.18, 4),
    "RTX 5070 Ti": Card(16_303, 3.75, 0.17, 2),
    "RTX PRO 4000": Card(24_467, 5.0, 0.27, 2),
    "A100 SXM4": Card(40_960, 3.3, 0.55, 1),
    "H100 SXM": Card(81_559, 2.5, 1.60, 0.5),
    "RTX 3080": Card(12_288, 5.4, 0.12, 1),
}


@dataclass(frozen=True, slots=True)
class Cpu:
    """One class of CPU: ``factor`` is its slowdown against the reference host, ``contention`` its memory's slope."""

    name: str
    cores: float
    factor: tuple[float, float]
    contention: float
    pcie_gb_per_s: float


CPUS: tuple[Cpu, ...] = (
    Cpu("AMD EPYC 9755", 128, (0.95, 1.05), 0.048, 50.0),
    Cpu("AMD EPYC 9554", 64, (1.0, 1.3), 0.052, 50.0),
    Cpu("AMD EPYC 7543", 64, (1.5, 1.8), 0.078, 24.0),
    Cpu("AMD EPYC 7742", 64, (1.9, 2.4), 0.080, 24.0),
    Cpu("Xeon Gold 6338", 64, (1.7, 2.0), 0.085, 24.0),
    Cpu("Xeon Gold 6248", 40, (2.2, 2.8), 0.110, 12.0),
)
RAM_GIB = (128.0, 192.0, 256.0, 384.0, 504.0, 504.0, 512.0, 768.0, 1008.0)
LINE_MBPS = (200.0, 400.0, 600.0, 1000.0, 1000.0, 2000.0, 5000.0)


def draw_machine(stream: random.Random, machine_id: int, host_id: int) -> MachineSpec:
    """One machine; its rate is left to the model."""
    name = stream.choices(list(CARDS), [c.weight for c in CARDS.values()])[0]
    card, cpu = CARDS[name], stream.choice(CPUS)
    gpus = stream.choice((1, 1, 1, 2))
    down = stream.choice(LINE_MBPS)
    price = round(card.usd_per_hour * gpus * math.exp(stream.gauss(0, 0.25)), 3)
    return MachineSpec(
        id=machine_id,
        host=host_id,
        gpu=name,
        gpus=gpus,
        gpu_ram_mb=card.ram_mb,
        cpu_name=cpu.name,
        cpu_cores=cpu.cores,
        ram_gib=stream.choice(RAM_GIB),
        disk_gb=stream.choice((500.0, 1000.0, 2000.0, 4000.0)),
        disk_mb_per_s=stream.choice((600.0, 1500.0, 3000.0)),
        inet_down_mbps=down,
        inet_up_mbps=round(down * stream.uniform(0.3, 1.0)),
        pcie_gb_per_s=cpu.pcie_gb_per_s,
        reliability=round(1 - abs(stream.gauss(0, 0.006)), 4),
        price_usd_per_hour=max(0.05, price),
        cpu_factor=round(stream.uniform(*cpu.factor), 3),
        contention=cpu.contention,
        gpu_s_per_partition=round(card.gpu_s * stream.uniform(0.95, 1.1), 3),
        image_pull_s=float(stream.randint(60, 900)),
    )


def draw_machines(stream: random.Random, count: int, taken: list[int], hosts: list[int]) -> list[MachineSpec]:
    """``count`` machines of about half as many operators, with ids and hosts beside those already ``taken``."""
    from faker import Faker  # only worlds that draw a market pay for its import

    names = Faker("en_US")
    names.seed_instance(stream.getrandbits(32))
    out: list[MachineSpec] = []
    first_host = max(hosts, default=1000) + 1
    machine_id = max(taken, default=20_000)
    for _ in range(count):
        machine_id += stream.randint(1, 40)
        machine = draw_machine(stream, machine_id, first_host + stream.randrange(max(1, count // 2)))
        machine.place = f"{names.city()}, {names.country_code()}"
        out.append(machine)
    return out
