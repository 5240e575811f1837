"""A contract as a row of the market's answer, true or with one odd field (market.status, market.row_poison).

A typed row takes an odd value as the live client would: anything is carried in label, states and text; a number that
is none is None; a machine or host id that is no whole number is None; a contract id that is none makes the row one that
cannot be read (it is skipped and counted).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proverfleet.domain.ids import ContractId, HostId, MachineId
from proverfleet.ports import Row

if TYPE_CHECKING:
    from sim.contract import SimContract, State
    from sim.spec import FaultSpec

CARRIED = ("label", "actual_status", "intended_status", "cur_state", "next_state", "status_msg")
NUMBERS = {"dph_total": "price_usd_per_hour", "gpu_util": "gpu_util", "disk_usage": "disk_usage_gb"}
IDS = ("machine_id", "host_id")
WRONG_TEXT: Any = 12345
WRONG_NUMBER: Any = ["not", "a", "number"]


def row_of(contract: SimContract, state: State, readings: tuple[float | None, float | None]) -> Row:
    """The true row of a contract in that state."""
    if contract.lacks_fields:
        return Row(ContractId(contract.contract_id), None, None, None, None, None, None, None, None, None, None, None)
    return Row(
        ContractId(contract.contract_id), MachineId(contract.machine_id), HostId(contract.host_id), contract.label,
        state.actual_status, state.intended_status, state.cur_state, state.next_state, state.status_msg,
        state.price_usd_per_hour, *readings,
    )


def odd_value(fault: FaultSpec) -> Any:
    """What a poisoned field holds on the wire ("missing" counts as None: a typed row cannot tell them apart)."""
    how = fault.params["how"]
    if how in ("null", "missing"):
        return None
    if how == "wrong_type":
        return WRONG_TEXT if fault.params["field"] in CARRIED else WRONG_NUMBER
    return fault.params.get("value")


def poisoned(row: Row, fault: FaultSpec) -> Row | None:
    """The row with its one odd field; None: it cannot be read."""
    name, value = str(fault.params["field"]), odd_value(fault)
    if name == "id":
        return replace(row, contract_id=ContractId(value)) if _whole(value) else None
    changes: dict[str, Any] = {}  # none for a field that no typed row has (start_date, num_gpus)
    if name in CARRIED:
        changes[name] = value
    elif name in NUMBERS:
        changes[NUMBERS[name]] = float(value) if _number(value) else None
    elif name in IDS:
        changes[name] = value if _whole(value) else None
    return replace(row, **changes)


def restated(row: Row, fault: FaultSpec) -> Row:
    """The row with another state than the world's (market.status)."""
    changes: dict[str, Any] = {str(fault.params["field"]): fault.params.get("value")}
    if fault.params.get("status_msg") is not None:
        changes["status_msg"] = fault.params["status_msg"]
    return replace(row, **changes)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
