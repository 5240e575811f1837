"""The crash points: places between two effects at which the controller may be ended in a test, a line each.

Every name is awaited exactly where its line says (``ControllerPorts.point``); in production nothing happens there.
"""

from __future__ import annotations

POINTS: dict[str, str] = {
    "boot.loaded": "the journal was read and folded; the boot is not written yet",
    "boot.recorded": "the boot stands in the journal; nothing was resumed yet",
    "beat.begin": "a beat starts; nothing was asked yet",
    "beat.listed": "everything that this beat asked was answered; nothing of it is stored",
    "beat.recorded": "the beat and its facts are stored; nothing was decided yet",
    "beat.decided": "decide has answered; its decisions are not stored",
    "beat.committed": "the decisions are stored; nothing was done about them",
    "beat.acted": "the decisions were handed to their tasks",
    "snapshot.saved": "a snapshot was stored",
    "create.intent_committed": "CreateSent is stored; the call has not left",
    "create.replied": "the market answered the create; nobody wrote it down",
    "create.recorded": "the create's outcome is stored",
    "post_mortem.built": "the post-mortem is complete in memory",
    "post_mortem.saved": "the post-mortem is stored; the destroy has not begun",
    "destroy.intent_committed": "DestroySent is stored; the call has not left",
    "destroy.replied": "the market answered the destroy; nobody wrote it down",
    "destroy.recorded": "the destroy's outcome is stored",
    "start.replied": "the market answered the start of a stopped contract; nobody wrote it down",
    "report.received": "a report arrived; nothing of it is stored",
    "report.committed": "the report is stored; the agent has no answer",
    "orders.received": "an operator's order arrived; nothing of it is stored",
    "orders.committed": "the order is stored; the operator has no answer",
}
