"""Limits of a namespace that the cluster states in a ResourceQuota, for a scheduler of shares.

HAMi's scheduler enforced them (HAMi v2.10 pkg/device/quota.go: ``FitQuota``, ``addQuotaLocked``,
``managedQuotaName``): ``limits.`` and the name of a resource that is memory or compute of a card.
Here they bind what the pods of the namespace have of all cards, in all dialects together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.dialects.dialect import Dialect
from adapters.wire.quantity import QuantityError, parse_int
from core.quota.amounts import NO_LIMITS, QuotaLimits

_MOST = 1 << 62
"""The highest limit that is kept, of any resource; no cluster has as much."""

CLOSED = QuotaLimits(0, 0, 0)
"""The limits of a ResourceQuota that cannot be read: nothing more is allocated."""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What one ResourceQuota limits.

    Attributes:
        limits: of the pods of its namespace together.
        problems: what its author has to change, as sentences.
    """

    limits: QuotaLimits = NO_LIMITS
    problems: tuple[str, ...] = ()


def host_limits(hard: Mapping[str, object] | None, dialects: Sequence[Dialect]) -> HostLimits:
    """Read the amounts of a ResourceQuota.

    An amount that cannot be read counts as 0: pods that need none of its resource are allocated.

    Args:
        hard: by key; keys that no dialect has are ignored. None where they cannot be read.
        dialects: with the settings of the cluster, which may rename resources.
    """
    if hard is None:
        problem = "spec.hard: cannot be read, must be a mapping; no share is allocated until it can"
        return HostLimits(CLOSED, (problem,))
    limits, problems = NO_LIMITS, list[str]()
    for dialect in dialects:
        for key, unit in dialect.quota_units.items():
            if key not in hard:
                continue
            field = f"spec.hard[{key}]: {hard[key]!r}:"
            if unit is None:
                counted = f"requests.{key.partition('.')[2]}"
                problem = "no component counts this, HAMi's scheduler neither; use"
                problems.append(f"{field} {problem} {counted}")
                continue
            try:
                amount = parse_int(str(hard[key]))
            except QuantityError:
                amount = -1
            if amount < 0:
                problem = "must be a whole number, 0 or more; it counts as 0 until it is"
                problems.append(f"{field} {problem}")
            limit = min(max(amount, 0) * unit.amount, _MOST)
            of_memory = unit.resource == "memory"
            limits = limits.strictest(
                QuotaLimits(memory=limit) if of_memory else QuotaLimits(compute=limit)
            )
    return HostLimits(limits, tuple(problems))
