"""What a pod holds that vc-scheduler's own plugin has bound, whatever the pod asks for.

Source: volcano-sh/volcano pkg/scheduler/api/devices/util.go:210-281 and vgpu/utils.go:102-218.
"""

from adapters.dialects.containers import PodContainer, pod_containers, requests_any, stated_amount
from adapters.dialects.device_list import ListedDevice, list_owners, listed_grant, read_device_lists
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation, DialectError
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.pod import VolcanoPodReader, group
from adapters.dialects.volcano.result import listed_slice
from adapters.wire.kube import Pod, annotations
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant
from core.requests.request import Phase

_FIELD = f"metadata.annotations[{keys.ASSIGNED}]"


def read_adopted(pod: Pod, node: Node, reader: VolcanoPodReader) -> AdoptedAllocation | None:
    """What a pod holds; see ``Dialect``.

    Volcano counts main containers alone, and among them those that name a number of cards or an
    amount of memory, be it 0. A number of 0 is given no card.

    Args:
        pod: the pod.
        node: where it runs.
        reader: the settings.

    Raises:
        DialectError: the record cannot be understood.
    """
    everybody = tuple(pod_containers(pod))
    text = annotations(pod).get(keys.ASSIGNED, "")
    lists = read_device_lists(_FIELD, text)
    if not any(lists) or any(requests_any(one, keys.LEGACY) for one in everybody):
        return None if any(_given(member, reader) for member in everybody) else NO_ALLOCATION
    counted = [one for one in everybody if one.phase is Phase.MAIN and _counted(one, reader)]
    return AdoptedAllocation(
        tuple(
            _grant(text, listed, owner, node, reader.config.unit)
            for owner, devices in zip(list_owners(lists, counted), lists, strict=True)
            for listed in devices
        ),
        group=_group(pod),
        exclusions=reader.exclusions(pod),
    )


def _counted(member: PodContainer, reader: VolcanoPodReader) -> bool:
    limits = member.container.resources.limits or {}
    return reader.config.count in limits or reader.config.memory in limits


def _given(member: PodContainer, reader: VolcanoPodReader) -> bool:
    """Whether a container is given cards: by its number, or by its memory where it has none.

    The older device plugin gives them by its own names, and its record tells of numbers only.
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
    held = listed_slice(text, listed.slice_name, card)
    if held is None:
        return listed_grant(_FIELD, listed, owner, node, unit)
    container, phase = owner
    exclusive = listed.compute == FULL
    return Grant(container, listed.uuid, held.memory, held.compute, exclusive, phase, held)


def _group(pod: Pod) -> str | None:
    """The group that it keeps off its cards; none where the policy is one that Volcano ignores."""
    try:
        return group(pod)
    except DialectError:
        return None
