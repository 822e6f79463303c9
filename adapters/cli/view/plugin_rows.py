"""Nodes that device plugins serve, and pods with their devices: what is in no ledger."""

from collections.abc import Sequence

from adapters.accounting.pod_requests import dialect_name
from adapters.answer.device_plugins import DeviceUser, devices_text
from adapters.cli.fleet.facts import plugin_devices
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.output.amounts import gib
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import FurtherRows
from adapters.dialects.device_plugins import PluginNode, PluginResource
from adapters.dialects.dialect import Dialect
from adapters.dialects.unread_keys import uncounted
from adapters.wire.kube import pod_ref
from core.hardware.quantity import MIB

NODES = "Served by device plugins, not in the ledger"
PODS = "With devices of device plugins, not in the ledger"

_NODES = (
    Column("NODE"),
    Column("RESOURCE"),
    Column("PRODUCT"),
    Column("MEMORY(GiB)", right=True),
    Column("REPLICAS", right=True),
    Column("IN USE/ALLOCATABLE", right=True),
    Column("CARDS", wide=True, right=True),
    Column("SHARING", wide=True),
    Column("MIG", wide=True),
    Column("UNHEALTHY", wide=True, right=True),
)

_NODE_KEYS = (
    "node", "resource", "product", "memoryMiB", "replicas", "inUse", "allocatable", "cards",
    "sharing", "migStrategy", "unhealthy",
)  # fmt: skip

_PODS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("DIALECT"),
    Column("NODE"),
    Column("DEVICES"),
)

_POD_KEYS = ("namespace", "pod", "dialect", "node", "devices")


def plugin_nodes(fleet: Fleet) -> FurtherRows:
    """Return one row for each resource of device plugins on a node without cards of a ledger."""
    devices = plugin_devices(fleet)
    rows = [
        _node_row(node, resource, devices.in_use(name, resource.name))
        for name, node in devices.nodes.items()
        for resource in node.resources.values()
    ]
    return FurtherRows(NODES, "devicePlugins", _NODES, tuple(rows), _NODE_KEYS)


def uncounted_nodes(fleet: Fleet, only: str | None = None) -> tuple[str, ...]:
    """Return a sentence for each accelerators' resource that Dragoman does not count.

    Args:
        fleet: the cluster.
        only: the name of one node; all nodes for None.
    """
    nodes: dict[str, list[str]] = {}
    for name, state in fleet.nodes.items():
        stated = state.kube.status.allocatable or {}
        for resource in uncounted(stated, fleet.dialects) if only in (None, name) else ():
            nodes.setdefault(resource, []).append(name)
    sentences: list[str] = []
    for resource, names in sorted(nodes.items()):
        stating = f"{names[0]} states" if len(names) == 1 else f"{len(names)} nodes state"
        sentences.append(f"{stating} {resource}, which Dragoman does not count")
    return tuple(sentences)


def device_users(fleet: Fleet, node: str | None = None) -> FurtherRows:
    """Return one row for each pod with devices of a plugin; of one node, or of all for None."""
    users = plugin_devices(fleet).users
    rows = [
        _pod_row(name, user, fleet.dialects)
        for name in users
        for user in users[name]
        if node in (None, name)
    ]
    return FurtherRows(PODS, "devicePlugins", _PODS, tuple(rows), _POD_KEYS)


def _node_row(node: PluginNode, resource: PluginResource, in_use: int) -> Row:
    unhealthy = resource.capacity - resource.allocatable
    return Row(
        f"node/{node.name}",
        (
            node.name, resource.name, resource.product,
            "" if resource.memory is None else gib(resource.memory), str(resource.replicas),
            f"{in_use}/{resource.allocatable}", "" if node.cards is None else str(node.cards),
            resource.sharing, node.mig_strategy, str(unhealthy),
        ),
        {
            "node": node.name, "resource": resource.name, "product": resource.product,
            "memoryMiB": None if resource.memory is None else resource.memory // MIB,
            "replicas": resource.replicas, "inUse": in_use, "allocatable": resource.allocatable,
            "cards": node.cards, "sharing": resource.sharing, "migStrategy": node.mig_strategy,
            "unhealthy": unhealthy,
        },
    )  # fmt: skip


def _pod_row(node: str, user: DeviceUser, dialects: Sequence[Dialect]) -> Row:
    ref = pod_ref(user.pod)
    dialect = dialect_name(user.pod, dialects)
    return Row(
        f"pod/{ref.name}",
        (ref.namespace, ref.name, dialect or "", node, devices_text(user.amounts)),
        {
            "namespace": ref.namespace, "pod": ref.name, "dialect": dialect, "node": node,
            "devices": dict(user.amounts),
        },
    )  # fmt: skip
