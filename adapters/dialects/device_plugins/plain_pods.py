"""Pods that a vendor's device plugin serves without any scheduler of cards.

On a node without cards of a ledger they are not Dragoman's.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from adapters.dialects.containers import resource_names
from adapters.dialects.device_plugins.resources import plugin_amounts, plugin_share
from adapters.dialects.dialect import Dialect
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod
from core.requests.request import Request

NO_AMOUNTS: Mapping[str, int] = MappingProxyType({})
"""The amounts of a pod that requests more than a plugin's devices, or none of these."""


def plain_amounts(pod: Pod, dialects: Sequence[Dialect]) -> Mapping[str, int]:
    """The devices of plugins that a pod requests, by resource; empty for a pod that is not plain.

    Raises:
        DialectError: the request is invalid.
    """
    if not any(map(plugin_share, resource_names(pod))):
        return NO_AMOUNTS
    dialect = dialect_of(pod, dialects)
    return NO_AMOUNTS if dialect is None else amounts_of(pod, dialect.read_request(pod))


def amounts_of(pod: Pod, request: Request) -> Mapping[str, int]:
    """Amounts of a plugin's devices that a pod requests, by resource, where its request is known.

    Raises:
        DialectError: an amount is invalid.
    """
    return NO_AMOUNTS if request.plugin is None else plugin_amounts(pod)
