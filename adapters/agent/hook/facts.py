"""What decides about one container: gathered once, before the decision.

Among it is whether another component on this node has already given the container its cards. The
runtime hook of an ecosystem (Koordinator's gate GPUEnvInject) reads the pod's annotation and sets
the visible cards by their minor numbers, for every container of the pod: koordinator
pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130. The runtime rejects a container when two plugins
set the same variable, so only one of them may act.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller

from msgspec import Struct

from adapters.agent.grants import GrantAnswer
from adapters.agent.injection.hami_core import COMPUTE, MEMORY
from adapters.agent.nri.model import Mount, NriContainer, PodSandbox, names_and_values
from adapters.dialects import allocation_record, registry
from adapters.dialects.info import RuntimeHook
from core.requests.limits import GrantError, Limits

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
"""The cards that NVIDIA's runtime makes visible in a container (NVIDIA Container Toolkit)."""

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
        minors: of the cards, comma-separated.
    """

    hook: RuntimeHook
    minors: str


class InjectorConflictError(ValueError):
    """Another component gave the container other cards or limits than the ledger grants."""


def injected_minors(pod: PodSandbox, env: Sequence[str]) -> InjectedMinors | None:
    """Read the minor numbers that a runtime hook has set; None where no hook has acted.

    Beside a mirrored record the minors are text of the image or of the pod's author. Where the hook
    acts on it too, the runtime rejects the container, because two plugins set the variable.
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
    """Return how a container names cards to NVIDIA's runtime: uuids, numbers, CDI names, ``all``.

    Device plugins, images and the pod's author set the same variable, and the runtime may show both
    a device plugin's value and the author's: the words of all of them count.
    """
    values = [line.removeprefix(_VISIBLE) for line in env if line.startswith(_VISIBLE)]
    words = (word.strip() for value in values for word in value.split(","))
    return frozenset(word for word in words if names_card(word))


def names_card(word: str) -> bool:
    """Return whether an item of the variable names a card, and not none or a folder of mounts."""
    return word not in _NO_CARD and not word.startswith("/")


def mounted_words(mounts: Sequence[Mount]) -> frozenset[str]:
    """Return how the mounts of a container name cards to NVIDIA's runtime."""
    return frozenset(
        mount.destination.removeprefix(f"{LIST_FOLDER}/")
        for mount in mounts
        if mount.source == _LIST_SOURCE and mount.destination.startswith(f"{LIST_FOLDER}/")
    )


def verify_injected(
    injected: InjectedMinors, limits: Limits | None, container: NriContainer
) -> None:
    """Verify that a runtime hook has set what the ledger grants; ``limits`` is None for nothing.

    Raises:
        InjectorConflictError: the hook and the ledger disagree.
    """
    hook, env = injected.hook, names_and_values(container.env)
    granted = () if limits is None else limits.cards
    wrong = ""
    if {str(limit.index) for limit in granted} != set(injected.minors.split(",")):
        wrong = VISIBLE_DEVICES
    elif granted and granted[0].memory_limited and env.get(MEMORY) != str(granted[0].memory):
        wrong = MEMORY
    elif granted and granted[0].compute_limited and env.get(COMPUTE) != str(granted[0].compute):
        wrong = COMPUTE
    if wrong:
        raise InjectorConflictError(
            f"{hook.name} has set {wrong}={env.get(wrong, '')}, and the ledger grants something"
            f" else: {hook.remedy} on nodes that Dragoman manages"
        )


_ADMITTED = methodcaller("startswith", f"{allocation_record.MARK}=")


class GivenDevices(Struct, frozen=True):
    """What device plugins gave one container, as the kubelet says.

    Attributes:
        visible: as their ``NVIDIA_VISIBLE_DEVICES`` names them.
        passed: ids of those that they passed without that variable: by CDI, or by mounts.
    """

    visible: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()


AssignedDevices = Callable[[str, str], GivenDevices]
"""What device plugins gave a container, by uid of the pod and name of the container."""

_NOTHING = GivenDevices()


def none_assigned(_pod: str, _container: str) -> GivenDevices:
    """Return nothing: what device plugins gave is not known."""
    return _NOTHING


class ContainerFacts(Struct, frozen=True):
    """Everything about one container that the policy looks at, but for the node's hardware.

    The properties read the environment only when a rule needs them: a container with a grant, for
    which the kubelet waits, needs none of them.

    Attributes:
        container: as the runtime describes it, with what earlier plugins added.
        grant: what the ledger grants, why it grants nothing, or why the grant is invalid.
        exempt: the pod's namespace is exempt: without a share the container keeps its image's env.
        injected: what a runtime hook, such as Koordinator's, has set; None where none has acted.
    """

    pod: PodSandbox
    container: NriContainer
    grant: GrantAnswer | GrantError
    exempt: bool = False
    injected: InjectedMinors | None = None
    assigned: AssignedDevices = none_assigned

    @property
    def has_result(self) -> bool:
        """Whether the pod has an annotation by which a scheduler reports an allocation.

        The agent does not read its value. A mirrored record is no such annotation.
        """
        return bool(registry.own_records(self.pod.annotation_keys))

    @property
    def admitted(self) -> bool:
        """Whether the container has the mark of a request that admission has seen.

        An image can set it too. So it may keep this container from starting, and no other: the
        agent never waits for the allocation of a container because of its mark.
        """
        return any(map(_ADMITTED, self.container.env))

    @property
    def device_plugin(self) -> bool:
        """Whether the cards that the container names are those that a device plugin gave it.

        The variable by itself proves nothing: the pod's author can write it.
        """
        visible = self.visible
        return bool(visible) and visible <= self.given.visible | self.given.passed

    @property
    def given(self) -> GivenDevices:
        """What device plugins gave the container."""
        return self.assigned(self.pod.uid, self.container.name)

    @property
    def visible(self) -> frozenset[str]:
        """How the container names cards to the runtime; empty where it names none."""
        return visible_words(self.container.env) | mounted_words(self.container.mounts)

    @property
    def foreign_mounts(self) -> frozenset[str]:
        """The cards that the container's mounts name, and that no device plugin gave it."""
        mounted = mounted_words(self.container.mounts)
        return mounted - self.given.passed if mounted else mounted

    @property
    def requests_share(self) -> bool:
        """Whether the container may have a card, by the ledger or by a device plugin."""
        return self.has_result or self.admitted or self.device_plugin
