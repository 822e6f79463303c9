"""What HAMi's webhook adds to the containers of a new pod.

Without a number of cards the kubelet does not ask HAMi's device plugin for the container at all.
Source: nvidia/device.go, MutateAdmission and mutateContainerResource. That webhook also writes 100
into ``gpucores`` of a container of whole cards; here the request has them without it.
"""

from adapters.dialects.containers import (
    PodContainer,
    pod_containers,
    resource_names,
    whole_amount,
)
from adapters.dialects.dialect import AdmissionDefaults
from adapters.dialects.formats.hami_webhook import reject_privileged
from adapters.dialects.hami import keys
from adapters.dialects.hami.amounts import LOWEST_PRIORITY
from adapters.dialects.hami.settings import HamiConfig
from adapters.wire.kube import Pod


def admission_defaults(pod: Pod, config: HamiConfig) -> AdmissionDefaults:
    """The number of cards where amounts stand without it, and the priority that HAMi-core reads.

    A number of cards without an amount is no share, also where an annotation makes it HAMi's.

    Args:
        pod: its request is valid.
        config: the settings of this dialect.

    Raises:
        DialectError: the pod requests a share and has a privileged container.
    """
    if not resource_names(pod).isdisjoint(config.amounts):
        reject_privileged(pod)
    members = [*pod_containers(pod)]
    numbers = {
        member.container.name: {config.count: str(config.default_count)}
        for member in members
        if _lacks_number(member, config)
    }
    priorities = (
        (member.container.name, whole_amount(member, config.priority, 0, LOWEST_PRIORITY))
        for member in members
    )
    return AdmissionDefaults(
        limits=numbers,
        variables={
            name: {keys.PRIORITY_VARIABLE: str(priority)}
            for name, priority in priorities
            if priority is not None
        },
    )


def _lacks_number(member: PodContainer, config: HamiConfig) -> bool:
    resources = member.container.resources
    limits, requests = resources.limits or {}, resources.requests or {}
    amounts = {config.memory, config.percent, config.cores}
    return config.count not in {*limits, *requests} and not amounts.isdisjoint(limits)
