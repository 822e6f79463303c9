"""The allocated ResourceClaims, shadow claims and ResourceSlices of the cluster, by node."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.dra.claims import SHADOW, Claim, allocated, unread_claim
from adapters.dialects.dra.consumption import PoolName
from adapters.dialects.dra.devices import (
    DeviceKey,
    Devices,
    PublishedDevice,
    described,
    keeping_away,
)
from adapters.dialects.dra.holders import holding
from adapters.dialects.dra.shadows import NODE, ShadowDevice, shadows
from adapters.wire import dra
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Metadata, Pod, Unreadable
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import PodRef

REMEMBERED = 20_000
"""Claims whose consumers are remembered."""

Published = tuple[PublishedDevice, dra.SliceDevice]
"""A device as it is read, and as its slice states it."""

_SPEC = Decoder(dra.ClaimSpec)


class _Waiting(NamedTuple):
    """A claim without devices; ``never_had`` is false where a watch may have missed that it had."""

    metadata: Metadata
    spec: bytes
    never_had: bool


NodesChanged = Callable[[Collection[str] | None], None]
"""Called with the names of nodes whose ledger may need a repair; None for all nodes."""


class ClaimCache:
    """The newest reported state of each allocated claim and of each slice.

    Attributes:
        classes: of devices, by name.
        shadows: claims that stand for what others have.
        revision: changes with what claims request, their classes and devices.
    """

    def __init__(self, changed: NodesChanged) -> None:
        """Begin empty: where no watch feeds it, no claim holds anything."""
        self.shadows = ShadowCache(changed)
        self._changed = changed
        self._slices: dict[str, dra.ResourceSlice] = {}
        self._pools: dict[PoolName, dict[str, dra.ResourceSlice]] = {}
        self._by_name: dict[str, Claim] = {}
        self._of_node: dict[str | None, dict[str, Claim]] = {}
        self._of_pod: dict[str, dict[str, Claim]] = {}
        self._devices = Devices(())
        self._is_devices_stale = False
        self.classes: dict[str, dra.DeviceClass] = {}
        self._rules: dict[str, dra.DeviceTaintRule] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._templates: dict[str, tuple[Metadata, bytes]] = {}
        self.revision = 0
        self._numbers: dict[str, int] = {}
        self._consumers: OrderedDict[str, frozenset[PodRef]] = OrderedDict()

    def put_claim(self, claim: dra.ResourceClaim, *, listed: bool = False) -> None:
        """Add or replace a claim; one without an allocation holds nothing.

        Args:
            claim: as a watch reports it.
            listed: whether it is part of a full list, which lacks what the claim was before.
        """
        self.shadows.put(claim)
        name = f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"
        new, had_devices = allocated(claim), name in self._by_name
        self._put(name, new)
        if isinstance(claim, dra.ListedClaim) and new is None:
            known, spec = self._waiting.get(name), bytes(claim.spec)
            never_had = not listed and (not had_devices if known is None else known.never_had)
            self._waiting[name] = _Waiting(claim.metadata, spec, never_had)
            self.revision += known is None or known.spec != spec

    def put_template(self, name: str, template: dra.ClaimTemplate) -> None:
        """Add what claims of some pods are made of, by ``namespace/name``."""
        spec = (template.spec or {}).get("spec") or {}
        self._templates[name] = template.metadata, msgspec.json.encode(spec)

    def put_unreadable_claim(self, what: Unreadable, problem: str) -> None:
        """Add or replace a claim that cannot be decoded: it may have any device."""
        metadata = Metadata(name=what.name, namespace=what.namespace, uid=what.uid)
        new = unread_claim(metadata, bytes(what.raw), problem)
        self._put(new.name, new)

    def _put(self, name: str, new: Claim | None) -> None:
        earlier = self._by_name.get(name)
        if new == earlier:
            return
        self.drop_claim(name)
        if new is not None:
            self._by_name[name] = new
            uid = new.uid
            if earlier is None or earlier.results != new.results:
                self._numbers[uid] = self._numbers.get(uid, 0) + 1
            seen = self._consumers.pop(uid, frozenset[PodRef]())
            self._consumers[uid] = seen.union(new.pods)
            if len(self._consumers) > REMEMBERED:
                forgotten, _ = self._consumers.popitem(last=False)
                self._numbers.pop(forgotten, None)
            for node in _places(new):
                self._of_node.setdefault(node, {})[name] = new
            for pod in new.pods:
                self._of_pod.setdefault(pod.uid, {})[name] = new
            self._changed(new.nodes)

    def never_had_devices(self, live: Metadata) -> bool:
        """Return whether a watch has reported all that a claim was until this version: no devices.

        False where that is not known.
        """
        known = self._waiting.get(f"{live.namespace or 'default'}/{live.name}")
        if known is None or known.metadata.resource_version != live.resource_version:
            return False
        return known.never_had

    def drop_claim(self, name: str) -> None:
        """Remove a claim, by ``namespace/name``."""
        self.shadows.drop(name)
        self.revision += self._waiting.pop(name, None) is not None
        earlier = self._by_name.pop(name, None)
        if earlier is None:
            return
        for node in _places(earlier):
            self._of_node[node].pop(name)
        for uid in {pod.uid for pod in earlier.pods}:
            del self._of_pod[uid][name]
            if not self._of_pod[uid]:
                del self._of_pod[uid]
        self._changed(earlier.nodes)

    def put_slice(self, item: dra.ResourceSlice) -> None:
        """Add or replace a slice."""
        earlier = self._slices.get(item.metadata.name)
        if earlier is not None:
            self._leave_pool(earlier)
        self._slices[item.metadata.name] = item
        self._pools.setdefault(_pool(item), {})[item.metadata.name] = item
        if earlier is None or earlier.spec != item.spec:
            self._slice_changed(item, *(() if earlier is None else (earlier,)))

    def drop_slice(self, name: str) -> None:
        """Remove a slice."""
        earlier = self._slices.pop(name, None)
        if earlier is not None:
            self._leave_pool(earlier)
            self._slice_changed(earlier)

    def is_allocated(self, held: Allocation) -> bool:
        """Return whether the claim of an allocation has devices, on any node."""
        known = self._by_name.get(held.pod)
        return known is not None and known.uid == held.uid

    def allocations(self, uid: str) -> int:
        """Return how many allocations of a claim were reported, one after the other."""
        return self._numbers.get(uid, 0)

    def consumers(self, uid: str) -> frozenset[PodRef]:
        """Return the pods for which a claim was reserved while it was allocated.

        Their containers may run on after the claim was deallocated.
        """
        return self._consumers.get(uid, frozenset())

    def unused(self) -> Iterator[Claim]:
        """Return the claims with devices that are reserved for nothing."""
        return (claim for claim in self._by_name.values() if not claim.is_reserved)

    def all(self) -> Iterator[Claim]:
        """Return the claims with devices."""
        return iter(self._by_name.values())

    def of_pod(self, uid: str) -> Collection[Claim]:
        """Return the claims with devices that are reserved for a pod."""
        return self._of_pod.get(uid, {}).values()

    def uncounted(self, pod: Pod) -> list[str]:
        """Return why no ledger counts devices of cards that a bound pod has by claims."""
        flaws = (
            self.devices.flaw(pod.spec.node_name or "", (result.driver, result.pool, result.device))
            for claim in self.of_pod(pod.metadata.uid)
            for result in claim.results
        )
        return [flaw for flaw in flaws if flaw]

    def wanted(self, pod: Pod) -> Iterator[Claim | dra.RequestedClaim | str]:
        """Return the claims of a waiting pod, each once, or why it is not known what one requests.

        One that is not made yet has what its template states.
        """
        namespace = pod.metadata.namespace or "default"
        made = {each.name: each for each in pod.status.resource_claim_statuses or ()}
        seen: set[str] = set()
        for each in pod.spec.resource_claims or ():
            named = made.get(each.name, each) if each.resource_claim_name is None else each
            name, template = named.resource_claim_name, each.resource_claim_template_name
            if name in seen or (name is None and each.name in made):
                continue  # its template asks for nothing
            key = f"{namespace}/{template if name is None else name}"
            found = (self._templates if name is None else self._waiting).get(key)
            what = f"ResourceClaimTemplate {template}" if name is None else f"ResourceClaim {name}"
            if name is not None:
                seen.add(name)
                if key in self._by_name:
                    yield self._by_name[key]
                    continue
            if found is None:
                yield f"{what} is not known"
                continue
            try:
                yield dra.RequestedClaim(found[0], spec=_SPEC.decode(found[1]))
            except UnreadableError as error:
                yield f"{what} cannot be read: {error}"

    def published(self, node: str) -> "list[Published]":
        """Return the devices of a node, each with what its slice states."""
        own = self.devices.own(node)
        stated = {
            (pool[0], pool[1], device.name): device
            for pool in dict.fromkeys(each.key[:2] for each in own)
            for item in self.pool(pool[0], pool[1], (node,))
            for device in item.spec.devices or ()
        }
        return [(each, stated[each.key]) for each in own if each.key in stated]

    def put_class(self, item: dra.DeviceClass) -> None:
        """Add or replace a class."""
        self.classes[item.metadata.name] = item
        self.revision += 1

    def drop_class(self, name: str) -> None:
        """Remove a class."""
        self.classes.pop(name, None)
        self.revision += 1

    def put_rule(self, item: dra.DeviceTaintRule) -> None:
        """Add or replace a rule that taints devices; their cards may be anywhere."""
        earlier = self._rules.get(item.metadata.name)
        self._rules[item.metadata.name] = item
        if earlier is None or earlier.spec != item.spec:
            self.revision += 1
            self._changed(None)

    def drop_rule(self, name: str) -> None:
        """Remove a rule."""
        if self._rules.pop(name, None) is not None:
            self.revision += 1
            self._changed(None)

    def rule_on(self, key: DeviceKey) -> str:
        """Return the taint that a rule gives a device; empty for none."""
        found = (rule for rule in self._rules.values() if rule.selects(*key))
        return next(filter(None, (keeping_away(rule.spec.taint) for rule in found)), "")

    @property
    def rules(self) -> Collection[dra.DeviceTaintRule]:
        """The rules that taint devices."""
        return self._rules.values()

    def pool(
        self, driver: str, name: str, nodes: Collection[str] | None = None
    ) -> list[dra.ResourceSlice]:
        """Return the slices of the newest generation of a pool, on each node.

        Args:
            driver: of the pool.
            name: of the pool.
            nodes: whose slices are wanted, beside those without a node; None for all.
        """
        found = [
            each
            for each in self._pools.get((driver, name), {}).values()
            if nodes is None or not each.spec.node_name or each.spec.node_name in nodes
        ]
        newest: dict[str | None, int] = {}
        for each in found:
            node, generation = each.spec.node_name, each.spec.pool.generation
            newest[node] = max(newest.get(node, generation), generation)
        return [each for each in found if each.spec.pool.generation == newest[each.spec.node_name]]

    @property
    def devices(self) -> Devices:
        """The devices of all slices."""
        if self._is_devices_stale:
            self._devices = Devices(self._slices.values(), self._devices)
            self._is_devices_stale = False
        return self._devices

    def holding(self, ledger: NodeLedger, node: Node) -> tuple[Allocation, ...]:
        """Return what claims hold of a node's cards.

        Args:
            ledger: of the node, as it is stored.
            node: with its cards as they are now.
        """
        held = (
            holding(claim, node, self.devices, ledger.allocations.get(claim.uid))
            for claim in self._on(node.name)
        )
        return tuple(each for each in held if each is not None)

    def shadowed(self, ledger: NodeLedger) -> tuple[ShadowDevice, ...]:
        """Return what others than claims have of the devices of a node.

        Args:
            ledger: of the node, as it is stored.
        """
        name = ledger.node.name
        claims = {claim.uid: claim for claim in self._on(name)}
        return shadows(ledger, self.devices.own(name), claims)

    def described(self, node: str) -> tuple[NodeDescription, ...]:
        """Return the cards of a node by its slices."""
        return described(node, self.devices.of_node(node), self.rules)

    def _on(self, node: str) -> Iterator[Claim]:
        """Return the claims with devices that may be on a node."""
        yield from self._of_node.get(node, {}).values()
        yield from self._of_node.get(None, {}).values()

    def _leave_pool(self, item: dra.ResourceSlice) -> None:
        slices = self._pools[_pool(item)]
        del slices[item.metadata.name]
        if not slices:
            del self._pools[_pool(item)]

    def _slice_changed(self, *slices: dra.ResourceSlice) -> None:
        self._is_devices_stale = True
        self.revision += 1
        nodes = {each.spec.node_name for each in slices}
        self._changed(None if None in nodes else {node for node in nodes if node})


def _pool(item: dra.ResourceSlice) -> PoolName:
    return item.spec.driver, item.spec.pool.name


def _places(claim: Claim) -> Collection[str | None]:
    return (None,) if claim.nodes is None else claim.nodes


_STATUS = PartialDecoder(dra.ClaimStatus)


class KnownShadow(NamedTuple):
    """A shadow claim as the watch reported it last.

    Attributes:
        namespace: of the object.
        name: of the object.
        uid: of the object.
        is_allocated: whether it has its status, which is written after it is created.
    """

    namespace: str
    name: str
    uid: str
    is_allocated: bool


class ShadowCache:
    """Claims with the label of a shadow claim, of any namespace: authors can write it too."""

    def __init__(self, changed: Callable[[Collection[str] | None], None]) -> None:
        """Begin empty.

        Args:
            changed: called with the node of a claim that changed.
        """
        self._changed = changed
        self._nodes: dict[str, str] = {}
        self._of_node: dict[str, dict[str, KnownShadow]] = {}

    def put(self, claim: dra.ResourceClaim) -> None:
        """Add or replace a claim; one without the label is none."""
        metadata, namespace = claim.metadata, claim.metadata.namespace or "default"
        name = f"{namespace}/{metadata.name}"
        node = (metadata.annotations or {}).get(NODE, "")
        is_shadow = SHADOW in (metadata.labels or {}) and node
        raw, is_allocated = bytes(claim.status), False
        with suppress(UnreadableError):
            is_allocated = bool(raw) and _STATUS.decode(raw).allocation is not None
        known = KnownShadow(namespace, metadata.name, metadata.uid, is_allocated)
        if is_shadow and self._of_node.get(node, {}).get(name) == known:
            return
        self.drop(name)
        if is_shadow:
            self._nodes[name] = node
            self._of_node.setdefault(node, {})[name] = known
            self._changed({node})

    def drop(self, name: str) -> None:
        """Remove a claim, by ``namespace/name``."""
        node = self._nodes.pop(name, None)
        if node is not None:
            del self._of_node[node][name]
            if not self._of_node[node]:
                del self._of_node[node]
            self._changed({node})

    def of_node(self, node: str, namespace: str) -> Mapping[str, KnownShadow]:
        """Return the claims of a node in one namespace, by name."""
        found = self._of_node.get(node, {}).values()
        return {each.name: each for each in found if each.namespace == namespace}

    def nodes(self) -> Collection[str]:
        """Return the nodes that have any."""
        return self._of_node.keys()
