"""What decides about one container: gathered once, before the decision."""

from dataclasses import dataclass
from operator import methodcaller

from adapters.dialects import record, registry
from adapters.node.grants import GrantAnswer, Grants
from adapters.node.hook.other_injectors import (
    VISIBLE_DEVICES,
    InjectedMinors,
    has_device_plugin_gpus,
    injected_minors,
)
from adapters.node.nri.model import NriContainer, PodSandbox
from core.requests.limits import GrantError

SEES_ALL = f"{VISIBLE_DEVICES}=all"

_ADMITTED = methodcaller("startswith", f"{record.MARK}=")
_DECISIVE = methodcaller("startswith", (f"{record.MARK}=", f"{VISIBLE_DEVICES}="))


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """Everything about one container that the policy looks at, but for the node's hardware.

    Attributes:
        pod: of the container.
        container: as the runtime describes it, with what earlier plugins added.
        grant: what the ledger grants, why it grants nothing, or why the grant is invalid.
        exempt: the pod's namespace is exempt: without a share the container keeps its image's env.
        has_result: the pod has an annotation by which a scheduler reports an allocation; the agent
            does not read its value.
        admitted: admission has seen that the container requests a share.
        device_plugin: a device plugin gave the container GPUs.
        injected: what a runtime hook, such as Koordinator's, has set; None where none has acted.
        sees_all_cards: the container makes every card visible to itself, as images of CUDA do.
    """

    pod: PodSandbox
    container: NriContainer
    grant: GrantAnswer | GrantError
    exempt: bool = False
    has_result: bool = False
    admitted: bool = False
    device_plugin: bool = False
    injected: InjectedMinors | None = None
    sees_all_cards: bool = False

    @property
    def requests_share(self) -> bool:
        """Whether the container may have been promised a card; sometimes true without need.

        It is, where a device plugin gave it cards: the ledger will record that another component
        serves the pod, and until then the agent must not take the cards away.
        """
        return self.has_result or self.admitted or self.device_plugin


def gather(
    grants: Grants, exempt: frozenset[str], pod: PodSandbox, container: NriContainer
) -> ContainerFacts:
    """The facts about one container; reads the ledger once.

    Args:
        grants: of the node.
        exempt: namespaces.
        pod: of the container.
        container: as the runtime describes it.
    """
    try:
        grant: GrantAnswer | GrantError = grants.lookup(pod.uid, container.name)
    except GrantError as error:
        grant = error
    # One pass over the environment: every container's creation waits for it.
    env = tuple(filter(_DECISIVE, container.env))
    return ContainerFacts(
        pod,
        container,
        grant,
        exempt=pod.namespace in exempt,
        has_result=not registry.allocation_annotations().isdisjoint(pod.annotation_keys),
        admitted=any(map(_ADMITTED, env)),
        device_plugin=has_device_plugin_gpus(env),
        injected=injected_minors(pod, env),
        sees_all_cards=SEES_ALL in env,
    )
