"""What a pod asks for in Koordinator's words."""

from collections.abc import Mapping
from dataclasses import replace

from adapters.dialects.containers import PodContainer, is_zero, pod_containers, whole_amount
from adapters.dialects.dialect import DialectError
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.container_amounts import (
    MAX_CARDS,
    ContainerAmounts,
    read_container_amounts,
)
from adapters.dialects.koordinator.hints import read_hints
from adapters.wire.kube import Pod, full_name, labels
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB, show
from core.requests.request import Ranking, Request


def matches(pod: Pod) -> bool:
    """Whether a pod names a resource of Koordinator, or whole cards in an amount other than 0."""
    return any(
        name in keys.OWN or (name in keys.WHOLE_CARDS and not is_zero(amount))
        for member in pod_containers(pod)
        for amounts in (member.container.resources.limits, member.container.resources.requests)
        for name, amount in (amounts or {}).items()
    )


def read_pod_request(pod: Pod, ranking: Ranking) -> Request:
    """What a pod wants.

    Raises:
        DialectError: it cannot be meant, or is out of scope.
    """
    found = [(member, read_container_amounts(member)) for member in pod_containers(pod)]
    wanted = tuple(wish.request for _, wish in found if wish is not None)
    if not wanted:
        raise DialectError("spec.containers[*].resources", "", "asks for no GPU")
    bound = [(member.path, _vendor(member, wish)) for member, wish in found]
    vendor = _only({path: vendor for path, vendor in bound if vendor is not None})
    hints = read_hints(pod, wanted)
    divided = any(ask.memory_percent != FULL for ask in wanted)
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        containers=tuple(
            replace(ask, exclusive=ask.exclusive or hints.exclusive) for ask in wanted
        ),
        modes=frozenset({Mode.SHARED}) if divided else frozenset({Mode.SHARED, Mode.WHOLE}),
        vendor=vendor,
        isolation=labels(pod).get(keys.ISOLATION) or None if divided else None,
        ranking=ranking,
        topology=hints.topology,
        priority=pod.spec.priority or 0,
        notes=hints.notes,
    )


def _vendor(member: PodContainer, wish: ContainerAmounts | None) -> str | None:
    """The vendor that a container is bound to; a MetaX trigger is checked on the way."""
    cards = whole_amount(member, keys.METAX_TRIGGER, 1, MAX_CARDS)
    if cards is None:
        return None if wish is None else wish.vendor
    place = f"{member.path}.resources[{keys.METAX_TRIGGER}]"
    if wish is None or wish.vendor is not None:
        raise DialectError(place, cards, f"needs {keys.RATIO} or {keys.MEMORY} in its container")
    ask = wish.request
    if cards != ask.count:
        raise DialectError(place, cards, f"must be {ask.count}, the cards that are asked for")
    if ask.memory is not None and ask.memory < MIB:
        raise DialectError(
            f"{member.path}.resources[{keys.MEMORY}]",
            ask.memory,
            f"must be at least {show(MIB)} of each card: MetaX counts in MiB",
        )
    return keys.METAX


def _only(vendors: Mapping[str, str]) -> str | None:
    """The one vendor of all containers that are bound to one."""
    if len(set(vendors.values())) > 1:
        told = ", ".join(f"{path}: {vendor}" for path, vendor in vendors.items())
        raise DialectError(
            "spec.containers[*].resources", told, "a pod's cards must be of one vendor"
        )
    return next(iter(vendors.values()), None)
