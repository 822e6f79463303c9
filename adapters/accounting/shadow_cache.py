"""The shadow claims of the cluster, by node."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from adapters.dialects.dra.claims import SHADOW
from adapters.dialects.dra.shadow_claims import NODE
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.dra import ClaimStatus, ResourceClaim

_STATUS = PartialDecoder(ClaimStatus)


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

    def put(self, claim: ResourceClaim) -> None:
        """Add or replace a claim; one without the label is none."""
        metadata = claim.metadata
        name = f"{metadata.namespace or 'default'}/{metadata.name}"
        node = (metadata.annotations or {}).get(NODE, "")
        is_shadow = SHADOW in (metadata.labels or {}) and node
        known = KnownShadow(
            metadata.namespace or "default", metadata.name, metadata.uid, _is_allocated(claim)
        )
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


def _is_allocated(claim: ResourceClaim) -> bool:
    raw = bytes(claim.status)
    try:
        return bool(raw) and _STATUS.decode(raw).allocation is not None
    except UnreadableError:
        return False
