"""The cluster's pods, nodes and Devices as watches tell them, and what of it may need a look.

No I/O: reflectors feed the sinks. Of a pod that names no extended resource only its name, uid and
node are kept.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from adapters.dialects.adopt import may_use_cards
from adapters.dialects.containers import resource_names
from adapters.wire.hardware import NodeHardware
from adapters.wire.kube import DeviceObject, KubeNode, Metadata, Pod, PodSpec

ThingT = TypeVar("ThingT")

Key = tuple[str, str]
"""Namespace and name."""

Changed = Callable[[str], None]
"""Told the name of a node whose ledger may not be what it should be."""


class ObjectKey(Protocol):
    """Which object; a new one of the same name has another uid."""

    @property
    def uid(self) -> str:
        """Its uid."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace; empty where its kind has none."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...


class ClusterCache:
    """What the cluster has.

    Attributes:
        nodes: by name.
        devices: Koordinator's inventories, by the name of their node.
        hardware: what our agents say, by the name of their node.
        unread: objects that cannot be read, with what is wrong.
    """

    def __init__(self, changed: Changed) -> None:
        self.nodes: dict[str, KubeNode] = {}
        self.devices: dict[str, DeviceObject] = {}
        self.hardware: dict[str, NodeHardware] = {}
        self.unread: dict[tuple[str, str, str], str] = {}
        self._changed = changed
        self._pods: dict[Key, Pod] = {}
        self._on: dict[str, set[Key]] = {}

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it was last told."""
        return self._pods.get((namespace, name))

    def holding(self, node: str) -> list[Pod]:
        """The pods that are bound to a node and may hold cards of it."""
        found = (self._pods[key] for key in self._on.get(node, ()))
        return [pod for pod in found if pod.spec.containers and may_use_cards(pod)]

    def put_pod(self, pod: Pod) -> None:
        """A pod is new, or not what it was."""
        key = (pod.metadata.namespace, pod.metadata.name)
        self._leave(key)
        self._pods[key] = _trimmed(pod)
        node = pod.spec.node_name
        if node:
            self._on.setdefault(node, set()).add(key)
            if self._pods[key].spec.containers:
                self._changed(node)

    def drop_pod(self, what: ObjectKey) -> None:
        """A pod is gone: all its containers are."""
        self._leave((what.namespace, what.name))

    def put_node(self, node: KubeNode) -> None:
        """A node is new, or not what it was."""
        self.nodes[node.metadata.name] = node
        self._changed(node.metadata.name)

    def drop_node(self, what: ObjectKey) -> None:
        """A node is gone."""
        self.nodes.pop(what.name, None)
        self._changed(what.name)

    def put_device(self, device: DeviceObject) -> None:
        """A Device is new, or not what it was."""
        self.devices[device.metadata.name] = device
        self._changed(device.metadata.name)

    def drop_device(self, what: ObjectKey) -> None:
        """A Device is gone."""
        self.devices.pop(what.name, None)
        self._changed(what.name)

    def put_hardware(self, node: str, hardware: NodeHardware | None) -> None:
        """What an agent says is new, or nothing any more; nothing happens where it is as it was."""
        if hardware == self.hardware.get(node):
            return
        if hardware is None:
            del self.hardware[node]
        else:
            self.hardware[node] = hardware
        self._changed(node)

    def _leave(self, key: Key) -> None:
        earlier = self._pods.pop(key, None)
        if earlier is None or not earlier.spec.node_name:
            return
        here = self._on.get(earlier.spec.node_name, set())
        here.discard(key)
        if not here:
            self._on.pop(earlier.spec.node_name, None)
        if earlier.spec.containers:
            self._changed(earlier.spec.node_name)


def _trimmed(pod: Pod) -> Pod:
    """Without what nobody asks about, where no resource is named that may be a share of a card."""
    if any("/" in name for name in resource_names(pod)):
        return pod
    meta = pod.metadata
    bare = Metadata(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return Pod(metadata=bare, spec=PodSpec(node_name=pod.spec.node_name), status=pod.status)


class ClusterCacheHandler(Generic[ThingT]):
    """Hands what a reflector tells of one kind to the mirror."""

    def __init__(
        self,
        kind: str,
        mirror: ClusterCache,
        put: Callable[[ThingT], None],
        drop: Callable[[ObjectKey], None],
        synced: Callable[[], None],
    ) -> None:
        """Nothing is told yet.

        Args:
            kind: of the objects, for people.
            mirror: whose they are.
            put: told what is new.
            drop: told what is gone.
            synced: told when all that there was has been told.
        """
        self._kind = kind
        self._mirror = mirror
        self._put = put
        self._drop = drop
        self._synced = synced

    def on_update(self, thing: ThingT) -> None:
        """It is new, or not what it was."""
        if self._mirror.unread:
            meta = getattr(thing, "metadata", Metadata())
            self._mirror.unread.pop((self._kind, meta.namespace, meta.name), None)
        self._put(thing)

    def on_delete(self, what: ObjectKey) -> None:
        """It is no more."""
        self._mirror.unread.pop((self._kind, what.namespace, what.name), None)
        self._drop(what)

    def on_unreadable(self, what: ObjectKey, problem: str) -> None:
        """It is there, and nobody can read it: what was known of it stays."""
        self._mirror.unread[(self._kind, what.namespace, what.name)] = problem

    def on_synced(self) -> None:
        """All that there was has been told."""
        self._synced()
