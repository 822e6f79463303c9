"""Whether another component on this node has already given the container its cards.

The runtime hook of an ecosystem (Koordinator's gate GPUEnvInject) reads the pod's annotation and
sets the visible cards by their minor numbers, for every container of the pod: koordinator
pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130. The runtime rejects a container when two plugins
set the same variable, so only one of them may act.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.agent.injection.hami_core import COMPUTE, MEMORY
from adapters.agent.nri.model import Mount, NriContainer, PodSandbox, names_and_values
from adapters.dialects import registry
from adapters.dialects.info import RuntimeHook
from core.requests.limits import Limits

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
"""The cards that NVIDIA's runtime makes visible in a container (NVIDIA Container Toolkit)."""

UUID_PREFIXES = ("GPU-", "MIG-")
"""How a value that names a card or a MIG device by uuid begins; others are numbers."""

_VISIBLE = f"{VISIBLE_DEVICES}="
_NO_CARD = frozenset({"", "none", "void"})
"""Values that name no card (NVIDIA Container Toolkit internal/config/image/devices.go)."""

LIST_FOLDER = "/var/run/nvidia-container-devices"
"""Mounts of ``_LIST_SOURCE`` below it name cards to NVIDIA's runtime, and the variable names the
folder (NVIDIA Container Toolkit internal/config/image/cuda_image.go; k8s-device-plugin
internal/plugin/server.go, strategy ``volume-mounts``)."""
_LIST_SOURCE = "/dev/null"

_MINORS = re.compile(r"\d+(,\d+)*")


@dataclass(frozen=True, slots=True)
class InjectedMinors:
    """What a runtime hook has set.

    Attributes:
        hook: the hook.
        minors: of the cards, comma-separated.
    """

    hook: RuntimeHook
    minors: str


class InjectorConflictError(ValueError):
    """Another component gave the container other cards or limits than the ledger grants."""


def injected_minors(pod: PodSandbox, env: Sequence[str]) -> InjectedMinors | None:
    """The minor numbers that a runtime hook has set; None where no hook has acted.

    Beside a mirrored record the minors are text of the image or of the pod's author. Where the hook
    acts on it too, the runtime rejects the container, because two plugins set the variable.

    Args:
        pod: of the container.
        env: of the container.
    """
    keys = pod.annotation_keys
    hooks = (
        info.runtime_hook
        for info in registry.DIALECTS
        if registry.mirror_mark(info.name) not in keys
    )
    hook = next((hook for hook in hooks if hook and hook.annotation in keys), None)
    if hook is None:
        return None
    value = names_and_values(env).get(VISIBLE_DEVICES, "")
    return InjectedMinors(hook, value) if _MINORS.fullmatch(value) else None


def visible_words(env: Sequence[str]) -> frozenset[str]:
    """How a container names cards to NVIDIA's runtime: uuids, numbers, CDI names, ``all``.

    Device plugins, images and the pod's author set the same variable, and the runtime may show both
    a device plugin's value and the author's: the words of all of them count.
    """
    values = [line.removeprefix(_VISIBLE) for line in env if line.startswith(_VISIBLE)]
    words = (word.strip() for value in values for word in value.split(","))
    return frozenset(word for word in words if names_card(word))


def names_card(word: str) -> bool:
    """Whether an item of the variable names a card, and not none or a folder of mounts."""
    return word not in _NO_CARD and not word.startswith("/")


def mounted_words(mounts: Sequence[Mount]) -> frozenset[str]:
    """How the mounts of a container name cards to NVIDIA's runtime."""
    return frozenset(
        mount.destination.removeprefix(f"{LIST_FOLDER}/")
        for mount in mounts
        if mount.source == _LIST_SOURCE and mount.destination.startswith(f"{LIST_FOLDER}/")
    )


def verify_injected(
    injected: InjectedMinors, limits: Limits | None, container: NriContainer
) -> None:
    """Verify that a runtime hook has set what the ledger grants.

    Args:
        injected: as ``injected_minors`` found them.
        limits: of the container; None where the ledger grants it nothing.
        container: with what the hook has set.

    Raises:
        InjectorConflictError: the hook and the ledger disagree.
    """
    minors, hook = injected.minors, injected.hook
    env = names_and_values(container.env)
    granted = () if limits is None else limits.cards
    if {str(limit.index) for limit in granted} != set(minors.split(",")):
        raise InjectorConflictError(_problem(hook, f"{VISIBLE_DEVICES}={minors}"))
    first = None if limits is None else limits.cards[0]
    if first is None:
        return
    if first.memory_limited and env.get(MEMORY) != str(first.memory):
        raise InjectorConflictError(_problem(hook, f"{MEMORY}={env.get(MEMORY, '')}"))
    if first.compute_limited and env.get(COMPUTE) != str(first.compute):
        raise InjectorConflictError(_problem(hook, f"{COMPUTE}={env.get(COMPUTE, '')}"))


def _problem(hook: RuntimeHook, found: str) -> str:
    return (
        f"{hook.name} has set {found}, and the ledger grants something else:"
        f" {hook.remedy} on nodes that Dragoman manages"
    )
