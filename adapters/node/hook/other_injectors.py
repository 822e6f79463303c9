"""Whether another component on this node has already injected the container's cards.

The runtime hook of an ecosystem (Koordinator's gate GPUEnvInject) reads the pod's annotation and
sets the visible cards by their minor numbers, for every container of the pod: koordinator
pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130. The runtime does not create a container for
which two plugins set one variable, so only one of them may act.
"""

import re
from dataclasses import dataclass
from operator import methodcaller

from adapters.dialects import registry
from adapters.dialects.info import RuntimeHook
from adapters.node.hook.hami_core import COMPUTE, MEMORY
from adapters.node.nri.model import NriContainer, PodSandbox, names_and_values
from core.requests.limits import Limits

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""What NVIDIA's runtime makes visible in a container. NVIDIA Container Toolkit, user guide."""

NAMED = ("GPU-", "MIG-")
"""How the name of a card or of a slice begins, in place of its number."""

_BY_UUID = methodcaller("startswith", tuple(f"{VISIBLE}={begin}" for begin in NAMED))
_MINORS = re.compile(r"\d+(,\d+)*")


@dataclass(frozen=True, slots=True)
class InjectedMinors:
    """What an ecosystem's runtime hook has set.

    Attributes:
        hook: the hook.
        minors: of the cards, with commas between them.
    """

    hook: RuntimeHook
    minors: str


class InjectorConflictError(ValueError):
    """Somebody else has given the container other cards, or other bounds, than the ledger."""


def injected_minors(pod: PodSandbox, container: NriContainer) -> InjectedMinors | None:
    """The minors that a runtime hook has set; None where no hook has acted."""
    hooks = (info.runtime_hook for info in registry.DIALECTS)
    hook = next((hook for hook in hooks if hook and hook.annotation in pod.annotations), None)
    if hook is None:
        return None
    value = names_and_values(container.env).get(VISIBLE, "")
    return InjectedMinors(hook, value) if _MINORS.fullmatch(value) else None


def has_device_plugin_gpus(container: NriContainer) -> bool:
    """Whether a device plugin has given the container cards: it names them by uuid."""
    return any(map(_BY_UUID, container.env))


def verify_injected(
    injected: InjectedMinors, limits: Limits | None, container: NriContainer
) -> None:
    """Verify that what a runtime hook has set agrees with the ledger.

    Args:
        injected: as ``injected_minors`` found them.
        limits: of the container; None where the ledger has no allocation for it.
        container: with what the hook has set.

    Raises:
        InjectorConflictError: they differ.
    """
    minors, hook = injected.minors, injected.hook
    env = names_and_values(container.env)
    given = () if limits is None else limits.cards
    if {str(limit.index) for limit in given} != set(minors.split(",")):
        raise InjectorConflictError(_problem(hook, f"{VISIBLE}={minors}"))
    first = None if limits is None else limits.cards[0]
    if first is None:
        return
    if first.memory_limited and env.get(MEMORY) != str(first.memory):
        raise InjectorConflictError(_problem(hook, f"{MEMORY}={env.get(MEMORY, '')}"))
    if first.compute_limited and env.get(COMPUTE) != str(first.compute):
        raise InjectorConflictError(_problem(hook, f"{COMPUTE}={env.get(COMPUTE, '')}"))


def _problem(hook: RuntimeHook, found: str) -> str:
    return (
        f"{hook.name} has set {found}, and the ledger says otherwise:"
        f" {hook.remedy} on nodes that Dragoman manages"
    )
