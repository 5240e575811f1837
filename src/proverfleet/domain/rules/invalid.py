"""Wrong proofs end a rental: three in a row, or two of the last hundred, by the self-check or the consumer.

Protects the earnings (I-063, I-064: a card that computes wrongly now and then), and INV-7: while the consumer refuses
everybody's proofs (work.rejected), its word condemns nobody.
"""

from __future__ import annotations

from proverfleet.domain.events import End
from proverfleet.domain.fleet import Fleet, Rental
from proverfleet.domain.pending import Pending, end

RULE = "invalid"
LAST = 100


def check(fleet: Fleet, rental: Rental, pending: Pending) -> End | None:
    policy, last = fleet.policy, rental.last
    if last is not None:
        total = last.proofs_accepted + last.proofs_failed
        failed = sum(1 for n in rental.failed_at if n > total - LAST)
        if last.fails_in_a_row >= policy.invalid_in_a_row or failed >= policy.invalid_of_last_100:
            return _wrong(rental, "the self-check", last.fails_in_a_row, failed, "machine")
    in_a_row, refused = rental.rejected_in_a_row, _refused(rental)
    if in_a_row < policy.invalid_in_a_row and refused < policy.invalid_of_last_100:
        return None
    others = [r for r in pending.live if r is not rental and r.work_results]
    if in_a_row >= policy.invalid_in_a_row:
        alike = sum(1 for r in others if r.rejected_in_a_row > 0)
    else:
        alike = sum(1 for r in others if _refused(r) >= policy.invalid_of_last_100)
    if others and alike * 2 >= len(others):
        return None
    # Without another rental to compare with, the consumer's word ends it but lists no machine.
    blame = "machine" if others else "nobody"
    return _wrong(rental, "the consumer", in_a_row, refused, blame)


def _refused(rental: Rental) -> int:
    return rental.work_results[-LAST:].count(False)


def _wrong(rental: Rental, who: str, in_a_row: int, of_last: int, blame: str) -> End:
    last = rental.last
    if last is not None and last.gpus is not None and any(g.xid for g in last.gpus):
        reason = f"every proof fails on a card in error: {in_a_row} in a row, {of_last} of the last {LAST}"
        return end(rental, RULE, "crashed", "gpu_error", reason, blame, in_a_row=in_a_row, of_last_100=of_last)
    reason = f"wrong proofs by {who}: {in_a_row} in a row, {of_last} of the last {LAST}"
    return end(rental, RULE, "invalid", "wrong_proofs", reason, blame, in_a_row=in_a_row, of_last_100=of_last)
