"""What decides about one container: gathered once, before the decision."""

from collections.abc import Callable
from operator import methodcaller

from msgspec import Struct

from adapters.agent.grants import GrantAnswer, Grants
from adapters.agent.hook.other_injectors import (
    InjectedMinors,
    injected_minors,
    mounted_words,
    visible_words,
)
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.dialects import allocation_record, registry
from core.requests.limits import GrantError

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
    """The agent does not know what device plugins gave: nothing counts as given."""
    return _NOTHING


class ContainerFacts(Struct, frozen=True):
    """Everything about one container that the policy looks at, but for the node's hardware.

    The properties read the environment only when a rule needs them: a container with a grant, for
    which the kubelet waits, needs none of them.

    Attributes:
        pod: of the container.
        container: as the runtime describes it, with what earlier plugins added.
        grant: what the ledger grants, why it grants nothing, or why the grant is invalid.
        exempt: the pod's namespace is exempt: without a share the container keeps its image's env.
        injected: what a runtime hook, such as Koordinator's, has set; None where none has acted.
        assigned: what device plugins gave, as the kubelet says.
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


def gather(
    grants: Grants,
    exempt: frozenset[str],
    pod: PodSandbox,
    container: NriContainer,
    assigned: AssignedDevices = none_assigned,
) -> ContainerFacts:
    """The facts about one container; reads the ledger once.

    Args:
        grants: of the node.
        exempt: namespaces.
        pod: of the container.
        container: as the runtime describes it.
        assigned: what device plugins gave; asked only if a rule needs it.
    """
    try:
        grant: GrantAnswer | GrantError = grants.lookup(pod.uid, container.name)
    except GrantError as error:
        grant = error
    injected = injected_minors(pod, container.env)
    return ContainerFacts(pod, container, grant, pod.namespace in exempt, injected, assigned)
