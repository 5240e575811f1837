"""Any order of events, duplicated, late, garbled, must not break the pure core: INV-1, 3, 5 and 7 as far as the core
alone can hold them.

The machine drawn here is one rental that *progresses*: every report carries risen counters. Around it come repeated and
old reports, listings that lie in every way, gaps, and noise about other contracts. Whatever the order: it is never
ended, its machine is never listed, and an end that an operator orders is never taken back.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proverfleet.domain.codec import event_from_dict, event_to_dict
from proverfleet.domain.decide import decide
from proverfleet.domain.events import (
    Beat,
    Booted,
    ContractRead,
    CreateAnswered,
    CreateSent,
    End,
    Event,
    EventBody,
    Listed,
    OfferFact,
    Ordered,
    Rent,
    Reported,
    RowFact,
)
from proverfleet.domain.fleet import Fleet
from proverfleet.domain.fold import apply, new_fleet
from proverfleet.domain.ids import ContractId, HostId, IntentId, MachineId, OfferId
from proverfleet.domain.report import Report

INTENT = IntentId("aaaa1111")
CONTRACT = ContractId(900)
MACHINE = MachineId(7)
MINUTE = 60_000_000_000

OFFER = OfferFact(OfferId(1), MACHINE, HostId(1), "RTX 4090", 1, 24_564, 1.0, "AMD EPYC 7543", 516_096, 2000.0, 1000.0,
                  0.32, 0.16, 60.0, 0.0053)
ROW = RowFact(CONTRACT, MACHINE, HostId(1), "pf.fleet.aaaa1111", "running", "running", "running",
              "success, running", 0.32, 90.0, 40.0)
FIRST = Report(rental=INTENT, token="", boot="b1", seq=0, backlog=0, mono_ns=0, clock_id="c", stage="hello", attempt=0,
               p=None, concurrency=None, daemon="current", version="1", bytes_received=0, bytes_hashed=0,
               bytes_total=100, srs_bytes=0, partitions=0, proofs_accepted=0, proofs_failed=0, busy_s=0.0,
               starved_s=0.0, restarts_agent=0, restarts_prover=0, restarts_container=0)
STAGES = ("hello", "params", "warmup", "batch", "active")


class Core(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fleet: Fleet = new_fleet()
        self.seq = 0
        self.beats = 0
        self.now = 0
        self.report = FIRST
        self.sent: list[Report] = []
        self.killed = False
        self.quiet_beats = 0

    def put(self, body: EventBody) -> None:
        self.seq += 1
        event = Event(self.seq, self.now, body)
        assert event_from_dict(event_to_dict(event)) == event
        apply(self.fleet, event)

    @initialize()
    def start(self) -> None:
        self.put(Booted("b", "0", "fleet", {}, 0))
        self.put(Rent("capacity", INTENT, 0, "order1", OFFER, 250.0, None, 40.0, "ceil"))
        self.put(CreateSent(INTENT))
        self.put(CreateAnswered(INTENT, "ok", CONTRACT))
        self.put(Listed("trusted", 1, 0, (ROW,), (), "h"))
        self.progress(0)

    def progress(self, stage: int) -> None:
        r = self.report
        now = max(STAGES.index(r.stage), min(stage, STAGES.index(r.stage) + 1))
        stage_name = STAGES[now]
        proofs = r.proofs_accepted + (1 if now >= 3 else 0)
        mono = r.mono_ns + 55_000_000_000
        done = (*r.last_completions, (proofs, mono))[-20:] if now >= 3 else ()
        self.report = replace(
            r, seq=r.seq + 1, mono_ns=mono, stage=stage_name, p=9 if now >= 2 else None,
            concurrency=3 if now >= 2 else None, bytes_received=min(100, r.bytes_received + 5),
            bytes_hashed=r.bytes_hashed + 1, srs_bytes=r.srs_bytes + (1 if now >= 2 else 0),
            partitions=r.partitions + (10 if now >= 2 else 0), proofs_accepted=proofs, last_completions=done,
            busy_s=r.busy_s + (55.0 if now >= 3 else 0.0), limit_gib=504.0, facts_read=False)
        self.sent.append(self.report)
        self.put(Reported(self.report))
        self.quiet_beats = 0

    @rule(stage=st.integers(0, 4))
    def fresh_report(self, stage: int) -> None:
        self.progress(stage)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def old_report_again(self, data: st.DataObject) -> None:
        self.put(Reported(data.draw(st.sampled_from(self.sent))))

    @rule(trust=st.sampled_from(["empty", "partial", "shrunken", "stale", "malformed", "failed"]))
    def lying_list(self, trust: str) -> None:
        self.put(Listed(trust, 0, 3, (), (), "x", "told so"))

    @rule(status=st.sampled_from(["loading", "unknown", "created", None, "exited?", "rebooting"]))
    def odd_status(self, status: str | None) -> None:
        self.put(Listed("trusted", 1, 0, (replace(ROW, actual_status=status),), (), "s"))
        self.put(Listed("trusted", 1, 0, (ROW,), (), "h"))

    @rule(outcome=st.sampled_from(["absent", "failed"]))
    def by_id_lie(self, outcome: str) -> None:
        self.put(ContractRead(CONTRACT, outcome))

    @rule(gap=st.booleans(), inbox_ok=st.booleans(), list_ok=st.booleans(), step=st.integers(1, 200))
    def beat(self, gap: bool, inbox_ok: bool, list_ok: bool, step: int) -> None:
        if self.quiet_beats >= 8 and not gap and inbox_ok:
            self.progress(0)  # this rental progresses: it is never quiet for ten minutes
        self.beats += 1
        self.now += step * 1_000_000_000
        self.put(Beat(self.beats, min(step, 110) * 1_000_000_000, gap, inbox_ok, list_ok, 0.5,
                      tuple(f"{self.beats:06x}{i:02x}" for i in range(8))))
        self.quiet_beats += 1
        before = repr(self.fleet)
        plan = decide(self.fleet)
        assert repr(self.fleet) == before, "decide changed the fleet"
        assert decide(self.fleet) == plan, "decide is not a function of the fleet"
        ends = [d for d in plan.decisions if isinstance(d, End) and d.intent == INTENT]
        assert not ends or self.killed, f"a progressing rental was ended: {ends}"
        for decision in plan.decisions:
            self.put(decision)

    @rule()
    def operator_kills(self) -> None:
        self.put(Ordered("kill", {"intent": INTENT, "reason": "test"}))
        self.killed = True

    @invariant()
    def nothing_is_revived_and_nobody_is_blamed(self) -> None:
        if not self.fleet.rentals:
            return
        rental = self.fleet.rentals[INTENT]
        if rental.verdict:
            assert rental.stage in ("destroying", "gone")
            assert rental.verdict == "operator"
        assert MACHINE not in self.fleet.blacklist


Core.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None,
                                  suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
TestCore = Core.TestCase
