"""One body of every kind, every optional part filled in somewhere."""

from __future__ import annotations

from proverfleet.domain import events as e
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId
from tests.builders import exited, offer, report, row

C, INTENT, M, H = ContractId(1), IntentId("r0001"), MachineId(42001), HostId(7001)

BODIES: list[e.EventBody] = [
    e.Booted("b1", "0.1.0", "testfleet", {"beat_s": 60.0}, 3),
    e.Beat(1, 60_000_000_000, False, True, True, 0.25, ("00aa", "00bb")),
    e.Listed("trusted", 1, 0, (row(1, label="pf.testfleet.r0001"),), (ContractId(9),), "abc"),
    e.ContractRead(C, "present", row(1)),
    e.LogsRead(C, "present", "d1", 100),
    e.Offered(False, 2, {"blacklisted": 1}, (offer(1),), (offer(2),)),
    e.AccountRead(99.5),
    e.Reported(report("batch", exit=exited(137, 9, oom=True), bench=(12, 0, 1045.5), acks=("d1",),
                      last_completions=((1, 10), (2, 20)), params_error="x", bench_rate_proofs_per_hour=41.3)),
    e.HelloRefused("r0001", "wrong token"),
    e.Probed(C, "answers", 12.5, 100, 10, 5_000),
    e.SourceProbed(True),
    e.Worked(True, ((INTENT, 10, 1),)),
    e.Ordered("deploy", {"order": "d", "machine_id": 42001, "min_rate": 29.0}),
    e.CreateSent(INTENT),
    e.CreateAnswered(INTENT, "ok", C),
    e.DestroySent(C, 1),
    e.DestroyAnswered(C, "ok"),
    e.StartAnswered(C, True),
    e.PostMortemSaved(INTENT, True),
    e.Rent("capacity", INTENT, 0, "", offer(1), 250.0, None, 38.0, "ceil(0.3 / 0.008)"),
    e.End("active", INTENT, "slow", "rate", "too slow", "machine", {"rate": 20.5, "upper": None, "fingerprint": "f"}),
    e.Extra("duplicate", ContractId(2), "duplicate", "second of one intent"),
    e.Gone("gone", C, INTENT, "absent"),
    e.Resolved("resolve", INTENT, C, "label found"),
    e.Adopted("orphan", IntentId("r0009"), ContractId(9), M, H, 0.3, 38.0, "ceil"),
    e.Directed("crash", INTENT, "retry.0.aa0", "retry", {"p": 6, "concurrency": 2, "after": "oom"}, "once more"),
    e.Judged("benchmark", INTENT, "passed", 41.3, 11, "fast enough"),
    e.Marked("lost", INTENT, "suspect", True, "unlisted"),
    e.Repriced("reprice", INTENT, 0.4, 50.0, "ceil(0.4 / 0.008)"),
    e.Struck("blacklist", M, INTENT, False, "f", "slow"),
    e.Blacklisted("blacklist", M, "slow twice", 1_780_000_000_000_000_000, False),
    e.Braked("systemic", "f", True, "three alike", {"cards": ["RTX 4090"]}),
    e.Alerted("lost", "r0001", "unlisted", M),
    e.Restart("restart", INTENT, C, "credit is back"),
]
