"""Reads what a pod requests of Koordinator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adapters.dialects.containers import PodContainer, is_zero, pod_containers, whole_amount
from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.hami_record import BEST_EFFORT, HAMI, METAX_QOS, QOS_POLICIES
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.container_amounts import (
    MAX_CARDS,
    ContainerAmounts,
    read_container_amounts,
)
from adapters.dialects.koordinator.hints import read_hints
from adapters.wire.kube import Pod, annotations, full_name, labels
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB, format_bytes
from core.requests.request import ContainerRequest, PluginShare, Ranking, Request


def matches(pod: Pod) -> bool:
    """Whether a pod means Koordinator.

    It does if it names a resource of Koordinator, or whole AMD or Hygon cards in an amount other
    than 0. ``nvidia.com/gpu`` is a whole card in several dialects: it means Koordinator beside an
    annotation or a label that only Koordinator reads.
    """
    hinted = not keys.HINTS.isdisjoint({*annotations(pod), *labels(pod)})
    return any(
        name in keys.OWN
        or (name in keys.WHOLE_CARDS and not is_zero(amount) and (hinted or name != GPU))
        for member in pod_containers(pod)
        for amounts in (member.container.resources.limits, member.container.resources.requests)
        for name, amount in (amounts or {}).items()
    )


def read_pod_request(pod: Pod, ranking: Ranking) -> Request:
    """Read what a pod requests.

    Raises:
        DialectError: the request is invalid, or out of scope.
    """
    found = [(member, read_container_amounts(member)) for member in pod_containers(pod)]
    requests = tuple(amounts.request for _, amounts in found if amounts is not None)
    if not requests:
        raise DialectError("spec.containers[*].resources", "", "requests no GPU")
    vendors = [(member.path, _vendor(member, amounts)) for member, amounts in found]
    vendor = _only({path: vendor for path, vendor in vendors if vendor is not None})
    hints = read_hints(pod, requests)
    whole = all(amounts.vendor for _, amounts in found if amounts is not None)
    divided = any(request.memory_percent != FULL for request in requests)
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        alternatives=frozenset({HAMI}) if _means_hami_too(found) else frozenset(),
        containers=tuple(
            replace(request, exclusive=request.exclusive or hints.exclusive) for request in requests
        ),
        modes=frozenset({Mode.SHARED}) if divided else frozenset({Mode.SHARED, Mode.WHOLE}),
        vendor=vendor,
        qos=_qos(pod, requests) if vendor == keys.METAX else None,
        isolation=labels(pod).get(keys.ISOLATION) or None if divided else None,
        ranking=ranking,
        topology=hints.topology,
        priority=pod.spec.priority or 0,
        notes=hints.notes,
        plugin=PluginShare.CARD if whole else None,
    )


def _means_hami_too(found: Sequence[tuple[PodContainer, ContainerAmounts | None]]) -> bool:
    """Whether all that a pod requests are whole NVIDIA cards, by the name that HAMi has too."""
    return {amounts.vendor for _, amounts in found if amounts is not None} == {keys.NVIDIA}


def _vendor(member: PodContainer, amounts: ContainerAmounts | None) -> str | None:
    """The only vendor whose cards a container can use; checks a MetaX trigger too."""
    cards = whole_amount(member, keys.METAX_TRIGGER, 1, MAX_CARDS)
    if cards is None:
        return None if amounts is None else amounts.vendor
    place = f"{member.path}.resources[{keys.METAX_TRIGGER}]"
    if amounts is None or amounts.vendor is not None:
        raise DialectError(place, cards, f"needs {keys.RATIO} or {keys.MEMORY} in its container")
    request = amounts.request
    if cards != request.count:
        raise DialectError(place, cards, f"must be {request.count}, the number of requested cards")
    if request.memory is not None and request.memory < MIB:
        raise DialectError(
            f"{member.path}.resources[{keys.MEMORY}]",
            request.memory,
            f"must be at least {format_bytes(MIB)} of each card: MetaX counts in MiB",
        )
    return keys.METAX


def _qos(pod: Pod, requests: Sequence[ContainerRequest]) -> str | None:
    """The QoS policy under which a pod has a part of a MetaX card's compute, as in HAMi.

    Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:107-126,529-555.
    """
    stated = annotations(pod).get(METAX_QOS, BEST_EFFORT)
    if stated not in QOS_POLICIES:
        problem = f"must be one of {', '.join(QOS_POLICIES)}"
        raise DialectError(f"metadata.annotations[{METAX_QOS}]", stated, problem)
    return stated if any(request.compute < FULL for request in requests) else None


def _only(vendors: Mapping[str, str]) -> str | None:
    """The one vendor of all containers that need a vendor."""
    if len(set(vendors.values())) > 1:
        found = ", ".join(f"{path}: {vendor}" for path, vendor in vendors.items())
        raise DialectError(
            "spec.containers[*].resources", found, "a pod's cards must be of one vendor"
        )
    return next(iter(vendors.values()), None)
