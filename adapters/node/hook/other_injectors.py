"""Whether somebody else on this node has already given the container its cards.

Koordinator's hook (gate GPUEnvInject) reads the pod's annotation and sets the visible cards by
their minor numbers, for every container of the pod: koordinator
pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130. Two plugins that set one variable keep the
container from being created, so only one of them may act.
"""

import re
from operator import methodcaller

from adapters.dialects.koordinator.keys import ALLOCATED
from adapters.node.hook.hami_core import COMPUTE, MEMORY
from adapters.node.nri.model import NriContainer, PodSandbox, names_and_values
from core.requests.limits import Limits

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""What NVIDIA's runtime makes visible in a container. NVIDIA Container Toolkit, user guide."""

NAMED = ("GPU-", "MIG-")
"""How the name of a card or of a slice begins, in place of its number."""

_BY_UUID = methodcaller("startswith", tuple(f"{VISIBLE}={begin}" for begin in NAMED))
_MINORS = re.compile(r"\d+(,\d+)*")


class InjectorConflictError(ValueError):
    """Somebody else has given the container other cards, or other bounds, than the ledger."""


def koordinator_minors(pod: PodSandbox, container: NriContainer) -> str | None:
    """The minors that Koordinator's hook has set; None where it has not acted."""
    if ALLOCATED not in pod.annotations:
        return None
    value = names_and_values(container.env).get(VISIBLE, "")
    return value if _MINORS.fullmatch(value) else None


def has_device_plugin_gpus(container: NriContainer) -> bool:
    """Whether a device plugin has given the container cards: it names them by uuid."""
    return any(map(_BY_UUID, container.env))


def verify_koordinator_env(minors: str, limits: Limits | None, container: NriContainer) -> None:
    """See that what Koordinator's hook has set is what the ledger says.

    Args:
        minors: as ``served`` found them.
        limits: of the container; None where the ledger gives it nothing.
        container: with what the hook has set.

    Raises:
        ClaimError: it is not.
    """
    env = names_and_values(container.env)
    given = () if limits is None else limits.cards
    if {str(limit.index) for limit in given} != set(minors.split(",")):
        raise InjectorConflictError(_problem(f"{VISIBLE}={minors}"))
    first = None if limits is None else limits.cards[0]
    if first is None:
        return
    if first.memory_limited and env.get(MEMORY) != str(first.memory):
        raise InjectorConflictError(_problem(f"{MEMORY}={env.get(MEMORY, '')}"))
    if first.compute_limited and env.get(COMPUTE) != str(first.compute):
        raise InjectorConflictError(_problem(f"{COMPUTE}={env.get(COMPUTE, '')}"))


def _problem(found: str) -> str:
    return (
        f"Koordinator's GPUEnvInject has set {found}, and the ledger says otherwise:"
        " turn that gate off on nodes that Dragoman manages"
    )
