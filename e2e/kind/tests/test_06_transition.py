"""docs/guides/transition.md: its commands take a node from NVIDIA's plugin to claims, and back.

The plugin is a stand-in, the driver of claims Kubernetes' example; the kubelet calls both. Three
Deployments run, and wait, through all states: one of a plain pod, of a share, and of a claim.
"""

import json
import re
from collections import Counter
from typing import Any

from typer.testing import CliRunner, Result

from adapters.cli.main import app
from e2e.kind import cards, claims_driver, nvidia
from e2e.kind.documentation import blocks
from e2e.kind.pods import Pod, create, environment, pod, volcano
from e2e.kind.shell import attempt, eventually, get, sh
from e2e.kind.storm import is_ready

PAGE = "docs/guides/transition.md"
NODE = nvidia.NODE
DIALECT, BOTH, ALONE, BACK = (
    "1. `plugin` to `plugin and dialect`",
    "2. To `dialect and claims`",
    "3. To `claims`",
    "The way back",
)
"""Sections of the page."""
PLAIN, SHARE, CLAIM = ALL = ("plain", "share", "claim")
PART = 20 << 10
"""MiB of the share and of the claim, which one card can have."""
ON, OFF = "--set dra.enabled=true", "--set dra.enabled=false"
VOLCANO = "--set 'node.publish.dialects={volcano}' --set 'service.settings.publish={volcano}'"
"""Without HAMi's dialect: a class has its ``nvidia.com/gpu``."""
REPLICAS = "--namespace=dragoman-system --selector=app.kubernetes.io/component=service"
QUIET = re.compile(r"^dragoman_(?:reconciler_drift|allocations_unknown) (.+)$", re.MULTILINE)


def test_claims_are_turned_on_while_a_pod_of_the_plugin_runs(gpu_node: str) -> None:
    (block,) = blocks(PAGE, "Turn claims on")
    cards.install(gpu_node)
    claims_driver.install(gpu_node)
    create(template(), *map(deployment, ALL))

    sh(block.replace(ON, f"{ON} {VOLCANO}"), timeout=300)

    check("plugin", PLAIN)


def test_the_node_goes_to_claims_and_back() -> None:
    before = containers()
    follow(DIALECT)
    check("plugin and dialect", PLAIN, SHARE)
    follow(BOTH)
    check("dialect and claims", *ALL)
    assert before.items() <= containers().items()

    follow(ALONE)
    check("claims", PLAIN, CLAIM)

    before = containers()
    follow(BACK)
    check("dialect and claims", *ALL)
    assert before.items() <= containers().items()
    # The plugin takes a plain pod only while no card has a share.
    sh(f"kubectl scale deployment {SHARE} --replicas=0")
    follow(BACK, part=1)
    eventually(90, lambda: PLAIN in running())
    sh(f"kubectl scale deployment {SHARE} --replicas=1")
    check("plugin and dialect", PLAIN, SHARE)
    follow(ALONE)
    check("plugin", PLAIN)


def test_claims_are_turned_off(workers: list[str]) -> None:
    (block,) = blocks(PAGE, "Turn claims off")
    sh(f"kubectl delete deployment {' '.join(ALL)}")
    sh("kubectl delete resourceclaimtemplate part")
    claims_driver.remove()

    sh(block.replace(OFF, f"{OFF} -f e2e/kind/values.yaml --wait --timeout=4m"), timeout=300)

    assert get("resourceclaims --all-namespaces") == []
    for node in workers:
        eventually(60, lambda node=node: nvidia.GPU in get(f"node {node}")["status"]["allocatable"])


def follow(heading: str, part: int = 0) -> None:
    """Run a block of a section of the page."""
    sh(blocks(PAGE, heading)[part].replace("NODE", NODE), timeout=400)


def template() -> Pod:
    """A template of claims for a part of a card."""
    exactly = {
        "deviceClassName": claims_driver.DRIVER,
        "capacity": {"requests": {"memory": f"{PART}Mi"}},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "part"},
        "spec": {"spec": {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}},
    }


def deployment(name: str) -> Pod:
    """One of the three, whose pod runs on the node or waits for it."""
    limits = {PLAIN: {nvidia.GPU: 1}, SHARE: volcano(PART), CLAIM: {}}[name]
    made = nvidia.tolerant(pod(name, limits, node=NODE))
    if name == CLAIM:
        made["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimTemplateName": "part"}]
        made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "card"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": made["metadata"], "spec": made["spec"]},
        },
    }


def running() -> dict[str, Pod]:
    """The ready pod of each Deployment that has one."""
    rows = get("pods", f"--selector=app in ({','.join(ALL)})")
    return {
        row["metadata"]["labels"]["app"]: row
        for row in rows
        if is_ready(row) and "deletionTimestamp" not in row["metadata"]
    }


def containers() -> dict[str, str]:
    """The container of each, which no step may replace that drains nothing."""
    return {
        name: row["status"]["containerStatuses"][0]["containerID"]
        for name, row in running().items()
    }


def seen() -> dict[str, str]:
    """The card that the container of each sees: by the plugin, by the agent, or by the driver."""
    found = {}
    for name, row in running().items():
        inside = environment(row["metadata"]["name"])
        card = inside.get("NVIDIA_VISIBLE_DEVICES", "void")
        for index in range(cards.CARDS):
            if f"GPU_DEVICE_{index}" in inside:
                assert card == "void", name
                card = cards.uuid(NODE, index)
        found[name] = card
    return found


def check(state: str, *names: str) -> None:
    """Wait until these run, the ledger has their cards, and the page's tools find it so."""
    audit, doctor = blocks(PAGE, "Look first")[0].splitlines()
    eventually(90, lambda: running().keys() == set(names), lambda: [*running()])
    inside = seen()
    assert set(inside.values()) <= set(nvidia.CARDS), inside
    assert [*inside.values()].count(inside[PLAIN]) == 1, inside
    if state != "plugin":
        eventually(60, lambda: held() == Counter(inside.values()), lambda: (held(), inside))

    def said() -> Any:
        rows = json.loads(command(doctor).stdout)["nodes"]
        return next((row for row in rows if row["node"] == NODE), {})

    eventually(60, lambda: said().get("state") == state, said)
    found = command(audit)
    assert not found.exit_code, found.output
    eventually(60, is_quiet)


def command(line: str) -> Result:
    """Run a command of the page in this process: one of its own would take seconds."""
    return CliRunner().invoke(app, [*line.split()[1:], "-o", "json"])


def held() -> Counter[str]:
    """How often each card is in the node's ledger; of a replica of the plugin no part is known."""
    rows = get(f"nodeledger {NODE}")["spec"].get("allocations", ())
    cards = [each["card"] for row in rows for each in row.get("grants", ())]
    return Counter([*cards, *(card for row in rows for card in row.get("blocked", ()))])


def is_quiet() -> bool:
    """Whether the service knows all allocations, and none contradicts another."""
    names = [row["metadata"]["name"] for row in get(f"pods {REPLICAS}")]
    path = "/api/v1/namespaces/dragoman-system/pods/{}:9595/proxy/metrics"
    values = {
        value
        for name in names
        for value in QUIET.findall(attempt(f"kubectl get --raw {path.format(name)}").output)
    }
    return values == {"0.0"}
