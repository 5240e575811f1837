"""What a machine may be expected to reach before it was ever measured: a table by card and CPU class.

Source: reference model of cuzk's host (seconds a partition of synthesis, of kernels, of transfer; ten partitions a
proof). A guess that ranks offers; it condemns nobody.
"""

from __future__ import annotations

PARTITIONS = 10
SYNTHESIS_S = 29.0
CONTENTION = 0.06

KERNEL_S: tuple[tuple[str, float], ...] = (
    ("5090", 1.0), ("H100", 1.1), ("H200", 1.1), ("4090", 1.3), ("A100", 1.6), ("5070", 1.8), ("PRO 4000", 2.5),
    ("3090", 2.8), ("3080", 3.2), ("V100", 4.0),
)
CPU_FACTOR: tuple[tuple[str, float], ...] = (
    ("Threadripper PRO 7", 1.0), ("EPYC 9", 1.05), ("Ryzen 9 9", 0.95), ("Ryzen 9 7", 1.05), ("EPYC 75", 1.5),
    ("EPYC 77", 1.6), ("EPYC 73", 1.6), ("EPYC 7", 2.0), ("Ryzen 9 5", 1.6), ("Gold 63", 1.9), ("Platinum 8", 2.1),
    ("Gold", 2.5), ("E5-", 3.2),
)


def _match(table: tuple[tuple[str, float], ...], name: str, default: float) -> float:
    return next((value for word, value in table if word in name), default)


def expected_rate_of(gpu_name: str, num_gpus: int, cpu_name: str, p: int) -> float:
    """Proofs per hour that this card and CPU may reach with ``p`` partitions at once."""
    synthesis_s = SYNTHESIS_S * _match(CPU_FACTOR, cpu_name, 1.8) * (1.0 + CONTENTION * (p - 1))
    gpu_s = (_match(KERNEL_S, gpu_name, 3.0) + 1.2) / max(1, num_gpus)
    return 3600.0 / (PARTITIONS * max(synthesis_s / p, gpu_s))
