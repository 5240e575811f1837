"""The clairvoyant: knows every machine's true rate, price and failures; rents the best ``target`` machines at t = 0;
pays the same pull, parameters and warm-up, no benchmark (contracts.md section 2)."""

from __future__ import annotations

from sim.oracle.view import HOUR, View
from sim.truth import NS

SETUP_BYTES_GIB = 135.0


def best_usd_per_proof(v: View) -> float | None:
    """$/proof of the best choice over the whole run; None when nothing could prove."""
    wanted = int(max(v.truth.target.values, default=0.0)) + len(v.scenario.deploy)
    hours = v.now / HOUR
    options: list[tuple[float, float, float]] = []
    for m in v.scenario.machines:
        steps = v.truth.potential.get(m.id)
        if steps is None or not m.works:
            continue
        setup_s = m.image_pull_s + SETUP_BYTES_GIB * 8.59 * 1000 / max(1.0, m.inet_down_mbps) + (m.warm_up_s or 300.0)
        productive = max(0.0, hours - setup_s / 3600)
        proofs = steps.mean(int(setup_s * NS), max(v.now, int(setup_s * NS) + 1)) * productive
        cost = m.price_usd_per_hour * (hours - m.image_pull_s / 3600)
        if proofs > 0:
            options.append((cost / proofs, cost, proofs))
    options.sort()
    chosen = options[: max(1, wanted)]
    proofs = sum(p for _, _, p in chosen)
    return sum(c for _, c, _ in chosen) / proofs if proofs else None
