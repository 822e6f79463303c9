"""Every guide of configs/examples: its pods, as they stand there, under their own schedulers.

The guides' cards take the place of those that the agents state: what nodes' components say is
on the workers, and the agents have no list. The images behind the guides' names are the test bed's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.oracles.expected import (
    MIB,
    expected_devices,
    expected_env,
    granted_shares,
    slices_in_groups,
)
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.kind.described import use_ledgers_cards, use_no_lists
from e2e.kind.guides import documents, list_if_cut, look, minors, of_kind, staged
from e2e.kind.pods import create, used
from e2e.kind.shell import eventually, get, sh, wait_for
from e2e.tests.guides.expected import EITHER, GUIDES, RECORD_CHECKS

MIG = ("volcano-mig", "volcano-scheduling", "hami-mig")
"""Last: for these the agents have a list of the cards, with their MIG instances."""


MIXED = {name: [(10240, 25)] for name in ("volcano-lab", "koord-lab", "metax-lab")}
"""The pods of the mixed guide that share one card of all dialects."""


def test_the_agents_leave_the_cards_to_the_ledgers(workers: list[str]) -> None:
    use_ledgers_cards(workers)


def test_pods_of_three_dialects_share_the_card_of_the_mixed_guide(workers: list[str]) -> None:
    found = [row for row in documents("mixed") if row["metadata"]["name"] in {"lab-1", *MIXED}]

    with bound(found, MIXED, workers):
        (card,) = used()
        assert used()[card] == 3 * 10240 * MIB


def test_a_namespace_has_no_more_than_the_quota_of_the_guide(workers: list[str]) -> None:
    found = documents("quota")
    sh("kubectl create namespace ml")
    with staged(found, workers):
        *first, last = of_kind(found, "Pod")
        create(*of_kind(found, "ShareQuota"), *first)
        wait_for("pod/half-a-card pod/two-halves", "--namespace=ml", "--for=condition=Ready")
        create(last)

        events = "get events --namespace=ml --field-selector=involvedObject.name=one-more"
        eventually(
            60, lambda: "quota of namespace ml: memory 4 GiB short" in sh(f"kubectl {events}")
        )
        eventually(60, lambda: "1.5 of 2 " in sh("kubectl get sharequotas --all-namespaces"))
        assert "nodeName" not in get("pod one-more", "--namespace=ml")["spec"]
        sh("kubectl delete pod --all --namespace=ml --grace-period=1 --timeout=90s")
        eventually(60, lambda: used() == {})
    sh("kubectl delete namespace ml --timeout=90s")


@pytest.mark.parametrize("guide", [*(name for name in GUIDES if name not in MIG), *MIG])
def test_every_pod_of_the_guide_goes_the_whole_way(guide: str, workers: list[str]) -> None:
    with bound(documents(guide), GUIDES[guide], workers) as pods:
        if guide in RECORD_CHECKS:
            RECORD_CHECKS[guide](pods)


@contextmanager
def bound(
    found: Sequence[Object], amounts: Mapping[str, list[tuple[int, int]]], workers: Sequence[str]
) -> Iterator[dict[str, Object]]:
    """A guide's pods, by name, while they run on the workers; their records are right."""
    pods = of_kind(found, "Pod")
    names = [row["metadata"]["name"] for row in pods]
    assert sorted(names) == sorted(amounts)
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

        running = {row["metadata"]["name"]: row for row in get("pods")}
        for worker, described in nodes.items():
            mine = [running[name] for name in names if running[name]["spec"]["nodeName"] == worker]
            check(get(f"nodeledger {worker}")["spec"], minors(found, described), mine, amounts)
        yield running

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
