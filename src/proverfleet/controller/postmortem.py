"""The post-mortem: what is known about a rental at the moment of its end. It outlives rental, contract and machine.

Saved before the destroy, because the market's log goes with the contract; what cannot be had in time is left out
(``complete`` says so) and holds nothing up.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import orjson

from proverfleet.controller.calls import Calls
from proverfleet.controller.inbox import Inbox
from proverfleet.controller.redact import Redactor
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.ids import ContractId
from proverfleet.domain.report import Report
from proverfleet.errors import MarketError

LOG_CHARS_MAX = 20_000
FORMAT = 1


async def build(
    fleet: Fleet, rental: Rental, contract_id: ContractId, inbox: Inbox, calls: Calls, redact: Redactor, within_s: float
) -> tuple[bytes, bool]:
    """The document as JSON, and whether it is complete. Takes at most ``within_s``; raises nothing of the market's."""
    reports = inbox.last_reports(rental.intent)
    log, problem = await _market_log(calls, contract_id, redact, within_s)
    document = {
        "format": FORMAT,
        "rental": _about(rental),
        "decision": {
            "verdict": rental.verdict, "cause": rental.cause, "reason": rental.reason, "blame": rental.blame,
            "evidence": rental.evidence, "decided_wall_ns": rental.decided_wall_ns, "beat": fleet.beat,
        },
        "market": {"row": None if rental.row is None else asdict(rental.row), "log_tail": log, "log_problem": problem},
        "agent": {
            "reports": [asdict(r) for r in reports],
            "memory_gib": [[r.mono_ns, r.rss_gib, r.limit_gib] for r in reports],
            "exit": _last_exit(reports, rental),
            "gpu_errors": _gpu_errors(reports),
        },
    }
    complete = problem == "" and (bool(reports) or rental.last is None)
    return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS), complete


async def _market_log(calls: Calls, contract_id: ContractId, redact: Redactor, within_s: float) -> tuple[str, str]:
    try:
        async with asyncio.timeout(within_s):
            return redact(await calls.logs(contract_id), LOG_CHARS_MAX), ""
    except MarketError as exc:
        return "", f"{type(exc).__name__}: {redact(str(exc), 200)}"
    except TimeoutError:
        return "", f"not within {within_s:g} s"


def _about(rental: Rental) -> dict[str, Any]:
    return {
        "intent": rental.intent, "contract_id": rental.contract_id, "machine_id": rental.machine_id,
        "host_id": rental.host_id, "gpu_name": rental.gpu_name, "num_gpus": rental.num_gpus, "image": rental.image,
        "price_usd_per_hour": rental.price_usd_per_hour, "cost_usd": rental.cost_usd, "min_rate": rental.min_rate,
        "min_rate_from": rental.min_rate_from, "rate_proofs_per_hour": rental.rate_proofs_per_hour,
        "stage_wall_ns": rental.stage_wall_ns, "observed_ns": rental.observed_ns,
        "oom_retries": rental.oom_retries, "crash_retries": rental.crash_retries,
    }


def _last_exit(reports: list[Report], rental: Rental) -> dict[str, Any] | None:
    for report in reversed(reports or ([rental.last] if rental.last is not None else [])):
        if report.exit is not None:
            return asdict(report.exit)
    return None


def _gpu_errors(reports: list[Report]) -> list[dict[str, Any]]:
    out: dict[tuple[str, int], dict[str, Any]] = {}
    for report in reports:
        for gpu in report.gpus or ():
            if gpu.xid is not None:
                out.setdefault((gpu.uuid, gpu.xid), {"uuid": gpu.uuid, "xid": gpu.xid, "first_mono_ns": report.mono_ns})
    return list(out.values())
