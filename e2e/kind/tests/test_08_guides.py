"""A guide of each dialect (configs/examples): its pods under their own scheduler.

The guide's cards take the place of those that the agents state: what its nodes' components say is
on a worker, and the agents have no list. The images behind the guides' names are the test bed's.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e.harness.oracles.expected import expected_env, granted_shares
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.processes.run import REPOSITORY
from e2e.kind import cards
from e2e.kind.pods import Pod, create, granted, used
from e2e.kind.shell import eventually, get, sh, wait_for
from e2e.tests.guides.expected import GUIDES

CHOSEN = ("volcano-hami-core", "koordinator-gpu-share", "metax-share", "hami-share")
MIB = 2**20
UPGRADE = "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values --wait"
# By it the agent serves MetaX's cards; without it their plugin does.
METAX = {
    "served": True,
    "visible": "METAX_VISIBLE_DEVICES",
    "names": "{indexes}",
    "env": {"METAX_MEMORY_MIB": "{memories}", "METAX_COMPUTE": "{computes}"},
    "cardDevices": ["/dev/card{index}"],
    "devices": ["/dev/mxcd"],
}


@pytest.fixture(scope="module", autouse=True)
def agents_without_cards(workers: list[str]) -> Iterator[None]:
    """The cards are those of the ledgers, which the service reads from nodes and Devices."""
    for node in workers:
        cards.add_devices(node)
    changes = [
        "node.inventory.source=none",
        "node.inventory.file=",
        "node.publish.cards=false",
        "service.settings.publish={volcano,koordinator,metax,hami}",
    ]
    words = " ".join(f"--set '{each}'" for each in changes)
    sh(f"{UPGRADE} {words} --set-json 'node.profiles.metax={json.dumps(METAX)}'", timeout=300)
    for node in workers:
        # As docs/node-agent.md says of an agent that is removed.
        none = "--subresource=status --type=merge -p '{\"status\": null}'"
        sh(f"kubectl patch nodeledger {node} {none}")
    eventually(60, lambda: all("cards" not in row["spec"] for row in get("nodeledgers")))
    yield
    sh(f"{UPGRADE} -f e2e/kind/values.yaml --set node.publish.cards=true", timeout=300)


def documents(guide: str) -> list[dict[str, Any]]:
    text = (REPOSITORY / "configs" / "examples" / f"{guide}.yaml").read_text()
    return [row for row in yaml.safe_load_all(text) if row]


@contextmanager
def described(found: list[dict[str, Any]], node: str) -> Iterator[None]:
    """What a guide says of its node, said of a worker."""
    (row,) = [each for each in found if each["kind"] == "Node"]
    said = {kind: row["metadata"].get(kind) or {} for kind in ("annotations", "labels")}
    devices = [each for each in found if each["kind"] == "Device"]
    try:
        sh(f"kubectl patch node {node} --type=merge -p '{json.dumps({'metadata': said})}'")
        for each in devices:
            create(each | {"metadata": each["metadata"] | {"name": node}})
        eventually(60, lambda: "cards" in get(f"nodeledger {node}")["spec"])
        yield
    finally:
        none = {kind: dict.fromkeys(each) for kind, each in said.items()}
        sh(f"kubectl patch node {node} --type=merge -p '{json.dumps({'metadata': none})}'")
        sh(f"kubectl delete devices.scheduling.koordinator.sh --ignore-not-found {node}")
        eventually(60, lambda: "cards" not in get(f"nodeledger {node}")["spec"])


def minors(found: list[dict[str, Any]]) -> list[str]:
    rows = [each for each in found if each["kind"] == "Device"]
    return [card["id"] for row in rows for card in row["spec"]["devices"]]


def environment(name: str, container: str) -> dict[str, str]:
    rows = sh(f"kubectl exec {name} -c {container} -- env").splitlines()
    return dict(row.split("=", 1) for row in rows if "=" in row)


@pytest.mark.parametrize("guide", CHOSEN)
def test_every_pod_of_the_guide_goes_the_whole_way(guide: str, workers: list[str]) -> None:
    found, node = documents(guide), workers[0]
    pods: list[Pod] = [each for each in found if each["kind"] == "Pod"]
    names = [each["metadata"]["name"] for each in pods]
    assert sorted(names) == sorted(GUIDES[guide])
    with described(found, node):
        for each in pods:
            # One runs in the guide already, and admission rejects a record: here it is bound too.
            if "nodeName" in each["spec"]:
                del each["spec"]["nodeName"], each["metadata"]["annotations"]
            create(each)
        wait_for("pod", *names, "--for=condition=Ready", seconds=120)

        record = get(f"nodeledger {node}")["spec"]
        held = granted(node)
        for name in names:
            grants, row = held[name], get(f"pod {name}")
            amounts = [(each["memory"] // MIB, each["compute"]) for each in grants]
            assert amounts == GUIDES[guide][name], name
            assert shares_of_pod(row, minors(found)) == granted_shares(grants), name
            for container in row["spec"]["containers"]:
                mine = [each for each in grants if each["container"] == container["name"]]
                expected = expected_env(record, mine)
                inside = environment(name, container["name"])
                assert {key: inside.get(key) for key in expected} == expected, name
        sh(f"kubectl delete pod --grace-period=1 --timeout=90s {' '.join(names)}")
        eventually(60, lambda: used() == {})
