"""The cards of a cluster and everything that is allocated on them, as the service would see them.

A node with a ``NodeLedger`` counts by it, with the repairs that the reconciler would make; a node
without one counts by the records on its pods.
"""

import uuid
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import msgspec

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import GangCache
from adapters.cli.input.document import load_yaml
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.dialects.adoption import FINISHED, may_use_cards
from adapters.dialects.device_plugins import read_plugin_node
from adapters.dialects.dialect import Defaults, Dialect, DialectError, Document, Documents
from adapters.dialects.dra.claims import without_claimed
from adapters.dialects.host_quota import host_limits
from adapters.dialects.merge import read_node
from adapters.repairs.plan import reconcile
from adapters.repairs.repairs import LOST_LEDGER, NodeView, Repair, repaired
from adapters.stores.store import stored_of
from adapters.wire.agent_report import NO_REPORTS, AgentReports
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import ConfigMap, KubeNode, Pod, WorkloadRef
from adapters.wire.kube_policy import RESOURCE_QUOTA, PodGroupObject, limits_of_extended_resources
from adapters.wire.records import hardware
from adapters.wire.records.hardware import HardwareRecordError, NodeHardware
from adapters.wire.records.ledger import LedgerObject, LedgerRecordError
from adapters.wire.records.quota import QuotaRecordError, read_quota
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import NO_LIMITS
from core.quota.quota import Quota
from core.requests.gang import GangRef

T = TypeVar("T", Pod, ResourceClaim)

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "dragoman.dev")
"""Namespace of the uids for pods without one; each follows from the pod's namespace and name."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node.

    Attributes:
        kube: the node object.
        ledger: everything that counts as allocated.
        stored: its NodeLedger; None where there is none, or where it cannot be read.
        unreadable: why its NodeLedger cannot be read; None where it can, or there is none.
        repairs: by which ``ledger`` differs from ``stored``, in order.
        pods: the pods that are bound to it and may use cards.
        problems: with its description, as sentences.
        sliced: by driver, the cards that its ResourceSlices describe, by uuid.
        agent: what its agent reports; None where there is none.
    """

    kube: KubeNode
    ledger: NodeLedger
    stored: NodeLedger | None = None
    unreadable: str | None = None
    repairs: tuple[Repair, ...] = ()
    pods: tuple[Pod, ...] = ()
    problems: tuple[str, ...] = ()
    sliced: Mapping[str, frozenset[str]] = field(default_factory=dict)
    agent: NodeHardware | None = None

    @property
    def node(self) -> Node:
        """The node with its cards."""
        return self.ledger.node


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes and pods.

    Attributes:
        dialects: configured with the settings of the cluster.
        nodes: by name, in order of the input.
        pods: by ``namespace/name``, in order of the input; each has a uid.
        problems: what is wrong and belongs to no single node, as sentences.
        quotas: by namespace, as the objects have them.
        agents: what the node agents report; nothing where they were not asked.
        unused_ledgers: the names of NodeLedgers without a node.
        unused_claims: by uid of claims with devices, why no pod uses them.
        claims: all claims, with their classes and devices.
        groups: the objects of gangs.
        made: by ``namespace/name`` of a pod that does not exist yet, the workload that makes it.
    """

    dialects: tuple[Dialect, ...]
    nodes: Mapping[str, NodeState]
    pods: Mapping[str, Pod]
    problems: tuple[str, ...]
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    agents: AgentReports = NO_REPORTS
    unused_ledgers: tuple[str, ...] = ()
    unused_claims: Mapping[str, str] = field(default_factory=dict)
    claims: ClaimCache = field(default_factory=lambda: ClaimCache(lambda _: None))
    groups: Mapping[GangRef, PodGroupObject] = field(default_factory=dict)
    made: Mapping[str, WorkloadRef] = field(default_factory=dict)

    def gangs(self) -> GangCache:
        """Return the gangs, in the words of every scheduler."""
        cache = GangCache()
        for ref, group in self.groups.items():
            cache.put_group(ref.api, group)
        for pod in self.pods.values():
            cache.put(pod)
        return cache

    def without_cards(self) -> tuple[str, ...]:
        """Return a sentence where no node has a card: the input probably lacks what describes them.

        Nodes that a vendor's device plugin serves need no description.
        """
        states = self.nodes.values()
        if not states and self.pods:
            return (
                "the input has pods and no nodes, so nothing is known of cards:"
                " add the output of kubectl get nodes",
            )
        if not states or any(each.node.cards or read_plugin_node(each.kube) for each in states):
            return ()
        problem = next((problem for each in states for problem in each.problems), None)
        why = problem or (
            "no annotation of a device plugin, no Device and no NodeLedger describes any"
        )
        return (f"none of {len(self.nodes)} nodes has cards: {why}",)

    def warnings(self) -> tuple[str, ...]:
        """Return what of the nodes and the rest of the input is not as it seems, as sentences."""
        of_nodes = (
            problem
            if problem.startswith((f"node {name}", f"Device {name}"))
            else f"node {name}: {problem}"
            for name, state in self.nodes.items()
            for problem in (*state.problems, *filter(None, (state.unreadable,)))
        )
        unused = (
            f"NodeLedger {name}: no Node has this name, so its allocations are ignored"
            for name in self.unused_ledgers
        )
        return (*of_nodes, *self.problems, *unused, *self.without_cards())

    def pending(self) -> list[Pod]:
        """Return the pods that wait for a node."""
        return [
            pod
            for pod in self.pods.values()
            if not pod.spec.node_name
            and pod.status.phase not in FINISHED
            and pod.metadata.deletion_timestamp is None
        ]


def read_fleet(manifests: Manifests, defaults: Defaults) -> Fleet:
    """Read all nodes, and adopt what is allocated on them.

    Raises:
        InputError: a settings file or a ShareQuota cannot be used.
    """
    dialects = configured_dialects(manifests.config_maps, defaults)
    pods = {name: with_uid(pod) for name, (pod, _) in manifests.pods.items()}
    reader = _Reader(manifests, dialects, pods.values())
    nodes = {name: reader.state(kube) for name, (kube, _) in manifests.nodes.items()}
    problems = [
        *manifests.problems,
        *(
            f"Device {name}: no Node has this name, so its cards are ignored"
            for name in manifests.devices
            if name not in nodes
        ),
    ]
    owners: dict[str, str] = {}
    problems += (
        f"card {card.uuid} is on {owners[card.uuid]} and {name}"
        for name, state in nodes.items()
        for card in state.node.cards
        if owners.setdefault(card.uuid, name) != name
    )
    quotas, unread = _quotas(manifests, dialects)
    return Fleet(
        dialects,
        nodes,
        pods,
        (*problems, *unread),
        quotas,
        unused_ledgers=tuple(sorted(manifests.ledgers.keys() - nodes.keys())),
        unused_claims=reader.unused_claims,
        claims=reader.known,
        groups={ref: group for ref, (group, _) in manifests.groups.items()},
        made=manifests.made,
    )


def _quotas(
    manifests: Manifests, dialects: Sequence[Dialect]
) -> tuple[dict[str, Quota], list[str]]:
    """Read ShareQuotas and ResourceQuotas, and what is wrong with these, as sentences.

    The strictest ResourceQuota of a namespace holds, and most limit nothing here.
    """
    quotas: dict[str, Quota] = {}
    for namespace, (thing, place) in manifests.quotas.items():
        try:
            quotas[namespace] = read_quota(thing)
        except QuotaRecordError as error:
            raise InputError(place, str(error)) from error
    problems: list[str] = []
    for host, place in manifests.resource_quotas:
        namespace = host.metadata.namespace or "default"
        stated = host_limits(limits_of_extended_resources(host), dialects)
        name = f"{place}: {RESOURCE_QUOTA} {namespace}/{host.metadata.name}"
        problems += (f"{name}: {each}" for each in stated.problems)
        if stated.limits != NO_LIMITS:
            quota = quotas.get(namespace, Quota(namespace))
            limits = quota.host_limits.strictest(stated.limits)
            quotas[namespace] = replace(quota, host_limits=limits)
    return quotas, problems


class _Reader:
    def __init__(
        self, manifests: Manifests, dialects: Sequence[Dialect], pods: Iterable[Pod]
    ) -> None:
        self._manifests = manifests
        self._dialects = dialects
        self.known = ClaimCache(lambda _: None)
        for published, _ in manifests.slices.values():
            self.known.put_slice(published)
        for rule, _ in manifests.rules.values():
            self.known.put_rule(rule)
        for of_devices, _ in manifests.classes.values():
            self.known.put_class(of_devices)
        for name, (template, _) in manifests.templates.items():
            self.known.put_template(name, template)
        for claim, _ in manifests.claims.values():
            self.known.put_claim(with_uid(claim, "ResourceClaim "))
        self.unused_claims = {claim.uid: "no pod uses it" for claim in self.known.unused()}
        self._bound: dict[str, str] = {}
        self._by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.status.phase not in FINISHED:
                self._bound[pod.metadata.uid] = pod.spec.node_name or ""
            if may_use_cards(pod):
                extended = pod.status.extended_resource_claim_status
                if extended is not None:
                    named = f"{pod.metadata.namespace or 'default'}/{extended.resource_claim_name}"
                    is_made = any(one.name == named for one in self.known.of_pod(pod.metadata.uid))
                    pod = without_claimed(pod) if is_made else pod
                self._by_node.setdefault(pod.spec.node_name or "", []).append(pod)

        for held in self.known.all() if self._bound else ():
            if held.pods and not any(each.uid in self._bound for each in held.pods):
                names = ", ".join(each.name for each in held.pods)
                self.unused_claims[held.uid] = f"is reserved for {names}, and no such pod runs"

    def state(self, kube: KubeNode) -> NodeState:
        name = kube.metadata.name
        item, _ = self._manifests.ledgers.get(name, (None, None))
        newer = self._manifests.newer_ledgers.get(name)
        agent: NodeHardware | None = None
        unreadable: str | None = None
        stored: NodeLedger | None = None
        try:
            if item is not None:
                agent = hardware.decode(item.status, name)
                stored = _decoded(name, item)
                if newer is not None:  # what was committed while the pods were read counts too
                    for uid, allocation in _decoded(name, newer).allocations.items():
                        if uid not in stored.allocations:
                            stored = stored.adopt(allocation)
        except (LedgerRecordError, HardwareRecordError) as error:
            unreadable = str(error)
        device, _ = self._manifests.devices.get(name, (None, None))
        more = self.known.described(name)
        node, problems = read_node(kube, device, self._dialects, agent, more)
        pods = tuple(self._by_node.get(name, ()))
        ledger = NodeLedger.of(node) if stored is None else stored
        holdings = () if agent is None else agent.holdings
        claims = self.known.holding(ledger, node)
        bound = ChainMap({held.uid: name for held in claims}, {LOST_LEDGER: ""}, self._bound)
        view = NodeView(ledger, node, pods, bound, holdings=holdings, claims=claims)
        repairs = reconcile(view, self._dialects)
        after = repaired(ledger, repairs)
        sliced = {one.source: frozenset(c.uuid for c in one.cards) for one in more if one.cards}
        return NodeState(kube, after, stored, unreadable, repairs, pods, problems, sliced, agent)


def _decoded(name: str, item: LedgerObject) -> NodeLedger:
    return stored_of(name, item.metadata.resource_version, item.spec).ledger


def with_uid(thing: T, kind: str = "") -> T:
    """Return a pod or claim with a uid: its own, else one of its name, with the kind before it."""
    meta = thing.metadata
    if meta.uid:
        return thing
    name = f"{kind}{meta.namespace or 'default'}/{meta.name}"
    metadata = msgspec.structs.replace(meta, uid=str(uuid.uuid5(NAMESPACE, name)))
    return msgspec.structs.replace(thing, metadata=metadata)


ConfigMaps = Mapping[str, tuple[ConfigMap, InputLocation]]
"""ConfigMaps by ``namespace/name``, with their locations in the input."""


def configured_dialects(config_maps: ConfigMaps, defaults: Defaults) -> tuple[Dialect, ...]:
    """Configure every dialect with the settings in the input.

    Raises:
        InputError: a settings file exists twice, is not YAML, exceeds a limit or has an invalid
            value.
    """
    settings, places = _settings(config_maps)
    try:
        return registry.dialects(settings, defaults)
    except DialectError as error:
        named = [place for (name, _), place in places.items() if name in error.field]
        raise InputError(named[0] if named else "the settings", str(error)) from error


def documents(config_maps: ConfigMaps) -> Documents:
    """Parse the settings files among ConfigMaps.

    Raises:
        InputError: one exists twice, is not YAML or exceeds a limit.
    """
    return _settings(config_maps)[0]


def _settings(config_maps: ConfigMaps) -> tuple[Documents, Mapping[Document, InputLocation]]:
    settings: dict[Document, object] = {}
    places: dict[Document, InputLocation] = {}
    for name, (config, place) in config_maps.items():
        for key, text in (config.data or {}).items():
            document = registry.document_of(config, key)
            if document is None:
                continue
            if document in places:
                problem = f"ConfigMap {name}, data[{key}]: exists in another namespace too"
                raise InputError(place, f"{problem}, at {places[document]}; keep only one")
            where = f"{place}: ConfigMap {name}, data[{key}]"
            settings[document] = load_yaml(text, partial("{}, line {}".format, where))
            places[document] = place
    return settings, places
