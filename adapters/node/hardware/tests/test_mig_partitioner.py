"""The library is played by a real shared object without cards; see ``nvml_stand_in.c``."""

import asyncio
from collections.abc import Callable
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

from adapters.node.grants import LedgerGrants
from adapters.node.hardware.mig_partitioner import RETRY_INTERVAL, MigPartitioner
from adapters.node.hardware.nvidia import NvmlInventory
from adapters.node.hardware.nvml import Nvml
from adapters.node.hardware.nvml_mig import NvmlMig
from adapters.node.hook.profiles import PROFILES
from adapters.node.main import NodeAgent
from adapters.node.tests.stand_in import begin
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice, best_free_slice
from core.hardware.mig_catalog import geometry
from core.hardware.node import Node as Cards
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, Grant

MODEL = "NVIDIA A100-SXM4-40GB"
CUT = geometry((MODEL,))
CARD = Card("GPU-0", "a", 0, "nvidia", MODEL, 40 * GIB, 7, mode=Mode.MIG, geometry=CUT)
EMPTY = NodeLedger.of(Cards("a", (CARD,)))


def slot(profile: str, start: int) -> Slice:
    slices = (found for layout in CUT.layouts for found in layout.slices)
    return next(found for found in slices if (found.profile, found.start) == (profile, start))


def holding(uid: str, taken: Slice) -> Allocation:
    grant = Grant("main", "GPU-0", taken.memory, taken.compute, slice=taken)
    return Allocation(uid, f"ai/{uid}", "volcano", "a", (grant,))


def node(library: Any, *, enable: bool = False) -> tuple[NodeAgent, MigPartitioner]:
    inventory = NvmlInventory("a", Nvml(library))
    made = NodeAgent(LedgerGrants(), PROFILES, inventory.read(), inventory=inventory)
    tool = NvmlMig(inventory.nvml)
    made.cutter = MigPartitioner(made.grants, tool, lambda: made.hardware, made.look, enable)
    return made, made.cutter


def cut(there: tuple[NodeAgent, MigPartitioner], ledger: NodeLedger) -> None:
    there[0].grants.replace(ledger)
    asyncio.run(there[1].repartition())


def test_a_granted_slice_is_made_and_can_be_given() -> None:
    there = node(begin(1, mig=True))

    cut(there, EMPTY.reserve(holding("p", slot("2g.10gb", 2))).commit("p"))

    assert list(there[0].equipment().instances) == [("GPU-0", "2g.10gb", 2)]
    assert there[1].failed_instances == {}


def test_what_nobody_holds_makes_room_and_what_somebody_holds_does_not() -> None:
    library = begin(1, mig=True)
    there = node(library)
    first = EMPTY.adopt(holding("p", slot("1g.5gb", 3))).adopt(holding("q", slot("1g.5gb", 6)))
    cut(there, first)
    kept = library.stand_in_serial(0, 6)

    cut(there, first.release("p").adopt(holding("r", slot("2g.10gb", 2))))

    assert set(there[0].equipment().instances) == {("GPU-0", "2g.10gb", 2), ("GPU-0", "1g.5gb", 6)}
    assert library.stand_in_serial(0, 6) == kept


def test_a_process_keeps_its_slice_and_the_refusal_says_so_until_it_ends() -> None:
    library = begin(1, mig=True)
    there = node(library)
    key = ("GPU-0", "2g.10gb", 2)
    cut(there, EMPTY.adopt(holding("p", slot("1g.5gb", 3))))
    library.stand_in_run_at(0, 3, 1)
    wanted = EMPTY.adopt(holding("r", slot("2g.10gb", 2)))

    cut(there, wanted)
    refused = dict(there[1].failed_instances)
    library.stand_in_run_at(0, 3, 0)
    cut(there, wanted)

    assert refused == {key: "1g.5gb at 3 is in its way: a process runs on it"}
    assert there[1].failed_instances == {}
    assert list(there[0].equipment().instances) == [key]


def test_what_a_pod_that_cannot_be_read_may_hold_stays() -> None:
    library = begin(1, mig=True)
    there = node(library)
    cut(there, EMPTY.adopt(holding("p", slot("1g.5gb", 3))))
    stranger = Allocation("s", "ai/s", "volcano", "a", (), unread="?", blocked=frozenset({"GPU-0"}))

    cut(there, EMPTY.adopt(stranger).adopt(holding("r", slot("2g.10gb", 2))))

    assert there[1].failed_instances == {
        ("GPU-0", "2g.10gb", 2): "what it is cut into may be in use"
    }
    assert library.stand_in_serial(0, 3) == 1


def test_mig_mode_is_turned_on_only_where_the_operator_allows_it() -> None:
    library = begin(1)
    wanted = EMPTY.adopt(holding("p", slot("2g.10gb", 2)))
    careful, allowed = node(library), node(library, enable=True)

    cut(careful, wanted)
    cut(allowed, wanted)

    assert careful[1].failed_instances == {("GPU-0", "2g.10gb", 2): "it is not in MIG mode"}
    assert list(allowed[0].equipment().instances) == [("GPU-0", "2g.10gb", 2)]


def test_a_card_that_is_gone_or_busy_is_the_reason() -> None:
    library = begin(1)
    library.stand_in_run(0, 3)
    there = node(library, enable=True)
    wanted = EMPTY.adopt(holding("p", slot("2g.10gb", 2)))

    cut(there, wanted)
    busy = list(there[1].failed_instances.values())
    there[0].hardware = type(there[0].hardware)()
    cut(there, wanted)

    assert busy == ["card GPU-0 is in use: MIG mode stays off"]
    assert list(there[1].failed_instances.values()) == ["it is not there"]


def test_without_a_record_nothing_is_done() -> None:
    there = node(begin(1, mig=True))

    asyncio.run(there[1].repartition())

    assert there[0].hardware.gpu_instances == {"GPU-0": ()}


def test_whoever_waits_is_told_when_it_is_cut_also_of_a_grant_that_comes_meanwhile() -> None:
    library = begin(1, mig=True)
    there = node(library)
    grants = there[0].grants
    one, two = slot("1g.5gb", 0), slot("2g.10gb", 2)

    async def scenario() -> None:
        work = asyncio.ensure_future(there[1].run())
        await until(lambda: ("GPU-0", "1g.5gb", 0) in there[0].equipment().instances, one)
        await until(lambda: ("GPU-0", "2g.10gb", 2) in there[0].equipment().instances, two)
        work.cancel()

    async def until(done: Callable[[], bool], taken: Slice) -> None:
        grants.replace((grants.ledger or EMPTY).adopt(holding(taken.profile, taken)))
        async with asyncio.timeout(RETRY_INTERVAL * 4):
            while True:
                change = grants.next_change()
                if done():
                    change.close()
                    return
                await change

    asyncio.run(scenario())


class Cuts(RuleBasedStateMachine):
    """Grants, frees, processes and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.library = begin(1, mig=True)
        self.there = node(self.library)
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
    def cut(self) -> None:
        cut(self.there, self.ledger)

    @rule(data=st.data())
    @precondition(lambda self: self.ledger.allocations)
    def start(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.ledger.allocations)))
        taken = self.ledger.allocations[uid].grants[0].slice
        key = ("GPU-0", taken.profile, taken.start) if taken else ("", "", 0)
        if taken and key in self.there[0].equipment().instances and uid not in self.running:
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
        self.there = node(self.library)

    @invariant()
    def nothing_in_use_is_destroyed(self) -> None:
        for taken, serial in self.running.values():
            assert self.library.stand_in_serial(0, taken.start) == serial

    @invariant()
    def what_is_cut_does_not_overlap(self) -> None:
        parts = NvmlMig(Nvml(self.library)).instances("GPU-0") or ()
        for place, part in enumerate(parts):
            assert not any(part.placement.overlaps(other.placement) for other in parts[:place])

    def teardown(self) -> None:
        for uid in list(self.running):
            taken, _ = self.running.pop(uid)
            self.library.stand_in_run_at(0, taken.start, 0)
        cut(self.there, self.ledger)
        wanted = {
            ("GPU-0", g.slice.profile, g.slice.start)
            for a in self.ledger.allocations.values()
            for g in a.grants
            if g.slice
        }
        assert wanted <= set(self.there[0].equipment().instances)


def test_in_any_order_what_is_in_use_stays_and_what_is_granted_is_made() -> None:
    run_state_machine_as_test(
        Cuts, settings=settings(max_examples=60, stateful_step_count=25, deadline=None)
    )


@given(st.lists(st.sampled_from([s for layout in CUT.layouts for s in layout.slices]), max_size=6))
@settings(max_examples=60, deadline=None)
def test_whatever_is_granted_the_library_never_refuses_the_plan(wanted: list[Slice]) -> None:
    there = node(begin(1, mig=True))
    ledger = EMPTY
    for number, taken in enumerate(wanted):
        held = [g.slice for a in ledger.allocations.values() for g in a.grants if g.slice]
        if not any(taken.overlaps(other) for other in held):
            ledger = ledger.adopt(holding(f"p{number}", taken))

    cut(there, ledger)

    assert there[1].failed_instances == {}
