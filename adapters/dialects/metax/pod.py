"""Reads and writes what a pod requests of MetaX cards: shares (sGPU), or whole cards.

Source: MetaX sGPU manual, tables 7.7 to 7.14; HAMi v2.10.0 pkg/device/metax/sdevice.go (its memory
amounts: lines 251-278), and device.go:134-166 for whole cards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.dialects.containers import (
    LARGEST_QUANTITY,
    PodContainer,
    pod_containers,
    stated_amount,
    whole_amount,
)
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.formats.annotation_values import annotation_path, boolean, names, one_word
from adapters.dialects.formats.hami_policies import CARD_POLICY, MUTEX, read_policies
from adapters.dialects.formats.hami_record import BEST_EFFORT, QOS_POLICIES
from adapters.dialects.metax import keys
from adapters.dialects.metax.keys import MetaxConfig
from adapters.dialects.request_writer import (
    RequestWriter,
    WrittenRequest,
    mebibytes,
    needs_exclusive_policy,
    stated_compute,
    words,
)
from adapters.wire.kube import Pod, Text, annotations, full_name
from adapters.wire.quantity import QuantityError, parse
from core.hardware.card import Level, Mode
from core.hardware.quantity import FULL, GIB, MIB, format_bytes
from core.requests.request import (
    ContainerRequest,
    Request,
    SharingTerms,
    TaskClass,
    TopologyConstraint,
)


def read_request(pod: Pod, config: MetaxConfig, defaults: Defaults) -> Request:
    """Read what a pod that names any of the resources requests.

    Raises:
        DialectError: the request is invalid.
    """
    sharing = [
        member
        for member in pod_containers(pod)
        if any(stated_amount(member, name) for name in (config.sgpu, config.vcore, config.vmemory))
    ]
    requests = _whole_cards(pod, config)
    if not requests:
        return read_share_request(pod, sharing, config, defaults)
    if sharing:
        problem = f"cannot be in one pod with {config.gpu}: request shares or whole cards"
        raise DialectError(f"{sharing[0].path}.resources", config.sgpu, problem)
    texts = annotations(pod)
    for key in (keys.USE_UUIDS, keys.NO_USE_UUIDS):
        if names(texts, key):
            problem = f"{config.gpu} cards have no uuid to choose by; request {config.sgpu}"
            raise DialectError(annotation_path(key), texts[key], problem)
    unused = [key for key in (keys.QOS, keys.APP_CLASS, keys.TOPOLOGY_AWARE) if key in texts]
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        containers=requests,
        modes=frozenset({Mode.WHOLE}),
        vendor=keys.NAME,
        ranking=read_policies(texts, defaults).ranking(whole=True),
        priority=pod.spec.priority or 0,
        notes=tuple(
            f"{annotation_path(key)}: {texts[key]} is not used for whole cards" for key in unused
        ),
        plugin=plugin_share(config.gpu),
    )


def _whole_cards(pod: Pod, config: MetaxConfig) -> tuple[ContainerRequest, ...]:
    counts = [
        (member, whole_amount(member, config.gpu, 1, LARGEST_QUANTITY))
        for member in pod_containers(pod)
    ]
    return tuple(
        ContainerRequest(
            member.container.name,
            count,
            memory_percent=FULL,
            compute=FULL,
            exclusive=True,
            step=MIB,
            phase=member.phase,
        )
        for member, count in counts
        if count is not None
    )


# HAMi v2.10.0 pkg/device/metax/protocol.go:45-48
TASK_CLASSES = {"online": TaskClass.ONLINE, "offline": TaskClass.OFFLINE}


def read_share_request(
    pod: Pod, sharing: Sequence[PodContainer], config: MetaxConfig, defaults: Defaults
) -> Request:
    """Read what a pod requests.

    Args:
        pod: the pod.
        sharing: its containers that name sGPU resources, in start order; at least one.
        config: the resource names, and the cluster's default for links.
        defaults: of the operator.

    Raises:
        DialectError: the request is invalid.
    """
    texts = annotations(pod)
    task_class = TASK_CLASSES.get(
        one_word(texts, keys.APP_CLASS, *TASK_CLASSES) or "", TaskClass.NORMAL
    )
    online = task_class is TaskClass.ONLINE
    qos = one_word(texts, keys.QOS, *QOS_POLICIES)
    order = read_policies(texts, defaults)
    requests = tuple(_request(member, config, task_class, mutex=order.mutex) for member in sharing)
    total = sum(request.count for request in requests)
    if task_class is not TaskClass.NORMAL and total > 1:
        problem = f"such a task can have one card in all its containers, not {total}"
        raise DialectError(annotation_path(keys.APP_CLASS), texts[keys.APP_CLASS], problem)
    links = _topology_aware(texts, config, defaults)
    limited = any(request.compute < FULL for request in requests)
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        containers=requests,
        allow_uuids=names(texts, keys.USE_UUIDS) or None,
        deny_uuids=names(texts, keys.NO_USE_UUIDS),
        terms=SharingTerms(
            task_class=task_class, qos=(qos or BEST_EFFORT) if limited and not online else None
        ),
        ranking=order.ranking(
            online=online, links=links and any(request.linked for request in requests)
        ),
        topology=TopologyConstraint(levels=(Level.LINK,)),
        priority=pod.spec.priority or 0,
        notes=tuple(_notes(sharing, config, online=online, qos=qos)),
    )


def default_annotations(texts: Text, request: Request) -> Text:
    """Return the QoS policy that HAMi's webhook adds where the author sets none.

    Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:107-126.
    """
    unset = keys.QOS not in texts and Mode.WHOLE not in request.modes
    if not unset or request.terms.task_class is TaskClass.ONLINE:
        return {}
    return {keys.QOS: BEST_EFFORT}


def _request(
    member: PodContainer, config: MetaxConfig, task_class: TaskClass, *, mutex: bool
) -> ContainerRequest:
    count = whole_amount(member, config.sgpu, 1, MAX_AMOUNT)
    compute = whole_amount(member, config.vcore, 1, FULL) or FULL
    amount = memory_amount(member, config.vmemory)
    if count is None:
        alone = (stated_amount(member, config.vcore), stated_amount(member, config.vmemory))
        field, value = next(found for found in alone if found)
        problem = f"needs {config.sgpu} too, the number of cards"
        raise DialectError(field, value, problem)
    online = task_class is TaskClass.ONLINE
    full = compute == FULL and not online
    return ContainerRequest(
        member.container.name,
        count,
        memory=amount.size if amount else None,
        memory_percent=None if amount else FULL,
        compute=0 if online else compute,
        exclusive=full or mutex,
        linked=full and task_class is TaskClass.NORMAL,
        step=MIB,
        phase=member.phase,
    )


def _notes(
    sharing: Sequence[PodContainer], config: MetaxConfig, *, online: bool, qos: str | None
) -> list[str]:
    notes: list[str] = []
    for member in sharing:
        amount = memory_amount(member, config.vmemory)
        if amount and amount.note:
            notes.append(amount.note)
        vcore = stated_amount(member, config.vcore)
        if online and vcore:
            notes.append(f"{vcore[0]}: {vcore[1]} is not used, an online task reserves no compute")
    if online and qos:
        notes.append(f"{annotation_path(keys.QOS)}: {qos} is not used for an online task")
    return notes


def _topology_aware(texts: Text, config: MetaxConfig, defaults: Defaults) -> bool:
    own = boolean(texts, keys.TOPOLOGY_AWARE)
    choices = (own, defaults.topology_aware, config.topology_aware)
    return next((choice for choice in choices if choice is not None), False)


MAX_AMOUNT = 2**31 - 1
"""The largest number that a record can contain, in its own unit."""


@dataclass(frozen=True, slots=True)
class MemoryAmount:
    """An amount of memory that a record can contain.

    Attributes:
        size: bytes, a whole number of MiB.
        note: says that the amount was rounded, and to what; empty where it was not.
    """

    size: int
    note: str


def memory_amount(member: PodContainer, resource: str) -> MemoryAmount | None:
    """Return the memory that a container requests; None where it requests none.

    A number without a suffix is in GiB. The function rounds every amount down to whole MiB, the
    smallest unit of a record.

    Raises:
        DialectError: the text is not an amount, or less than 1 MiB, or too large for a record.
    """
    found = stated_amount(member, resource)
    if found is None:
        return None
    place, value = found
    text = str(value).strip()
    try:
        amount = parse(text)
    except QuantityError:
        problem = "must be a number of GiB such as 4, or an amount such as 4Gi or 2048Mi"
        raise DialectError(place, value, problem) from None
    if not any(letter.isalpha() for letter in text):
        if amount.denominator != 1:
            raise DialectError(place, value, "must be a whole number of GiB, or have a unit")
        amount *= GIB
    mebibytes = amount // MIB
    if not 1 <= mebibytes <= MAX_AMOUNT:
        problem = f"must be 1Mi to {MAX_AMOUNT}Mi; a bare number counts GiB; omit it for all memory"
        raise DialectError(place, value, problem)
    size = mebibytes * MIB
    note = f"{place}: {value} is rounded down to {format_bytes(size)}" if size != amount else ""
    return MemoryAmount(size, note)


def write(request: Request, card_memory: int | None) -> WrittenRequest:
    """Write a request.

    Raises:
        DialectError: a container requests a part of a card's memory in percent, which has no word
            here, and the bytes of a card are not known.
    """
    if request.modes == frozenset({Mode.WHOLE}):
        return WrittenRequest(tuple({keys.GPU: each.count} for each in request.containers))
    online = request.terms.task_class is TaskClass.ONLINE
    mutex = needs_exclusive_policy(
        request, lambda container: container.compute == FULL and not online
    )
    names = {task_class: name for name, task_class in TASK_CLASSES.items()}
    return WrittenRequest(
        tuple(
            {
                keys.SGPU: container.count,
                **_compute(container, online=online, mutex=mutex),
                **_memory(container, card_memory),
            }
            for container in request.containers
        ),
        words(
            {
                keys.USE_UUIDS: sorted(request.allow_uuids or ()),
                keys.NO_USE_UUIDS: sorted(request.deny_uuids),
                keys.APP_CLASS: names.get(request.terms.task_class, ""),
                keys.QOS: request.terms.qos or "",
                CARD_POLICY: MUTEX if mutex else "",
            }
        ),
    )


def _compute(container: ContainerRequest, *, online: bool, mutex: bool) -> dict[str, int]:
    """Return the amount of compute, at least 1 percent.

    Without one a container has all of its cards'.
    """
    if online:
        return {}
    return {keys.VCORE: max(stated_compute(container, by_policy=mutex), 1)}


def _memory(container: ContainerRequest, card_memory: int | None) -> dict[str, str]:
    if container.memory_percent == FULL:
        return {}
    if container.memory is None and card_memory is None:
        raise DialectError(
            f"container {container.name}",
            f"{container.memory_percent} % of the card's memory",
            f"{keys.VMEMORY} counts bytes; state the memory of a card with --card-memory",
        )
    return {keys.VMEMORY: f"{mebibytes(container.memory_on(card_memory or 0))}Mi"}


WRITER = RequestWriter(
    resources=frozenset({keys.SGPU, keys.VCORE, keys.VMEMORY, keys.GPU}),
    annotations=keys.POD_ANNOTATIONS,
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)
