"""MIG partitioning on a stand-in of NVML without cards; see ``nvml_stand_in.c``."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.mig_partitioner import MigPartitioner
from adapters.agent.hardware.model import Hardware, HardwareWatcher, Instance
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.hardware.nvml_mig import NvmlMigDriver, NvmlMigReader
from adapters.agent.injection.adjustment import EquipmentSource
from adapters.agent.injection.profiles import PROFILES
from adapters.agent.tests.stand_in import begin, nvml
from core.hardware.card import Card, Mode
from core.hardware.mig import MigKey, Slice
from core.hardware.mig_catalog import geometry
from core.hardware.node import Node as Cards
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, Grant
from core.tests.builders import best_free_slice

MODEL = "NVIDIA A100-SXM4-40GB"
CUT = replace(geometry((MODEL,)), mixed=True)
CARD = Card("GPU-0", "a", 0, "nvidia", MODEL, 40 * GIB, 7, mode=Mode.MIG, geometry=CUT)
EMPTY = NodeLedger.of(Cards("a", (CARD,)))


def slot(profile: str, start: int) -> Slice:
    slices = (found for layout in CUT.layouts for found in layout.slices)
    return next(found for found in slices if (found.profile, found.start) == (profile, start))


def holding(uid: str, taken: Slice) -> Allocation:
    grant = Grant("main", "GPU-0", taken.memory, taken.compute, slice=taken)
    return Allocation(uid, f"ai/{uid}", "volcano", "a", (grant,))


@dataclass
class Setup:
    grants: LedgerGrants
    watcher: HardwareWatcher
    partitioner: MigPartitioner
    source: EquipmentSource

    @property
    def instances(self) -> Mapping[MigKey, Instance]:
        """What containers can get."""
        return self.source.equipment().instances

    @property
    def problems(self) -> Mapping[MigKey, str]:
        return self.partitioner.failed_instances


def setup(library: Any, *, enable: bool = False) -> Setup:
    inventory = NvmlInventory("a", nvml(library))
    grants, watcher = LedgerGrants(), HardwareWatcher(inventory)
    watcher.read_first()
    driver = NvmlMigDriver(NvmlMigReader(inventory.nvml))
    partitioner = MigPartitioner(grants, driver, lambda: watcher.hardware, watcher.read, enable)
    source = EquipmentSource(grants, PROFILES, lambda: watcher.hardware, partitioner)
    return Setup(grants, watcher, partitioner, source)


def repartition(there: Setup, ledger: NodeLedger) -> None:
    there.grants.replace(ledger)
    asyncio.run(there.partitioner.repartition())


def test_the_agent_creates_a_granted_slice_and_containers_can_get_it() -> None:
    there = setup(begin(1, mig=True))

    repartition(there, EMPTY.reserve(holding("p", slot("2g.10gb", 2))).commit("p"))

    assert list(there.instances) == [("GPU-0", "2g.10gb", 2)]
    assert there.problems == {}


def test_a_free_instance_makes_room_and_a_granted_one_stays() -> None:
    library = begin(1, mig=True)
    there = setup(library)
    first = EMPTY.adopt(holding("p", slot("1g.5gb", 3))).adopt(holding("q", slot("1g.5gb", 6)))
    repartition(there, first)
    kept = library.stand_in_serial(0, 6)

    repartition(there, first.release("p").adopt(holding("r", slot("2g.10gb", 2))))

    assert set(there.instances) == {("GPU-0", "2g.10gb", 2), ("GPU-0", "1g.5gb", 6)}
    assert library.stand_in_serial(0, 6) == kept


def test_an_instance_with_a_process_stays_and_is_the_reason_until_the_process_ends() -> None:
    library = begin(1, mig=True)
    there = setup(library)
    key = ("GPU-0", "2g.10gb", 2)
    repartition(there, EMPTY.adopt(holding("p", slot("1g.5gb", 3))))
    library.stand_in_run_at(0, 3, 1)
    wanted = EMPTY.adopt(holding("r", slot("2g.10gb", 2)))

    repartition(there, wanted)
    problems = dict(there.problems)
    library.stand_in_run_at(0, 3, 0)
    repartition(there, wanted)

    assert problems == {key: "1g.5gb at 3 is in its way: a process runs on it"}
    assert there.problems == {}
    assert list(there.instances) == [key]


def test_an_instance_that_a_pod_with_unknown_cards_may_use_stays() -> None:
    library = begin(1, mig=True)
    there = setup(library)
    repartition(there, EMPTY.adopt(holding("p", slot("1g.5gb", 3))))
    unknown = Allocation("s", "ai/s", "volcano", "a", (), unread="?", blocked=frozenset({"GPU-0"}))

    repartition(there, EMPTY.adopt(unknown).adopt(holding("r", slot("2g.10gb", 2))))

    assert there.problems == {("GPU-0", "2g.10gb", 2): "its present instances may be in use"}
    assert library.stand_in_serial(0, 3) == 1


def test_the_agent_enables_mig_mode_only_where_the_operator_allows_it() -> None:
    library = begin(1)
    wanted = EMPTY.adopt(holding("p", slot("2g.10gb", 2)))
    careful, allowed = setup(library), setup(library, enable=True)

    repartition(careful, wanted)
    repartition(allowed, wanted)

    assert careful.problems == {("GPU-0", "2g.10gb", 2): "it is not in MIG mode"}
    assert list(allowed.instances) == [("GPU-0", "2g.10gb", 2)]


def test_a_missing_or_busy_card_is_the_reason() -> None:
    library = begin(1)
    library.stand_in_run(0, 3)
    there = setup(library, enable=True)
    wanted = EMPTY.adopt(holding("p", slot("2g.10gb", 2)))

    repartition(there, wanted)
    busy = list(there.problems.values())
    there.watcher.hardware = Hardware()
    repartition(there, wanted)

    assert busy == ["card GPU-0 is in use: MIG mode cannot be enabled"]
    assert list(there.problems.values()) == ["the card does not answer"]


def test_without_a_ledger_the_agent_changes_nothing() -> None:
    there = setup(begin(1, mig=True))

    asyncio.run(there.partitioner.repartition())

    assert there.watcher.hardware.gpu_instances == {"GPU-0": ()}


def test_waiters_wake_when_an_instance_exists_also_for_a_later_grant() -> None:
    library = begin(1, mig=True)
    there = setup(library)
    grants = there.grants
    one, two = slot("1g.5gb", 0), slot("2g.10gb", 2)

    async def grant(taken: Slice) -> None:
        grants.replace((grants.ledger or EMPTY).adopt(holding(taken.profile, taken)))
        while MigKey("GPU-0", taken.profile, taken.start) not in there.instances:
            change = grants.next_change()
            if MigKey("GPU-0", taken.profile, taken.start) in there.instances:
                change.close()
                return
            await change

    async def scenario() -> None:
        work = asyncio.ensure_future(there.partitioner.run())
        await grant(one)
        await grant(two)
        work.cancel()

    asyncio.run(scenario())
    assert len(there.instances) == 2


class Repartitions(RuleBasedStateMachine):
    """Grants, releases, processes and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.library = begin(1, mig=True)
        self.there = setup(self.library)
        self.ledger = EMPTY
        self.count = 0
        self.running: dict[str, tuple[Slice, int]] = {}

    @rule(memory=st.integers(1, 40))
    def grant(self, memory: int) -> None:
        held = [g.slice for a in self.ledger.allocations.values() for g in a.grants if g.slice]
        found = best_free_slice(CUT, held, memory * GIB, 0)
        if found is None:
            return
        self.count += 1
        try:
            self.ledger = self.ledger.reserve(holding(f"p{self.count}", found)).commit(
                f"p{self.count}"
            )
        except LedgerError:
            return

    @rule()
    def repartition(self) -> None:
        repartition(self.there, self.ledger)

    @rule(data=st.data())
    @precondition(lambda self: self.ledger.allocations)
    def start(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.ledger.allocations)))
        taken = self.ledger.allocations[uid].grants[0].slice
        key = ("GPU-0", taken.profile, taken.start) if taken else ("", "", 0)
        if taken and key in self.there.instances and uid not in self.running:
            self.library.stand_in_run_at(0, taken.start, 1)
            self.running[uid] = (taken, self.library.stand_in_serial(0, taken.start))

    @rule(data=st.data())
    @precondition(lambda self: self.ledger.allocations)
    def free(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.ledger.allocations)))
        self.ledger = self.ledger.release(uid)

    @rule(data=st.data())
    @precondition(lambda self: self.running)
    def end(self, data: st.DataObject) -> None:
        taken, _ = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        self.library.stand_in_run_at(0, taken.start, 0)

    @rule()
    def restart(self) -> None:
        self.there = setup(self.library)

    @invariant()
    def nothing_in_use_is_destroyed(self) -> None:
        for taken, serial in self.running.values():
            assert self.library.stand_in_serial(0, taken.start) == serial

    @invariant()
    def instances_do_not_overlap(self) -> None:
        parts = NvmlMigReader(nvml(self.library)).instances("GPU-0") or ()
        for place, part in enumerate(parts):
            assert not any(part.placement.overlaps(other.placement) for other in parts[:place])

    def teardown(self) -> None:
        for uid in list(self.running):
            taken, _ = self.running.pop(uid)
            self.library.stand_in_run_at(0, taken.start, 0)
        repartition(self.there, self.ledger)
        wanted = {
            ("GPU-0", g.slice.profile, g.slice.start)
            for a in self.ledger.allocations.values()
            for g in a.grants
            if g.slice
        }
        assert wanted <= set(self.there.instances)


def test_in_any_order_instances_in_use_stay_and_granted_ones_are_created() -> None:
    run_state_machine_as_test(
        Repartitions, settings=settings(max_examples=60, stateful_step_count=25, deadline=None)
    )


@given(st.lists(st.sampled_from([s for layout in CUT.layouts for s in layout.slices]), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_library_accepts_the_plan_for_any_grants(wanted: list[Slice]) -> None:
    there = setup(begin(1, mig=True))
    ledger = EMPTY
    for number, taken in enumerate(wanted):
        held = [g.slice for a in ledger.allocations.values() for g in a.grants if g.slice]
        if not any(taken.overlaps(other) for other in held):
            ledger = ledger.adopt(holding(f"p{number}", taken))

    repartition(there, ledger)

    assert there.problems == {}
