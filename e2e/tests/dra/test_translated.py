"""Pods of the guides, translated to claims, are placed by a stock kube-scheduler.

The API server and the scheduler compile and evaluate the expressions that the translation writes.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from adapters.cli.input.source import Source
from adapters.cli.translate.translation import translate
from adapters.dialects.request_writer import CardFacts
from adapters.wire.quantity import parse
from core.hardware.card import Card, Mode
from core.hardware.quantity import GIB, MIB
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import add_nodes, fake_node
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of, wait_for_nodes
from e2e.harness.processes.waiting import within
from e2e.harness.workloads.claims import (
    CLAIMS,
    RESOURCES,
    SCHEDULERS,
    a_claim_for_slice,
    a_class,
    a_pod,
)
from e2e.harness.workloads.published_cards import published
from e2e.tests.guides.expected import GUIDES

pytestmark = pytest.mark.local("the scheduler is of this control plane")

NODE = "translated-node"
EXAMPLES = Path(__file__).parents[3] / "configs" / "examples"
TEMPLATES = f"{RESOURCES}/namespaces/default/resourceclaimtemplates"
CLASSES = f"{RESOURCES}/deviceclasses"
CHOSEN = "GPU-4a410004-0000-4000-8000-000000000005", "GPU-36beae85-c835-6b14-6ab2-02671837a59c"
"""Cards that pods of the examples choose, of NVIDIA and of MetaX."""

TRANSLATED = {
    "volcano-hami-core": ("nvidia", 80, ["hami-pod", "hami-pod-two-cards"]),
    "volcano-mig": ("nvidia", 80, ["mig-pod", "mig-pod-second"]),
    "koordinator-whole-and-topology": ("nvidia", 80, ["whole-pair"]),
    "metax-share": ("metax", 64, ["sample-pod"]),
    "metax-exclusive": ("metax", 64, ["sample-pod-exclusive"]),
    "metax-specific-card": ("metax", 64, ["sample-pod-specific", "sample-pod-elsewhere"]),
    "hami-share": ("nvidia", 40, ["hami-sharing-1", "hami-sharing-2", "hami-tensor-parallel"]),
    "hami-choice": ("nvidia", 80, ["hami-type-to-use", "hami-type-not-to-use", "hami-uuid-to-use"]),
}
"""Examples, the vendor and the GiB of their cards, and pods in them that our cards suit."""

WHOLE = [(80 * 1024, 100)]
AMOUNTS = GUIDES | {
    "hami-choice": {
        "hami-type-to-use": WHOLE * 2,
        "hami-type-not-to-use": WHOLE * 2,
        "hami-uuid-to-use": WHOLE,
    }
}


def cards() -> Iterator[Card]:
    nvidia = [*(f"GPU-translated-{index}" for index in range(5)), CHOSEN[0]]
    for index, uuid in enumerate(nvidia):
        yield Card(uuid, NODE, index, "nvidia", "NVIDIA A100-SXM4-80GB", 80 * GIB, 10)
    yield Card(
        "GPU-translated-mig",
        NODE,
        6,
        "nvidia",
        "NVIDIA A100-SXM4-40GB",
        40 * GIB,
        7,
        mode=Mode.MIG,
        names=("NVIDIA A100-SXM4-40GB",),
    )
    for index, uuid in enumerate(("GPU-translated-metax", CHOSEN[1])):
        yield Card(uuid, NODE, index, "metax", "MXC500", 64 * GIB, 10)


@pytest.fixture(scope="module")
def devices(plane: ControlPlane) -> Iterator[dict[str, Object]]:
    """A node with the slices that our driver publishes, and its classes; the devices by name."""
    api = plane.api
    add_nodes(api, [fake_node(NODE)])
    wait_for_nodes(api)
    modes = {"mig.dragoman.dev": "== 'mig'", "whole.dragoman.dev": "!= 'mig'"}
    for name, mode in modes.items():
        made_class = a_class(name)
        expression = f"device.attributes['gpu.dragoman.dev'].mode {mode}"
        made_class["spec"]["selectors"].append({"cel": {"expression": expression}})
        api.create(CLASSES, made_class)
    with published(api, NODE, cards()) as found:
        yield found
    for name in modes:
        api.delete(f"{CLASSES}/{name}")


@pytest.mark.parametrize("example", TRANSLATED)
def test_the_pods_of_a_guide_get_their_amounts_by_claims(
    plane: ControlPlane, devices: dict[str, Object], example: str
) -> None:
    api = plane.api
    vendor, memory, expected = TRANSLATED[example]
    text = (EXAMPLES / f"{example}.yaml").read_text()

    made = translate(Source(example, text, named=True), "dra", CardFacts(memory * GIB, vendor))

    objects = [each for each in yaml.safe_load_all(made.text) if each]
    try:
        for each in objects:
            create(api, each, expected)
        for name in expected:
            within(60, lambda name=name: node_of(api, name) == NODE)  # type: ignore[misc]
        found = {name: amounts(api, name, devices) for name in expected}
    finally:
        clear(api, TEMPLATES)
        within(60, lambda: not api.get(CLAIMS)["items"])
    # A claim for a whole card has all its memory, and so no need to reserve compute.
    wanted = {name: sorted(AMOUNTS[example][name]) for name in expected}
    if "whole" in example or "exclusive" in example:
        found = {name: [(mib, 100) for mib, _ in rows] for name, rows in found.items()}
    assert found == wanted


@pytest.mark.usefixtures("devices")
def test_small_slices_leave_room_for_the_largest_beside_them(plane: ControlPlane) -> None:
    """4g.20gb has one start, which the first slice of 1g.5gb by its number would exclude."""
    api = plane.api
    try:
        for name, profile in (("small", "1g.5gb"), ("other", "1g.5gb"), ("large", "4g.20gb")):
            api.create(CLAIMS, a_claim_for_slice(name, profile))
            create(api, {"kind": "Pod", **a_pod(name, SCHEDULERS[0], name)}, [name])
            within(60, lambda name=name: node_of(api, name) == NODE)  # type: ignore[misc]
    finally:
        clear(api)
        api.delete(CLAIMS)
        within(60, lambda: not api.get(CLAIMS)["items"])


def create(api: Api, document: Object, names: list[str]) -> None:
    """Create a template, or one of these pods for the node."""
    document.setdefault("metadata", {}).pop("namespace", None)
    if document["kind"] == "ResourceClaimTemplate":
        api.create(TEMPLATES, document)
    elif document["kind"] == "Pod" and document["metadata"]["name"] in names:
        selector = {"kubernetes.io/hostname": NODE}
        document["spec"] |= {"schedulerName": SCHEDULERS[0], "nodeSelector": selector}
        api.create(PODS, document)


def amounts(api: Api, pod: str, devices: dict[str, Object]) -> list[tuple[int, int]]:
    """MiB and percent of each card that a pod has by its claims."""
    found: list[tuple[int, int]] = []
    for claim in api.get(CLAIMS)["items"]:
        if any(each["name"] == pod for each in claim["metadata"]["ownerReferences"]):
            for result in claim["status"]["allocation"]["devices"]["results"]:
                capacity = devices[result["device"]]["capacity"]
                whole = {name: each["value"] for name, each in capacity.items()}
                had = whole if "shareID" not in result else result["consumedCapacity"]
                memory = parse(str(had["memory"])) / MIB
                found.append((int(memory), int(parse(str(had.get("compute", 0))))))
                assert memory == Fraction(int(memory))
    return sorted(found)
