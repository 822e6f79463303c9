"""The containers of a pod in start order, and the amounts that they request."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Amount, Container, Pod
from adapters.wire.quantity import QuantityError, parse, parse_int
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest, Phase


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container of a pod.

    Attributes:
        container: of the pod, unchanged.
        path: for error texts, such as ``spec.containers[main]``.
    """

    container: Container
    phase: Phase
    path: str


def pod_containers(pod: Pod) -> Iterator[PodContainer]:
    """Yield the containers of a pod in start order: init ones and sidecars, then the main ones."""
    for container in pod.spec.init_containers or ():
        phase = Phase.SIDECAR if container.restart_policy == "Always" else Phase.INIT
        yield PodContainer(container, phase, f"spec.initContainers[{container.name}]")
    for container in pod.spec.containers:
        yield PodContainer(container, Phase.MAIN, f"spec.containers[{container.name}]")


def resource_names(pod: Pod) -> frozenset[str]:
    """Return every resource that any container names, in limits or requests."""
    return frozenset(
        name
        for member in pod_containers(pod)
        for amounts in (member.container.resources.limits, member.container.resources.requests)
        for name in amounts or ()
    )


def names_extended_resource(pod: Pod) -> bool:
    """Return whether a container names a resource that may be a share: none of Kubernetes' own."""
    return any("/" in name for name in resource_names(pod))


def stated_amount(member: PodContainer, resource: str) -> tuple[str, Amount] | None:
    """Return the path and the amount of a resource in a container: its limit, else its request.

    Raises:
        DialectError: limit and request differ, which Kubernetes forbids for extended resources.
    """
    limits = member.container.resources.limits or {}
    requests = member.container.resources.requests or {}
    place = f"{member.path}.resources.limits[{resource}]"
    if resource not in limits:
        amount = requests.get(resource)
        return None if amount is None else (place.replace("limits", "requests", 1), amount)
    limit, request = limits[resource], requests.get(resource, limits[resource])
    try:
        is_equal = request == limit or parse(str(request)) == parse(str(limit))
    except QuantityError:
        is_equal = False
    if not is_equal:
        raise DialectError(place, limit, f"must equal the request, which is {request}")
    return place, limit


def is_zero(amount: Amount) -> bool:
    """Return whether an amount is a number, and 0."""
    try:
        return parse(str(amount)) == 0
    except QuantityError:
        return False


def requests_any(member: PodContainer, resources: Iterable[str]) -> bool:
    """Return whether a container names any of these resources in an amount other than 0.

    Raises:
        DialectError: as for ``stated``.
    """
    return any(
        found is not None and not is_zero(found[1])
        for found in (stated_amount(member, resource) for resource in resources)
    )


LARGEST_QUANTITY = 2**63 - 1
"""The largest quantity that Kubernetes stores exactly.

A device plugin may advertise thousands of replicas of a card, so that no smaller number of what it
serves is wrong: https://github.com/NVIDIA/k8s-device-plugin/issues/1433 asks for 4096 of 131072.
"""


def whole_amount(member: PodContainer, resource: str, low: int, high: int) -> int | None:
    """Return the amount of a resource in a container, a whole number.

    None where it does not name it.

    Args:
        member: the container.
        resource: the resource's name.
        low: the smallest valid amount.
        high: the largest valid amount.

    Raises:
        DialectError: the amount is not a whole number, or outside the bounds.
    """
    found = stated_amount(member, resource)
    if found is None:
        return None
    place, amount = found
    try:
        number = parse_int(str(amount))
    except QuantityError:
        raise DialectError(place, amount, f"must be a whole number, {low} to {high}") from None
    if not low <= number <= high:
        raise DialectError(place, amount, f"must be {low} to {high}")
    return number


def whole_cards(member: PodContainer, cards: int) -> ContainerRequest:
    """Return the request of a container for whole cards."""
    return ContainerRequest(
        member.container.name,
        cards,
        memory_percent=FULL,
        compute=FULL,
        exclusive=True,
        linked=True,
        phase=member.phase,
    )


def reject_privileged(pod: Pod) -> None:
    """Reject a pod that requests a share and has a privileged container, as HAMi's webhook does.

    One privileged container of the pod is enough, also an init container or one without a share.
    Source: HAMi v2.10 pkg/scheduler/webhook.go:106-109 (``Handle``) and 130-148
    (``privilegedContainerName``, ``isPrivilegedContainer``).

    Raises:
        DialectError: a container is privileged.
    """
    for member in pod_containers(pod):
        context = member.container.security_context
        if context is not None and context.privileged:
            raise DialectError(
                f"{member.path}.securityContext.privileged",
                context.privileged,
                "must be false or absent in a pod that requests a share of a card: a privileged"
                " container reaches every card of its node; request whole cards without amounts,"
                " or no card",
            )
