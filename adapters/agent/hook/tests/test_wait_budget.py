from pathlib import Path

import pytest

from adapters.agent.hook.create_container import CAPACITY, REFILL, WaitBudget
from adapters.agent.hook.tests.runtime import RESULT, running, subject
from adapters.agent.nri import ttrpc
from adapters.dialects import allocation_record
from e2e.harness.processes.waiting import within


def test_the_agent_waits_a_tenth_of_the_time_in_the_long_run() -> None:
    now, waited = [0.0], 0.0
    budget = WaitBudget(lambda: now[0])

    for _ in range(10_000):  # pods without end, each worth a wait
        if budget.left > 0:
            budget.spend(1.3)
            now[0] += 1.3
            waited += 1.3
        else:
            now[0] += 0.1

    assert waited <= CAPACITY + 1.3 + REFILL * now[0]


def test_the_budget_is_full_after_a_while_and_no_fuller() -> None:
    now = [0.0]
    budget = WaitBudget(lambda: now[0])
    budget.spend(CAPACITY + 1)
    spent = budget.left
    now[0] = 1e6

    assert spent < 0
    assert budget.left == pytest.approx(CAPACITY)


def test_an_author_with_many_pods_blocks_the_node_for_a_bounded_time(tmp_path: Path) -> None:
    once = WaitBudget(lambda: 0.0, capacity=1e-9)  # the shortest wait exhausts it
    with running(tmp_path, watched=False, budget=once) as at:
        at.runtime.activate()

        codes = [
            at.runtime.call("CreateContainer", subject(f"pod-{number}", RESULT), timeout=0.4).code
            for number in range(6)
        ]

        # The first one waited until its deadline, the others not at all.
        assert codes == [ttrpc.DEADLINE_EXCEEDED] + [ttrpc.UNKNOWN] * 5


def test_images_with_admissions_mark_delay_no_other_container(tmp_path: Path) -> None:
    once = WaitBudget(lambda: 0.0, capacity=1e-9)  # the shortest wait exhausts it
    with running(tmp_path, watched=False, budget=once) as at:
        at.runtime.activate()
        marked = (f"{allocation_record.MARK}=1", "NVIDIA_VISIBLE_DEVICES=void")

        codes = {
            at.runtime.call("CreateContainer", subject(f"pod-{number}", b"", *marked), 0.4).code
            for number in range(300)
        }
        at.runtime.send("CreateContainer", subject("uid-2", RESULT, *marked))
        within(30, at.waits)
        at.allocate("uid-2")
        _, response = at.runtime.answer()

        assert codes == {ttrpc.UNKNOWN}  # the agent waited for none of them
        assert b"GPU-1" in response.payload


def test_a_grant_that_is_there_is_used_although_the_agent_may_not_wait(tmp_path: Path) -> None:
    with running(tmp_path, budget=WaitBudget(capacity=0)) as at:
        at.runtime.activate()
        at.allocate("uid-1")

        response = at.runtime.call("CreateContainer", subject("uid-1", RESULT))

        assert b"GPU-1" in response.payload
        within(30, lambda: at.counters.adjusted == 1)
