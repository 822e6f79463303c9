"""Pods that request devices of a vendor's plugin and nothing that a scheduler of cards must choose.

On a node without cards of a ledger they are not Dragoman's.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from adapters.dialects.containers import resource_names
from adapters.dialects.dialect import Dialect
from adapters.dialects.plugin_resources import plugin_amounts, plugin_share
from adapters.dialects.strangers import counts
from adapters.wire.kube import Pod

NO_AMOUNTS: Mapping[str, int] = MappingProxyType({})
"""Of a pod that requests no devices of a plugin, or not these alone."""


def plain_amounts(pod: Pod, dialects: Sequence[Dialect]) -> Mapping[str, int]:
    """The devices of plugins that a pod requests, by resource; empty for a pod that is not plain.

    A pod is plain if no dialect counts another resource that it names.

    Raises:
        DialectError: an amount is not a whole number, or limit and request differ.
    """
    names = [name for name in resource_names(pod) if "/" in name]
    if not any(map(plugin_share, names)):
        return NO_AMOUNTS
    others = (name for name in names if plugin_share(name) is None)
    return NO_AMOUNTS if any(counts(name, dialects) for name in others) else plugin_amounts(pod)
