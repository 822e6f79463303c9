"""The allocated ResourceClaims and the ResourceSlices of the cluster, by node."""

from collections import OrderedDict
from collections.abc import Callable, Collection

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.dra.claims import Claim, allocated
from adapters.dialects.dra.devices import Devices
from adapters.dialects.dra.holders import holding
from adapters.dialects.dra.inventory import described
from adapters.wire.dra import ResourceClaim, ResourceSlice
from core.hardware.node import Node
from core.requests.grant import Allocation
from core.requests.pod_ref import PodRef

REMEMBERED = 20_000
"""Claims whose consumers are remembered."""

NodesChanged = Callable[[Collection[str] | None], None]
"""Called with the names of nodes whose ledger may need a repair; None for all nodes."""


class ClaimCache:
    """The newest reported state of each allocated claim and of each slice."""

    def __init__(self, changed: NodesChanged) -> None:
        """Begin empty: where no watch feeds it, no claim holds anything.

        Args:
            changed: called after each change.
        """
        self._changed = changed
        self._slices: dict[str, ResourceSlice] = {}
        self._by_name: dict[str, Claim] = {}
        self._of_node: dict[str | None, dict[str, Claim]] = {}
        self._devices: Devices | None = None
        self._consumers: OrderedDict[str, frozenset[PodRef]] = OrderedDict()

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim; one without an allocation holds nothing."""
        name = f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"
        new, earlier = allocated(claim), self._by_name.get(name)
        if new == earlier:
            return
        self.drop_claim(name)
        if new is not None:
            self._by_name[name] = new
            self._note(new)
            for node in _places(new):
                self._of_node.setdefault(node, {})[name] = new
            self._changed(new.nodes)

    def drop_claim(self, name: str) -> None:
        """Remove a claim, by ``namespace/name``."""
        earlier = self._by_name.pop(name, None)
        if earlier is None:
            return
        for node in _places(earlier):
            self._of_node[node].pop(name)
        self._changed(earlier.nodes)

    def put_slice(self, item: ResourceSlice) -> None:
        """Add or replace a slice."""
        earlier = self._slices.get(item.metadata.name)
        self._slices[item.metadata.name] = item
        if earlier is None or earlier.spec != item.spec:
            self._slice_changed(item, *(() if earlier is None else (earlier,)))

    def drop_slice(self, name: str) -> None:
        """Remove a slice."""
        earlier = self._slices.pop(name, None)
        if earlier is not None:
            self._slice_changed(earlier)

    def consumers(self, uid: str) -> frozenset[PodRef]:
        """Return the pods for which a claim was reserved while it was allocated.

        Their containers may run on after the claim was deallocated.
        """
        return self._consumers.get(uid, frozenset())

    @property
    def devices(self) -> Devices:
        """The devices of all slices."""
        if self._devices is None:
            self._devices = Devices(self._slices.values())
        return self._devices

    def holding(self, node: Node) -> tuple[Allocation, ...]:
        """Return what claims hold of a node's cards."""
        found = (*self._of_node.get(node.name, {}).values(), *self._of_node.get(None, {}).values())
        held = (holding(claim, node, self.devices) for claim in found)
        return tuple(each for each in held if each is not None)

    def described(self, node: str) -> tuple[NodeDescription, ...]:
        """Return the cards of a node by its slices."""
        return described(node, self.devices.of_node(node))

    def _note(self, claim: Claim) -> None:
        seen = self._consumers.pop(claim.uid, frozenset[PodRef]())
        self._consumers[claim.uid] = seen.union(claim.pods)
        if len(self._consumers) > REMEMBERED:
            self._consumers.popitem(last=False)

    def _slice_changed(self, *slices: ResourceSlice) -> None:
        self._devices = None
        nodes = {each.spec.node_name for each in slices}
        self._changed(None if None in nodes else {node for node in nodes if node})


def _places(claim: Claim) -> Collection[str | None]:
    return (None,) if claim.nodes is None else claim.nodes
