"""One body of every kind, with every optional part filled in somewhere."""

from __future__ import annotations

from shell import end, offer, rent, report

from proverfleet.domain import events as e
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId
from proverfleet.domain.report import ExitFact, GpuFact

C, INTENT, M, H = ContractId(9001), IntentId("aaaa0001"), MachineId(42), HostId(7)
ROW = e.RowFact(C, M, H, "pf.f00d.aaaa0001", "running", "running", "running", "ok", 0.3, 97.5, 12.0)

SAMPLES: list[e.EventBody] = [
    e.Booted("b1", "0.1.0", "f00d", {"beat_s": 60.0, "cap_usd_per_hour": None}, 3),
    e.Beat(4, 60_000_000_000, False, True, True, 0.25, ("a1", "b2")),
    e.Listed("trusted", 2, 0, (ROW,), (ContractId(5),), "0011223344556677"),
    e.ContractRead(C, "present", ROW),
    e.LogsRead(C, "ok", "00ff", 120),
    e.Offered(False, 40, {"price": 3}, (offer(),), (offer(7),)),
    e.AccountRead(12.5),
    e.Reported(report("f00d", token="", last_completions=((1, 10), (2, 20)), rss_gib=1.5, rpc_ok=True,
                      gpus=(GpuFact("GPU-1", "RTX 4090", 24_564, 0.9, 60.0, 24.0, 79, 0.1),),
                      exit=ExitFact("prover", 137, 9, True, False, "Killed"), bench=(12, 0, 800.5), acks=("d1",))),
    e.HelloRefused("aaaa0001", "wrong token"),
    e.Probed(C, "answers", 1.5, 10, 1, 2**37),
    e.SourceProbed(True),
    e.Worked(True, ((INTENT, 3, 1),)),
    e.Ordered("target", {"value": 2}),
    e.CreateSent(INTENT),
    e.CreateAnswered(INTENT, "ok", C),
    e.DestroySent(C, 1),
    e.DestroyAnswered(C, "failed", "HTTP 500"),
    e.StartAnswered(C, True),
    e.PostMortemSaved(INTENT, True),
    rent(),
    end(),
    e.Extra("duplicate", C, "duplicate", "second contract"),
    e.Gone("gone", C, INTENT, "proven"),
    e.Resolved("resolve", INTENT, None, "no label"),
    e.Adopted("orphan", INTENT, C, M, H, 0.3, 38.0, "ceil(0.3 / 0.008)"),
    e.Directed("stall", INTENT, "d1", "restart_prover", {"p": 3}, "stood still"),
    e.Judged("benchmark", INTENT, "passed", 41.5, 12, "above"),
    e.Marked("lost", INTENT, "suspect", True, "not listed"),
    e.Repriced("reprice", INTENT, 0.4, 50.0, "ceil(0.4 / 0.008)"),
    e.Struck("reputation", M, INTENT, False, "active/slow", "slow"),
    e.Blacklisted("reputation", M, "slow", 1_772_323_200_000_000_000, False),
    e.Braked("systemic", "k", True, "three alike", {"machines": [1, 2, 3]}),
    e.Alerted("a", "k", "t", M),
    e.Restart("restart", INTENT, C, "credit is back"),
]
