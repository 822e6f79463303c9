"""A cluster for one process without Kubernetes: a table of pods in its memory, and its inventory.

It replaces the API server for ``dragoman serve`` with an inventory from files: Bindings write into
the table, and clients create and delete pods over HTTP.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import time_ns

import msgspec
import orjson

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import GangCache
from adapters.dialects.adoption import may_use_cards
from adapters.service.decide.ports import BindError, NoObjects
from adapters.service.decide.service import Service
from adapters.service.web.app import Answer, Call, Route, pod_named, problem
from adapters.stores.store import Conflict, Store
from adapters.wire import body
from adapters.wire.admission import Binding
from adapters.wire.body import BodyError
from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import Entries, KubeNode, Pod, full_name
from adapters.wire.kube_policy import PodGroupObject
from adapters.wire.records.ledger import LedgerRecordError
from core.durations import MILLISECOND
from core.ledger.node_ledger import NodeLedger, metered
from core.quota.quota import Quota
from core.requests.gang import GangRef
from core.requests.request import PodRef

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "dragoman.dev")
"""A pod without a uid gets one in this namespace: the same for the same namespace and name."""

ATTEMPTS = 20
"""Writes of one ledger that may lose to another writer."""

_POD = Decoder(Pod)
_BINDING = Decoder(Binding)


@dataclass(frozen=True, slots=True)
class StaticInventory:
    """The content of the files.

    Attributes:
        ledgers: of all nodes, with everything that is allocated.
        nodes: the objects, by name.
        pods: bound ones have their cards, the others wait to be scheduled.
        claims: all claims, with their classes and devices.
        quotas: of namespaces; what their pods have is counted by the ledgers.
        problems: what could not be read or is inconsistent, as sentences.
        groups: the objects of gangs.
    """

    ledgers: Sequence[NodeLedger] = ()
    nodes: Mapping[str, KubeNode] = field(default_factory=dict)
    pods: Sequence[Pod] = ()
    quotas: Sequence[Quota] = ()
    problems: Sequence[str] = ()
    groups: Mapping[GangRef, PodGroupObject] = field(default_factory=dict)
    claims: ClaimCache = NoObjects.claims


def with_uid(pod: Pod) -> Pod:
    """Return the pod with a uid and a namespace, those that it lacks added."""
    metadata = msgspec.structs.replace(
        pod.metadata,
        namespace=pod.metadata.namespace or "default",
        uid=pod.metadata.uid or str(uuid.uuid5(NAMESPACE, full_name(pod))),
    )
    return msgspec.structs.replace(pod, metadata=metadata)


class LocalCluster:
    """The table of pods, and the nodes, which stay; it implements the ports to the cluster.

    The store may have ledgers of nodes that are not in the files: ``has_all_nodes``.
    """

    revision = 0
    has_all_nodes = False

    def __init__(
        self,
        pods: Iterable[Pod] = (),
        nodes: Mapping[str, KubeNode] | None = None,
        groups: Mapping[GangRef, PodGroupObject] | None = None,
        claims: ClaimCache = NoObjects.claims,
    ) -> None:
        self.claims = claims
        self._nodes = nodes or {}
        self._pods: dict[str, Pod] = {}
        self.gangs = GangCache()
        for ref, group in (groups or {}).items():
            self.gangs.put_group(ref.api, group)
        for pod in pods:
            self.put(pod)
        self.events: list[tuple[str, str, str]] = []

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return the nodes of the inventory, in its order."""
        return self._nodes

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods that are bound to a node and may use cards."""
        pods = self._pods.values()
        return [pod for pod in pods if pod.spec.node_name == node and may_use_cards(pod)]

    def counted(self, pod: Pod) -> Pod:
        """Return the pod: the inventory was read without what its claims have."""
        return pod

    def pods(self) -> list[Pod]:
        """Return all pods."""
        return list(self._pods.values())

    def unbound(self) -> list[Pod]:
        """Return the pods that no scheduler has bound."""
        return [pod for pod in self._pods.values() if not pod.spec.node_name]

    def put(self, pod: Pod) -> Pod:
        """Create a pod, or replace the one of that name."""
        made = with_uid(pod)
        replaced = self._pods.get(full_name(made))
        if replaced is not None:
            self.gangs.drop(replaced.metadata.uid)
        self._pods[full_name(made)] = made
        self.gangs.put(made)
        return made

    def remove(self, name: str) -> Pod | None:
        """Delete a pod, by ``namespace/name``."""
        removed = self._pods.pop(name, None)
        if removed is not None:
            self.gangs.drop(removed.metadata.uid)
        return removed

    async def get(self, pod: PodRef) -> Pod | None:
        """Return a pod of the table, by namespace and name."""
        return self._pods.get(str(pod))

    async def newest(self, pod: PodRef) -> Pod | None:
        """Return the pod that ``get`` returns: the table is no cache."""
        return await self.get(pod)

    async def bind(
        self, pod: PodRef, node: str, annotations: Entries, labels: Entries, version: str = ""
    ) -> None:
        """Write the node, the annotations and the labels into the table.

        Raises:
            BindError: the pod is bound already, does not exist, or has another uid or version.
        """
        name = str(pod)
        found = self._pods.get(name)
        if found is None:
            raise BindError(404, f"pods {name!r} not found")
        if pod.uid not in ("", found.metadata.uid):
            raise BindError(409, f"pod {name} has another uid")
        if version not in ("", found.metadata.resource_version):
            raise BindError(409, f"pod {name} has been modified")
        if found.spec.node_name:
            raise BindError(409, f"pod {name} is already assigned to node {found.spec.node_name}")
        meta = msgspec.structs.replace(
            found.metadata,
            annotations={**(found.metadata.annotations or {}), **annotations},
            labels={**(found.metadata.labels or {}), **labels} or None,
        )
        spec = msgspec.structs.replace(found.spec, node_name=node)
        self._pods[name] = msgspec.structs.replace(found, metadata=meta, spec=spec)
        self.gangs.put(self._pods[name])

    def emit(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        """Keep the last hundred Events."""
        del warning
        self.events = [*self.events[-99:], (full_name(pod), reason, message)]


def routes(cluster: LocalCluster, service: Service) -> dict[tuple[str, str], Route]:
    """Return routes in place of the API server: create, bind, show and delete pods."""

    async def create(call: Call) -> Answer:
        pod = body.read(call.body, _POD)
        if not pod.metadata.name or not pod.spec.containers:
            raise BodyError("metadata.name or spec.containers is missing")
        made = cluster.put(pod)
        return Answer(orjson.dumps(_shown(made)), 201)

    async def bind(call: Call) -> Answer:
        binding = body.read(call.body, _BINDING)
        meta = binding.metadata
        try:
            await cluster.bind(
                PodRef(meta.namespace or "default", meta.name, meta.uid),
                binding.target.name,
                meta.annotations or {},
                meta.labels or {},
            )
        except BindError as error:
            return problem(error.status, error.message)
        return Answer(b"{}", 201)

    async def show(call: Call) -> Answer:
        if not call.rest:
            return Answer(orjson.dumps([_shown(pod) for pod in cluster.pods()]))
        pod = await cluster.get(pod_named(call.rest))
        return problem(404, "no such pod") if pod is None else Answer(orjson.dumps(_shown(pod)))

    async def delete(call: Call) -> Answer:
        service.check_ready()
        full = str(pod_named(call.rest))
        pod = cluster.remove(full)
        uids = {
            held.uid
            for one in service.ledgers.inventory
            for held in one.allocations.values()
            if held.pod == full
        }
        if pod is None and not uids:
            return problem(404, f"no pod {full}")
        freed = [node for uid in uids for node in await service.release(uid)]
        return Answer(orjson.dumps({"deleted": full, "freed": freed}))

    return {
        ("POST", "/local/pods"): Route(create),
        ("POST", "/local/bindings"): Route(bind),
        ("GET", "/local/pods"): Route(show),
        ("GET", "/local/pods/"): Route(show),
        ("DELETE", "/local/pods/"): Route(delete),
    }


def _shown(pod: Pod) -> object:
    return _present(msgspec.to_builtins(pod))


def _present(value: object) -> object:
    """Return a value without the fields that are not set."""
    match value:
        case dict():
            return {key: _present(each) for key, each in value.items() if each is not None}
        case list() | tuple():
            return [_present(each) for each in value]
        case _:
            return value


async def seed(ledgers: Sequence[NodeLedger], store: Store) -> None:
    """Write ledgers; allocations that the store already has stay.

    Raises:
        LedgerRecordError: a record of the store cannot be read.
        OSError: the store did not answer.
    """
    for given in ledgers:
        for _ in range(ATTEMPTS):
            stored = await store.read(given.node.name)
            before = None if stored is None else stored.ledger
            ledger = given
            if before is not None:
                ledger = before if before.node == given.node else before.with_node(given.node)
                for uid, allocation in given.allocations.items():
                    if uid not in ledger.allocations:
                        ledger = ledger.adopt(allocation)
                if ledger is before:
                    break
            ledger = metered(ledger, before, time_ns() // MILLISECOND)
            try:
                await store.write(ledger, stored.version if stored else None)
            except Conflict:
                continue
            break
        else:
            raise LedgerRecordError(f"the ledger of node {given.node.name} changes all the time")
