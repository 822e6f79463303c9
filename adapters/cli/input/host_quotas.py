"""The limits that ResourceQuotas of the input state for namespaces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.cli.input.manifests import Manifests
from adapters.dialects.dialect import Dialect
from adapters.dialects.host_quota import host_limits
from adapters.wire.resource_quota import KIND, limits_of_extended_resources
from core.quota.amounts import NO_LIMITS, QuotaLimits


@dataclass(frozen=True, slots=True)
class HostQuotas:
    """What all ResourceQuotas limit.

    Attributes:
        by_namespace: the limits of each namespace that has any.
        problems: with the objects, as sentences.
    """

    by_namespace: Mapping[str, QuotaLimits]
    problems: tuple[str, ...]


def read_host_quotas(manifests: Manifests, dialects: Sequence[Dialect]) -> HostQuotas:
    """Read all ResourceQuotas; the strictest of a namespace holds, and most limit nothing here."""
    limits: dict[str, QuotaLimits] = {}
    problems: list[str] = []
    for thing, place in manifests.resource_quotas:
        namespace = thing.metadata.namespace or "default"
        found = host_limits(limits_of_extended_resources(thing), dialects)
        problems += (
            f"{place}: {KIND} {namespace}/{thing.metadata.name}: {each}" for each in found.problems
        )
        if found.limits != NO_LIMITS:
            limits[namespace] = limits.get(namespace, NO_LIMITS).strictest(found.limits)
    return HostQuotas(limits, tuple(problems))
