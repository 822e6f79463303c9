"""The cluster of the tests about claims."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import add_nodes, fake_node, start_kwok
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of, wait_for_nodes
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import Planes, prepare
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.workloads.claims import (
    CARDS,
    NODE,
    RESOURCES,
    SCHEDULERS,
    a_card,
    a_class,
    a_pod,
    a_slice,
)


@pytest.fixture(scope="package")
def plane(planes: Planes) -> Iterator[ControlPlane]:
    """A node with two cards that a slice describes, and two schedulers that have a cache each."""
    names = ("arbiter", "shadows")
    switches = {name: {"enabled": True} for name in names}
    with planes() as made:
        made = replace(made, values={"dra": {"enabled": True, **switches}})
        prepare(made)
        start_kwok(made)
        add_nodes(made.api, [fake_node(NODE)])
        wait_for_nodes(made.api)
        cards = [a_card(number, uuid) for number, uuid in enumerate(CARDS)]
        made.api.create(f"{RESOURCES}/resourceslices", a_slice(NODE, cards))
        made.api.create(f"{RESOURCES}/deviceclasses", a_class())
        for name in SCHEDULERS:
            start_kube_scheduler(made, {"profiles": [{"schedulerName": name}]})
            warm = f"warm-{name}"  # kwok may delete the one before by its name, late
            made.api.create(PODS, a_pod(warm, name))
            within(60, lambda: node_of(made.api, warm) == NODE)  # noqa: B023
            clear(made.api)
        yield made
