"""The marketplace itself: machines on offer, contracts on our account, credit. What it says on a call: sim/counter.py.

One offer a machine: the chunk that its spec describes (``gpus`` cards, ``gpu_frac`` of the box). Offer ids are
unstable: a new one whenever the machine comes (back) onto the market. A machine that somebody rents is not on offer.
In scope: search, create on demand or by bid, states and texts, billing by the second, credit and its exhaustion, price
changes, displacement, other people's contracts. Out of scope: several chunks of one box, reserved contracts, volumes,
term ends, who displaced whom among real bidders, the cap of 64 rows on a search (a matter of the wire).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proverfleet.domain.ids import HostId, MachineId, OfferId, parse_mark
from proverfleet.errors import NotFound, Refused
from proverfleet.ports import Offer
from sim.contract import SimContract
from sim.counter import Counter
from sim.ledger import Ledger
from sim.spec import FaultSpec, MachineSpec
from sim.truth import NS, ContractTruth

if TYPE_CHECKING:
    from sim.world import World

USUAL_DISK_GB = 250.0
"""A machine's ``price_usd_per_hour`` is the total with this much disk, the policy's own default."""
STORAGE_USD_PER_GB_MONTH = 0.10
STORAGE_SHARE_MAX = 0.2  # of the machine's price
HOURS_PER_MONTH = 720.0  # reference/vast-api.md section 3.4
BID_SHARE = 0.6  # of the price: the lowest bid where the spec names none
FOREIGN_MACHINES = 900_000
TAKEN_S = (1800, 7200)  # how long somebody else keeps a machine that he took before us
MIN_DISK_GB = 8.0


@dataclass(slots=True)
class Lot:
    """A machine on the market. ``by``: the contract that has it; ``others_until``: somebody else has it till then (ns).
    ``displaced``: somebody outbids everybody on it. ``changes``: price faults that are on, oldest first."""

    spec: MachineSpec
    offer_id: int
    by: int | None = None
    others_until: int = 0
    displaced: list[FaultSpec] = field(default_factory=list)
    changes: list[FaultSpec] = field(default_factory=list)

    @property
    def price_usd_per_hour(self) -> float:
        """With the usual disk, as things stand."""
        price = self.spec.price_usd_per_hour
        for change in self.changes:
            price = changed_price(price, change)
        return price

    @property
    def storage_usd_per_gb_hour(self) -> float:
        usual = STORAGE_USD_PER_GB_MONTH / HOURS_PER_MONTH
        return min(usual, STORAGE_SHARE_MAX * self.spec.price_usd_per_hour / USUAL_DISK_GB)

    def prices(self, disk_gb: float) -> tuple[float, float]:
        """(GPU, storage) in $/h with so much disk."""
        per_gb = self.storage_usd_per_gb_hour
        return max(0.0, self.price_usd_per_hour - per_gb * USUAL_DISK_GB), per_gb * disk_gb

    @property
    def min_bid_usd_per_hour(self) -> float:
        """The lowest bid that gets the machine, without storage."""
        own = self.spec.min_bid_usd_per_hour
        low = own if own is not None else round(BID_SHARE * self.price_usd_per_hour, 4)
        for fault in self.displaced:
            bid = fault.params.get("bid_usd_per_hour")
            low = max(low, float(bid) if bid is not None else 1.1 * self.price_usd_per_hour)
        return low


def changed_price(price: float, change: FaultSpec) -> float:
    """The price under one ``market.price_change``."""
    to = change.params.get("to_usd_per_hour")
    return float(to) if to is not None else price * float(change.params["factor"])


class SimMarket:
    """``live``: contracts that exist, by rising id; ``contracts``: all that ever did."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.contracts: dict[int, SimContract] = {}
        self.live: dict[int, SimContract] = {}
        self.ids: list[int] = []  # of the live ones, rising
        self.ledger = Ledger(world, world.scenario.credit_usd, self._credit_out)
        self.deletes_after_s = 0.0  # after credit ran out; 0: never
        self._dice = world.streams.get("market")
        self._next_contract = 20_000_000
        self._next_foreign = FOREIGN_MACHINES
        self._by_offer: dict[int, Lot] = {}
        self.lots: dict[int, Lot] = {}
        for spec in world.scenario.machines:
            self.lots[spec.id] = lot = Lot(spec, 0)
            self.renumber(lot)
        self.counter = Counter(world, self)

    # ------------------------------------------------------------ offers

    def renumber(self, lot: Lot) -> None:
        """The machine's offer gets a new id."""
        self._by_offer.pop(lot.offer_id, None)
        dice = self.world.streams.get(f"market:{lot.spec.id}")
        while True:
            offer_id = dice.randint(10_000_000, 39_999_999)
            if offer_id not in self._by_offer:
                break
        lot.offer_id = offer_id
        self._by_offer[offer_id] = lot

    def lot_of_offer(self, offer_id: int) -> Lot | None:
        return self._by_offer.get(offer_id)

    def rentable(self, lot: Lot) -> bool:
        """Is it in the search? Not while somebody has it, nor while its host is out of contact."""
        host = self.world.hosts.get(lot.spec.id)
        return (lot.by is None and not lot.displaced and lot.others_until <= self.world.now_ns()
                and (host is None or host.online))

    def offers(self, disk_gb: float) -> tuple[Offer, ...]:
        """What can be rented now with so much disk, cheapest first."""
        found = [self._offer(lot, disk_gb) for lot in self.lots.values()
                 if lot.spec.disk_gb >= disk_gb and self.rentable(lot)]
        found.sort(key=lambda o: (o.price_usd_per_hour, o.machine_id))
        return tuple(found)

    def _offer(self, lot: Lot, disk_gb: float) -> Offer:
        s = lot.spec
        gpu, storage = lot.prices(disk_gb)
        return Offer(
            OfferId(lot.offer_id), MachineId(s.id), HostId(s.host), s.gpu, s.gpus, s.gpu_ram_mb, s.gpu_frac, s.cpu_name,
            s.cpu_cores * s.gpu_frac, round(s.ram_gib * 1024), s.disk_gb, s.inet_down_mbps, s.pcie_gb_per_s,
            s.reliability, round(gpu + storage, 6), lot.min_bid_usd_per_hour,
        )

    def taken_by_others(self, lot: Lot) -> None:
        """Somebody else rents it between our search and our create."""
        lot.others_until = self.world.now_ns() + self._dice.randint(*TAKEN_S) * NS
        self.renumber(lot)

    # ------------------------------------------------------------ contracts

    def create(
        self, offer_id: int, *, label: str | None, image: str, disk_gb: float, env: Mapping[str, str],
        bid_usd_per_hour: float | None = None, pending: bool = False, sent_ns: int | None = None,
    ) -> SimContract:
        """Rents an offer. ``pending``: it exists, stopped, and does not start. A bid below the lowest that wins makes
        such a contract too. Raises Refused (no_such_ask, insufficient_credit)."""
        if self.ledger.empty:
            raise Refused("insufficient_credit", "Your account lacks credit; see the billing page.")
        lot = self._by_offer.get(offer_id)
        if lot is None or not self.rentable(lot):
            raise Refused("no_such_ask", f"Instance type by id {offer_id} is not available.")
        disk_gb = max(MIN_DISK_GB, min(disk_gb, lot.spec.disk_gb))  # too much is silently reduced
        gpu, storage = lot.prices(disk_gb)
        if bid_usd_per_hour is not None:
            gpu = bid_usd_per_hour
            pending = pending or bid_usd_per_hour < lot.min_bid_usd_per_hour
        contract = self._make(
            lot.spec.id, lot.spec.host, label, ours=True, image=image, env=env, disk_gb=disk_gb, gpu=gpu,
            storage=storage, is_bid=bid_usd_per_hour is not None, stopped="pending" if pending else "",
        )
        lot.by = contract.contract_id
        if sent_ns is not None:
            contract.truth.marks["requested"] = [sent_ns]
        self.world.mark("created", contract.contract_id)
        if not pending:
            contract.container = self.world.hosts[lot.spec.id].boot(contract)
        return contract

    def _make(
        self, machine_id: int, host_id: int, label: str | None, *, ours: bool, image: str, env: Mapping[str, str],
        disk_gb: float, gpu: float, storage: float, is_bid: bool, stopped: str,
    ) -> SimContract:
        self._next_contract += self._dice.randint(1, 9)
        found = parse_mark(label)
        truth = ContractTruth(
            self._next_contract, machine_id, host_id, label, ours, found[1] if ours and found else None,
            round(gpu + storage, 9), self.world.now_ns(),
        )
        self.world.truth.contracts[truth.contract_id] = truth
        contract = SimContract(
            self, truth, image=image, env=dict(env), disk_gb=disk_gb, gpu_usd_per_hour=gpu,
            storage_usd_per_hour=storage, is_bid=is_bid, stopped=stopped,
        )
        self.contracts[contract.contract_id] = self.live[contract.contract_id] = contract
        insort(self.ids, contract.contract_id)
        self.world.record("contract", contract_id=contract.contract_id, machine_id=machine_id, ours=ours,
                          price_usd_per_hour=truth.price_usd_per_hour)
        return contract

    def foreign(self, label: str | None, machine_id: int | None, lacks_fields: bool) -> SimContract | None:
        """A contract on our account that is not ours, on a machine of its own unless one is named that is free."""
        lot = self.lots.get(machine_id) if machine_id is not None else None
        if lot is not None and lot.by is not None:
            return None
        if machine_id is None:
            self._next_foreign += 1
            machine_id = self._next_foreign
        contract = self._make(
            machine_id, lot.spec.host if lot is not None else machine_id, label, ours=False, image="someone/else",
            env={}, disk_gb=20.0, gpu=0.2, storage=0.004, is_bid=False, stopped="",
        )
        if lot is not None:
            lot.by = contract.contract_id
        contract.lacks_fields = lacks_fields
        contract.set_status("running", "success, running someone/else/ssh")
        return contract

    def find(self, contract_id: int) -> SimContract:
        """A contract that exists. Raises NotFound."""
        contract = self.live.get(contract_id)
        if contract is None:
            raise NotFound(f"no_such_instance: Instance {contract_id} not found.")
        return contract

    def end(self, contract_id: int, by: str) -> None:
        """Ends a contract; its machine is on offer again, under another id. No-op when it is gone."""
        contract = self.live.pop(contract_id, None)
        if contract is None:
            return
        self.ids.remove(contract_id)
        lot = self.lots.get(contract.machine_id)
        if lot is not None and lot.by == contract_id:
            lot.by = None
            self.renumber(lot)
        contract.end(by)
        self.world.record("contract_gone", contract_id=contract_id, machine_id=contract.machine_id, by=by,
                          paid_usd=round(contract.paid_usd, 6))

    def start(self, contract_id: int) -> None:
        """Asks for a stopped contract to run. Raises NotFound, Refused."""
        contract = self.find(contract_id)
        if not contract.stopped:
            return
        if self.ledger.empty:
            raise Refused("insufficient_credit", "Your account lacks credit; see the billing page.")
        lot = self.lots.get(contract.machine_id)
        if contract.stopped == "pending" or (lot is not None and lot.displaced):
            raise Refused("resources_unavailable", "Required resources are currently unavailable, state change queued.")
        contract.resume()

    def logs(self, contract_id: int) -> str:
        """The container's log. Raises NotFound, Refused while its host is out of contact."""
        contract = self.find(contract_id)
        if contract.container is None:
            return ""
        if not contract.container.host.online:
            raise Refused("invalid_container", "the host does not answer")
        return contract.container.log_text()

    def settle(self) -> None:
        """Brings every bill, and the credit, up to now."""
        for contract in self.live.values():
            contract.settle()
        self.ledger.credit_usd()

    # ------------------------------------------------------------ credit

    def _credit_out(self) -> None:
        """Nothing is left: everything stops at once, disks bill on."""
        for contract in list(self.live.values()):
            contract.halt("credit")
        if self.deletes_after_s > 0:
            self.later(self.deletes_after_s, self._delete_unpaid)

    def _delete_unpaid(self) -> None:
        if self.ledger.empty:
            for contract in list(self.live.values()):
                if contract.stopped == "credit":
                    self.end(contract.contract_id, "market")

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Calls ``what`` after so many seconds."""
        loop = self.world.loop
        loop.at(loop.now_ns + round(seconds * NS), what)
