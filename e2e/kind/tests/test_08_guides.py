"""Every guide of configs/examples: its pods, as they stand there, under their own schedulers.

The guides' cards take the place of those that the agents state: what nodes' components say is
on the workers, and the agents have no list. The images behind the guides' names are the test bed's.
"""

from collections.abc import Mapping, Sequence

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.oracles.expected import (
    expected_devices,
    expected_env,
    granted_shares,
    slices_in_groups,
)
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.kind.described import use_ledgers_cards, use_no_lists
from e2e.kind.guides import MIB, documents, list_if_cut, look, minors, of_kind, staged
from e2e.kind.pods import create, used
from e2e.kind.shell import eventually, get, sh, wait_for
from e2e.tests.guides.expected import EITHER, GUIDES, RECORD_CHECKS

MIG = ("volcano-mig", "volcano-scheduling", "hami-mig")
"""Last: for these the agents have a list of the cards, with their MIG instances."""


def test_the_agents_leave_the_cards_to_the_ledgers(workers: list[str]) -> None:
    use_ledgers_cards(workers)


@pytest.mark.parametrize("guide", [*(name for name in GUIDES if name not in MIG), *MIG])
def test_every_pod_of_the_guide_goes_the_whole_way(guide: str, workers: list[str]) -> None:
    found = documents(guide)
    pods = of_kind(found, "Pod")
    names = [row["metadata"]["name"] for row in pods]
    assert sorted(names) == sorted(GUIDES[guide])
    with staged(found, workers) as nodes:
        list_if_cut(workers)
        for row in pods:
            # One runs in the guide already, and admission rejects a record: here it is bound too.
            if "nodeName" in row["spec"]:
                del row["spec"]["nodeName"], row["metadata"]["annotations"]
            create(row)
            name = row["metadata"]["name"]
            wait_for(f"pod/{name}", "--for=condition=PodScheduled", seconds=60)
        wait_for("pod", *names, "--for=condition=Ready", seconds=120)

        bound = {row["metadata"]["name"]: row for row in get("pods")}
        for worker, described in nodes.items():
            mine = [bound[name] for name in names if bound[name]["spec"]["nodeName"] == worker]
            check(
                get(f"nodeledger {worker}")["spec"], minors(found, described), mine, GUIDES[guide]
            )
        if guide in RECORD_CHECKS:
            RECORD_CHECKS[guide]({name: bound[name] for name in names})

        sh(f"kubectl delete pod --grace-period=1 --timeout=90s {' '.join(names)}")
        eventually(60, lambda: used() == {})


def check(
    record: Object,
    numbers: Sequence[str],
    pods: Sequence[Object],
    amounts: Mapping[str, list[tuple[int, int]]],
) -> None:
    """Pod, ledger and container say the same of each pod of a node, and what the guide says."""
    allocations = {row["pod"].partition("/")[2]: row for row in record.get("allocations", ())}
    for row in pods:
        name = row["metadata"]["name"]
        grants = allocations[name]["grants"]
        found = [(each["memory"] // MIB, each["compute"]) for each in grants]
        assert found in (amounts[name], EITHER.get(name)), name

        written = shares_of_pod(row, numbers)
        # Volcano writes what was asked for, not what the slice has.
        if "slice" in grants[0] and allocations[name]["dialect"] == "volcano":
            assert [each.card for each in written] == [
                each.card for each in slices_in_groups(grants)
            ], name
        else:
            assert written == granted_shares(grants), name

        for container in row["spec"]["containers"]:
            mine = [each for each in grants if each["container"] == container["name"]]
            inside = look(name, container["name"])
            expected = expected_env(record, mine)
            expected["CUDA_TASK_PRIORITY"] = container["resources"]["limits"].get(
                "nvidia.com/priority"
            )
            assert {key: inside.env.get(key) for key in expected} == expected, name
            assert inside.devices == expected_devices(record, mine), name


def test_agents_without_a_list_use_the_cards_of_the_ledgers_again() -> None:
    use_no_lists()
