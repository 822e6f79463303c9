"""The service's copy of the cluster's pods, nodes and Devices, as the watches report them.

No I/O: reflectors feed it through ``ClusterCacheHandler``. Of a pod that requests no extended
resource it keeps only name, namespace, uid, node, claims and status.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import GangCache
from adapters.accounting.movable import controller
from adapters.cluster.watch.object_tracker import Identity
from adapters.dialects import allocation_record, registry
from adapters.dialects.adoption import may_use_cards
from adapters.dialects.containers import names_extended_resource
from adapters.dialects.dra.claims import claims_of, without_claimed
from adapters.dialects.formats.gpu_fractions import names_fraction
from adapters.service.cluster_state.deleted_pods import Departures
from adapters.wire import kube
from adapters.wire.body import unread_pod
from adapters.wire.records.hardware import NodeHardware
from core.requests.request import PodRef

ObjectT = TypeVar("ObjectT")

Key = tuple[str, str]
"""Namespace and name."""

ObjectKey = Identity | kube.Metadata
"""Names an object; one made again under its name has another uid."""

NodeChanged = Callable[[str], None]
"""Called with the name of a node whose ledger may need a repair."""


class ClusterCache:
    """The newest reported state of each object.

    Attributes:
        nodes: by name.
        node_revision: number of changes to anything by which nodes keep pods away.
        devices: Koordinator's inventories, by the name of their node.
        hardware: reports of our node agents, by the name of their node.
        departures: of deleted pods.
        claims: allocated ResourceClaims, and the slices that describe their devices.
    """

    def __init__(self, *subscribers: NodeChanged, claims_count: bool = False) -> None:
        self.nodes: dict[str, kube.KubeNode] = {}
        self.node_revision = 0
        self.devices: dict[str, kube.DeviceObject] = {}
        self.hardware: dict[str, NodeHardware] = {}
        self.departures = Departures()
        self.claims = ClaimCache(self._claims_changed)
        self._claims_count = claims_count
        self._subscribers = list(subscribers)
        self._end_subscribers: list[NodeChanged] = []
        self._pods: dict[Key, kube.Pod] = {}
        self._pods_of_node: dict[str, set[Key]] = {}
        self._unbound: dict[Key, None] = {}
        self._unread: set[Key] = set()
        self._followers: list[GangCache] = []

    def subscribe(self, subscriber: NodeChanged) -> None:
        """Call a function for each node that changes from now on."""
        self._subscribers.append(subscriber)

    def subscribe_to_ends(self, subscriber: NodeChanged) -> None:
        """Call a function for the node of each pod that ends or is deleted from now on."""
        self._end_subscribers.append(subscriber)

    def follow_pods(self, pods: GangCache) -> None:
        """Hand each pod that is reported from now on to these pods, as it was reported."""
        self._followers.append(pods)

    def notify_all(self) -> None:
        """Call the subscribers for every node, such as after a change of how nodes are read."""
        for node in self.nodes:
            self._notify(node)

    def node_uid(self, name: str) -> str:
        """Return the uid of a node; empty where there is no such node."""
        node = self.nodes.get(name)
        return "" if node is None else node.metadata.uid

    def pod(self, namespace: str, name: str) -> kube.Pod | None:
        """Return a pod; None where no watch has reported it, or where it was deleted."""
        return self._pods.get((namespace, name))

    def holding(self, node: str) -> list[kube.Pod]:
        """Return the pods that are bound to a node, or may be, and may hold cards of it."""
        here = (*self._pods_of_node.get(node, ()), *self._unread)
        pods = (self._pods[key] for key in dict.fromkeys(here))
        return [pod for pod in pods if _may_request(pod) and may_use_cards(pod)]

    def is_named(self, claim: PodRef, node: str) -> bool:
        """Return whether a pod that may use cards of a node names a claim."""
        pods = (self._pods[key] for key in self._pods_of_node.get(node, ()))
        return any(
            pod.metadata.namespace == claim.namespace
            and may_use_cards(pod)
            and claim.name in claims_of(pod)
            for pod in pods
        )

    def consumers(self, node: str) -> list[kube.Pod]:
        """Return the pods that are bound to a node, name ResourceClaims and may use cards."""
        pods = (self._pods[key] for key in self._pods_of_node.get(node, ()))
        return [pod for pod in pods if _names_claims(pod) and may_use_cards(pod)]

    def controlled_by(self, uid: str) -> list[kube.Pod]:
        """Return the pods of a controller that may request a share, by the controller's uid."""
        owned = ((controller(pod), pod) for pod in self._pods.values())
        return [pod for owner, pod in owned if owner is not None and owner.uid == uid]

    def unbound(self) -> list[kube.Pod]:
        """Return the pods that no scheduler has bound, that go on, and that may request a share."""
        pods = (self._pods[key] for key in self._unbound)
        return [
            pod
            for pod in pods
            if pod.status.phase in (None, "Pending") and not pod.metadata.deletion_timestamp
        ]

    def counted(self, pod: kube.Pod) -> kube.Pod:
        """Return a pod without the requests that the ledger counts as those of its claims."""
        return without_claimed(pod) if self._claims_count else pod

    def put_pod(self, pod: kube.Pod) -> None:
        """Add or replace a pod."""
        key = (pod.metadata.namespace, pod.metadata.name)
        for follower in self._followers:
            follower.put(pod)
        earlier = self._pods.get(key)
        self._remove_pod(key)
        node = pod.spec.node_name
        waits = self._claims_count and not node and _names_claims(pod)
        self._pods[key] = _trimmed(self.counted(pod), whole=waits)
        if earlier is not None and not may_use_cards(pod):
            self._ended(earlier)
        if node:
            self._pods_of_node.setdefault(node, set()).add(key)
            if self._pods[key].spec.containers or _names_claims(pod):
                self._notify(node)
        elif self._pods[key].spec.containers:
            self._unbound[key] = None

    def put_unreadable_pod(self, what: kube.Unreadable, problem: str) -> None:
        """Add or replace a pod that cannot be decoded: it may hold each card of its node.

        Where not even its node can be decoded, it may be on each one.
        """
        metadata = kube.Metadata(name=what.name, namespace=what.namespace, uid=what.uid)
        pod, key = unread_pod(metadata, what.raw, problem), (what.namespace, what.name)
        for follower in self._followers:
            follower.put(pod)
        self._remove_pod(key)
        self._pods[key] = pod
        if pod.spec.node_name:
            self._pods_of_node.setdefault(pod.spec.node_name, set()).add(key)
            self._notify(pod.spec.node_name)
        elif not pod.node_known:
            self._unread.add(key)
            self.notify_all()

    def drop_pod(self, key: ObjectKey) -> None:
        """Remove a deleted pod; its containers may still run."""
        for follower in self._followers:
            follower.drop(key.uid)
        deleted = self._pods.get((key.namespace, key.name))
        if deleted is not None and deleted.metadata.uid == key.uid:
            self.departures.note(deleted)
        self._remove_pod((key.namespace, key.name))
        if deleted is not None:
            self._ended(deleted)

    def put_node(self, node: kube.KubeNode) -> None:
        """Add or replace a node."""
        earlier = self.nodes.get(node.metadata.name)
        self.nodes[node.metadata.name] = node
        self.node_revision += earlier is None or _rules(earlier) != _rules(node)
        self._notify(node.metadata.name)

    def drop_node(self, key: ObjectKey) -> None:
        """Remove a deleted node."""
        self.nodes.pop(key.name, None)
        self.node_revision += 1
        self._notify(key.name)

    def put_device(self, device: kube.DeviceObject) -> None:
        """Add or replace a Device."""
        self.devices[device.metadata.name] = device
        self._notify(device.metadata.name)

    def drop_device(self, key: ObjectKey) -> None:
        """Remove a deleted Device."""
        self.devices.pop(key.name, None)
        self._notify(key.name)

    def put_hardware(self, node: str, hardware: NodeHardware | None) -> None:
        """Add or replace an agent's report; None removes it.

        Subscribers are called only where the report differs: agents write theirs again and again.
        """
        if hardware == self.hardware.get(node):
            return
        if hardware is None:
            del self.hardware[node]
        else:
            self.hardware[node] = hardware
        self._notify(node)

    def _claims_changed(self, nodes: Collection[str] | None) -> None:
        for node in self.nodes if nodes is None else nodes:
            self._notify(node)

    def _notify(self, node: str) -> None:
        for subscriber in self._subscribers:
            subscriber(node)

    def _ended(self, earlier: kube.Pod) -> None:
        """Call who waits for cards, where a pod had some up to now."""
        if earlier.spec.node_name and _may_request(earlier) and may_use_cards(earlier):
            for subscriber in self._end_subscribers:
                subscriber(earlier.spec.node_name)

    def _remove_pod(self, key: Key) -> None:
        earlier = self._pods.pop(key, None)
        self._unbound.pop(key, None)
        if key in self._unread:
            self._unread.discard(key)
            self.notify_all()
        if earlier is None or not earlier.spec.node_name:
            return
        node = earlier.spec.node_name
        here = self._pods_of_node.get(node, set())
        here.discard(key)
        if not here:
            self._pods_of_node.pop(node, None)
        if _may_request(earlier):
            self._notify(node)


def _rules(node: kube.KubeNode) -> tuple[object, ...]:
    """Return what of a node may keep a pod away."""
    return node.metadata.labels, node.spec, node.status.allocatable


def _may_request(pod: kube.Pod) -> bool:
    return bool(pod.spec.containers) or isinstance(pod, kube.UnreadPod)


def _names_claims(pod: kube.Pod) -> bool:
    return any(name is not None for name in claims_of(pod))


def _trimmed(pod: kube.Pod, *, whole: bool) -> kube.Pod:
    """Return what the reconciler reads of a pod: no containers where none may request a share.

    Of the annotations of a pod with ResourceClaims only the records stay, and what evictions read.
    What only the answer about a waiting pod reads stays of a pod that waits.
    """
    if whole or names_extended_resource(pod) or names_fraction(pod):
        if pod.spec.node_name or pod.status.phase not in (None, "Pending"):
            # It has its node: what decided about that is not needed any more.
            spec = msgspec.structs.replace(pod.spec, affinity=None, tolerations=None)
            status = _without_conditions(pod.status)
            pod = msgspec.structs.replace(pod, spec=spec, status=status)
        if not isinstance(pod, kube.MarkedPod):
            return pod
        spec = msgspec.structs.replace(
            pod.spec,
            containers=_with_marks_only(pod.spec.containers),
            init_containers=_with_marks_only(pod.spec.init_containers),
        )
        return msgspec.structs.replace(pod, spec=spec)
    meta, records = pod.metadata, dict[str, str]()
    if _names_claims(pod):
        has = kube.annotations(pod)
        records = {key: has[key] for key in registry.service_keys() & has.keys()}
    bare = kube.Metadata(
        name=meta.name, namespace=meta.namespace, uid=meta.uid, annotations=records or None
    )
    spec = kube.PodSpec(node_name=pod.spec.node_name, resource_claims=pod.spec.resource_claims)
    if _names_claims(pod):
        end, grace = meta.deletion_timestamp, pod.spec.termination_grace_period_seconds
        bare = msgspec.structs.replace(bare, labels=meta.labels, deletion_timestamp=end)
        spec = msgspec.structs.replace(
            spec, priority=pod.spec.priority, termination_grace_period_seconds=grace
        )
    return kube.Pod(metadata=bare, spec=spec, status=_without_conditions(pod.status))


def _with_marks_only(
    containers: tuple[kube.MarkedContainer, ...] | None,
) -> tuple[kube.MarkedContainer, ...]:
    """Return containers without the variables that admission did not write."""
    return tuple(
        msgspec.structs.replace(
            each, env=tuple(one for one in each.env if one.name == allocation_record.MARK)
        )
        if each.env
        else each
        for each in containers or ()
    )


def _without_conditions(status: kube.PodStatus) -> kube.PodStatus:
    if status.conditions is None:
        return status
    return msgspec.structs.replace(status, conditions=None)


Update = Callable[[ObjectT], None]
Delete = Callable[[ObjectKey], None]


@dataclass(eq=False, slots=True)
class ClusterCacheHandler(Generic[ObjectT]):
    """Puts what a reflector reports of one kind into the cache; an ``EventHandler``.

    After each full list ``synced`` is called, and ``unreadable`` with an object that cannot be
    decoded, and why. None where its earlier state counts, and nothing of one that had none: what it
    describes is not there.
    """

    _update: Update[ObjectT]
    _delete: Delete
    _synced: Callable[[], None]
    _unreadable: Callable[[kube.Unreadable, str], None] | None = None

    def on_update(self, thing: ObjectT) -> None:
        """Put a new or changed object."""
        self._update(thing)

    def on_delete(self, what: ObjectKey) -> None:
        """Drop a deleted object."""
        self._delete(what)

    def on_unreadable(self, what: kube.Unreadable, problem: str) -> None:
        """Put an object that cannot be decoded."""
        if self._unreadable is not None:
            self._unreadable(what, problem)

    def on_synced(self) -> None:
        """Report a full list."""
        self._synced()
