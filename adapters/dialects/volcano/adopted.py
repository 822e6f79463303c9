"""Adopts pods that vc-scheduler's own plugin bound: its record counts, not the request.

Source: volcano-sh/volcano pkg/scheduler/api/devices/util.go:210-281 and vgpu/utils.go:102-218.
"""

from adapters.dialects.containers import PodContainer, pod_containers, requests_any, stated_amount
from adapters.dialects.dialect import (
    NO_ALLOCATION,
    AdoptedAllocation,
    DialectError,
    UnclearRecord,
)
from adapters.dialects.formats.device_list import (
    ListedDevice,
    list_owners,
    listed_grant,
    read_device_lists,
)
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.pod import VolcanoPodReader, group, pod_group
from adapters.dialects.volcano.result import listed_slice
from adapters.wire.kube import Pod, annotations
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant
from core.requests.request import Phase

_FIELD = f"metadata.annotations[{keys.ASSIGNED}]"


def read_adopted(pod: Pod, node: Node, reader: VolcanoPodReader) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    Volcano's record covers main containers that name a number of cards or an amount of memory,
    even if it is 0. Volcano allocates no card for a number of 0.

    Args:
        pod: the pod.
        node: where it runs.
        reader: has the settings.

    Raises:
        DialectError: the record cannot be parsed.
        UnclearRecord: it names a slice that a card does not have.
    """
    containers = tuple(pod_containers(pod))
    text = annotations(pod).get(keys.ASSIGNED, "")
    lists = read_device_lists(_FIELD, text)
    if not any(lists) or any(requests_any(one, keys.LEGACY) for one in containers):
        return (
            None if any(_requests_cards(member, reader) for member in containers) else NO_ALLOCATION
        )
    covered = [one for one in containers if one.phase is Phase.MAIN and _covered(one, reader)]
    try:
        grants = tuple(
            _grant(text, listed, owner, node, reader.config.unit)
            for owner, devices in zip(list_owners(lists, covered), lists, strict=True)
            for listed in devices
        )
    except UnclearRecord as error:
        cards = {listed.uuid for devices in lists for listed in devices}
        raise UnclearRecord(error.field, error.value, error.problem, cards) from None
    return AdoptedAllocation(
        grants,
        group=_group(pod),
        member_of=pod_group(pod),
        exclusions=reader.exclusions(pod),
    )


def _covered(member: PodContainer, reader: VolcanoPodReader) -> bool:
    limits = member.container.resources.limits or {}
    return reader.config.count in limits or reader.config.memory in limits


def _requests_cards(member: PodContainer, reader: VolcanoPodReader) -> bool:
    """Whether a container requests cards: by their number, or else by memory.

    The older device plugin has resources of its own, and its record has numbers only.
    """
    if stated_amount(member, reader.config.count) is None and stated_amount(
        member, reader.config.memory
    ):
        return True
    return requests_any(member, (reader.config.count, *keys.LEGACY))


def _grant(
    text: str, listed: ListedDevice, owner: tuple[str, Phase], node: Node, unit: int
) -> Grant:
    card = next((card for card in node.cards if card.uuid == listed.uuid), None)
    slice_ = listed_slice(text, listed.slice_name, card)
    if slice_ is None:
        return listed_grant(_FIELD, listed, owner, node, unit)
    container, phase = owner
    exclusive = listed.compute == FULL
    return Grant(container, listed.uuid, slice_.memory, slice_.compute, exclusive, phase, slice_)


def _group(pod: Pod) -> str | None:
    """The group whose pods share no card with it; None where Volcano ignores the policy."""
    try:
        return group(pod)
    except DialectError:
        return None
