"""Reports that wait for an answer, oldest first. Bounded, and yet no completion is ever lost to the bound.

Each report carries the completions that no report before it carried. When the bound is reached, an old report is
merged into the one after it; both must be of one attempt and one clock, or the completions would join a wrong rate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from proverfleet.domain.report import Report

REPORTS_MAX = 240
COMPLETIONS_MAX = 200


class Outbox:
    __slots__ = ("reports",)

    def __init__(self) -> None:
        self.reports: deque[Report] = deque()

    def __len__(self) -> int:
        return len(self.reports)

    def add(self, report: Report) -> None:
        self.reports.append(report)
        if len(self.reports) > REPORTS_MAX:
            self._merge_one()

    def oldest(self) -> Report:
        """The next to send; its ``backlog`` says how many will still wait behind it."""
        report = self.reports[0]
        behind = len(self.reports) - 1
        if report.backlog != behind:
            report = self.reports[0] = replace(report, backlog=behind)
        return report

    def answered(self, report: Report) -> None:
        """Takes it off, unless it was merged away while it was on its way."""
        if self.reports and self.reports[0].seq == report.seq:
            self.reports.popleft()

    def _merge_one(self) -> None:
        reports = self.reports
        for i in range(len(reports) - 1):
            old, new = reports[i], reports[i + 1]
            if (
                (old.attempt, old.clock_id, old.p, old.boot) == (new.attempt, new.clock_id, new.p, new.boot)
                and len(old.last_completions) + len(new.last_completions) <= COMPLETIONS_MAX
            ):
                if old.last_completions:
                    reports[i + 1] = replace(new, last_completions=old.last_completions + new.last_completions)
                del reports[i]
                return
        reports.popleft()
