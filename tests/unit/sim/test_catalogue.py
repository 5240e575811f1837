"""The catalogue of faults: complete, typed, and every default is a value that a file could write."""

from __future__ import annotations

import pytest

from sim.faults.catalogue import BLAMES, FAMILIES, KINDS, REQUIRED, blame_of, duration_s, nearest
from sim.scenario import parse
from sim.show import example
from sim.spec import FaultSpec
from sim.swarm_faults import FAMILY_ON, HOW_LONG, MARKS_OF, PARAMETERS, WEIGHTS

# contracts.md section 1, "Fault kinds"
LISTED = {
    "market": "list_empty, list_partial, list_stale, list_garbage, list_gone_410, row_poison, status, rate_limit, "
    "error, hang, lost_request, lost_reply, auth_broken, key_scope, no_such_ask, insufficient_credit, create_pending, "
    "create_without_id, offer_reshuffle, price_change, outbid, destroy_fails, get_null, credit_exhausted, "
    "foreign_contract",
    "host": "offline, reboot, container_restart, suspend, clock_skew, clock_step, slow_disk, disk_full, slow_network, "
    "ram_below_offer, neighbour, throttle, gpu_xid, gpu_lost, gpu_missing, nvml_lost, pcie_degraded",
    "prover": "oom, crash, hang, freeze, stuck_gpu, invalid_proofs, bench_error, slow_srs, cache_corrupt",
    "params": "source_down, slow, stall, corrupt",
    "tunnel": "down, half_open, flap, port_busy, rpc_port_missing, slow, wrong_peer",
    "agent": "crash, hang, heartbeat_stall, restart, duplicate, reorder, late, lies, old_version",
    "controller": "crash, restart, offline, suspend, clock_step, db_locked, db_full, db_restored, upgrade, "
    "second_instance",
    "systemic": "image_broken, registry_down",
    "work": "starved, rejected",
    "operator": "kill, blacklist, target, policy, freeze, wrong_id",
}
MACHINE = '[[machine]]\nid = 7\nhost = 70\nprice_usd_per_hour = 0.3\n'


def test_every_kind_of_the_contract_is_there_and_no_other() -> None:
    listed = {f"{family}.{name}" for family, names in LISTED.items() for name in names.split(", ")}
    assert set(KINDS) == listed
    assert list(FAMILIES) == list(LISTED)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_is_whole(name: str) -> None:
    kind = KINDS[name]
    assert kind.blame in BLAMES
    assert kind.doc and "\n" not in kind.doc
    assert len({p.name for p in kind.params}) == len(kind.params)
    for param in kind.params:
        if param.allowed and param.default is not None:
            assert param.default in param.allowed
    if kind.family == "market" and kind.per_call:
        assert kind.param("op") is not None


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_printed_example_reads_back_to_the_defaults(name: str) -> None:
    kind = KINDS[name]
    machine = "machine = 7\n" if kind.family == "operator" else ""
    found = parse(f'name = "x"\n[[fault]]\nkind = "{name}"\n{machine}{example(kind)}\n{MACHINE}').faults[0]
    for param, default in kind.defaults().items():
        assert found.params[param] == default
    assert set(found.params) == {p.name for p in kind.params}
    assert duration_s(found) == kind.for_s


def test_defaults_that_others_rely_on() -> None:
    assert KINDS["controller.crash"].for_s == 20
    assert KINDS["market.lost_reply"].times == 1 and KINDS["market.lost_reply"].for_s is None
    assert KINDS["market.error"].times is None
    assert KINDS["prover.crash"].moment and not KINDS["prover.hang"].moment
    assert KINDS["operator.target"].param("value").default is REQUIRED  # type: ignore[union-attr]
    assert [k for k in KINDS.values() if k.may_be_always] == [*FAMILIES["host"], *FAMILIES["prover"]]


def test_blame_that_depends_on_what_it_is() -> None:
    assert blame_of(FaultSpec("params.corrupt", params={"same_digest": True})) == "source"
    assert blame_of(FaultSpec("params.corrupt", params={"same_digest": False})) == "machine"
    assert blame_of(FaultSpec("work.rejected")) == "nobody"
    assert blame_of(FaultSpec("work.rejected", machines=[7])) == "machine"


def test_durations() -> None:
    assert duration_s(FaultSpec("tunnel.down")) == 2400
    assert duration_s(FaultSpec("tunnel.down", for_s=60.0)) == 60
    assert duration_s(FaultSpec("host.throttle", always=True, for_s=60.0)) is None


@pytest.mark.parametrize(("name", "meant"), [
    ("tunel.down", "tunnel.down"), ("host.oom", "prover.oom"), ("market.lost_replies", "market.lost_reply"),
    ("xyzzy", ""),
])
def test_nearest(name: str, meant: str) -> None:
    assert nearest(name) == meant


def test_the_swarms_tables_name_only_what_exists() -> None:
    assert set(WEIGHTS) == set(KINDS)
    assert set(FAMILY_ON) == set(FAMILIES)
    assert set(PARAMETERS) | set(HOW_LONG) <= set(KINDS)
    assert set(MARKS_OF) <= {*KINDS, *FAMILIES}
