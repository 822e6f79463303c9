"""Reads and writes what a pod requests of MetaX cards: shares (sGPU), or whole cards.

Source: MetaX sGPU manual, tables 7.7 to 7.14; HAMi v2.10.0 pkg/device/metax/sdevice.go (its memory
amounts: lines 251-278), and device.go:134-166 for whole cards.
"""

from collections.abc import Sequence
from dataclasses import replace

from adapters.dialects.containers import (
    LARGEST_QUANTITY,
    PodContainer,
    pod_containers,
    stated_amount,
    whole_amount,
    whole_cards,
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
from adapters.wire.kube import Pod, annotations, full_name
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
    counts = [
        (member, whole_amount(member, config.gpu, 1, LARGEST_QUANTITY))
        for member in pod_containers(pod)
    ]
    requests = tuple(
        replace(whole_cards(member, count), linked=False, step=MIB)
        for member, count in counts
        if count is not None
    )
    if not requests:
        return _read_shares(pod, sharing, config, defaults)
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


MAX_AMOUNT = 2**31 - 1
"""The largest number that a record can contain, in its own unit."""

# HAMi v2.10.0 pkg/device/metax/protocol.go:45-48
TASK_CLASSES = {"online": TaskClass.ONLINE, "offline": TaskClass.OFFLINE}


def _read_shares(
    pod: Pod, sharing: Sequence[PodContainer], config: MetaxConfig, defaults: Defaults
) -> Request:
    """Read what a pod requests whose containers ``sharing``, one or more, name sGPU resources.

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
    requests: list[ContainerRequest] = []
    notes: list[str] = []
    for member in sharing:
        count = whole_amount(member, config.sgpu, 1, MAX_AMOUNT)
        compute = whole_amount(member, config.vcore, 1, FULL) or FULL
        memory, note = _memory_amount(member, config.vmemory)
        vcore = stated_amount(member, config.vcore)
        if count is None:
            alone = (vcore, stated_amount(member, config.vmemory))
            field, value = next(found for found in alone if found)
            problem = f"needs {config.sgpu} too, the number of cards"
            raise DialectError(field, value, problem)
        full = compute == FULL and not online
        requests.append(
            ContainerRequest(
                member.container.name,
                count,
                memory=memory,
                memory_percent=FULL if memory is None else None,
                compute=0 if online else compute,
                exclusive=full or order.mutex,
                linked=full and task_class is TaskClass.NORMAL,
                step=MIB,
                phase=member.phase,
            )
        )
        notes += [note] if note else []
        if online and vcore:
            notes.append(f"{vcore[0]}: {vcore[1]} is not used, an online task reserves no compute")
    if online and qos:
        notes.append(f"{annotation_path(keys.QOS)}: {qos} is not used for an online task")
    total = sum(request.count for request in requests)
    if task_class is not TaskClass.NORMAL and total > 1:
        problem = f"such a task can have one card in all its containers, not {total}"
        raise DialectError(annotation_path(keys.APP_CLASS), texts[keys.APP_CLASS], problem)
    own = boolean(texts, keys.TOPOLOGY_AWARE)
    choices = (own, defaults.topology_aware, config.topology_aware)
    links = next((choice for choice in choices if choice is not None), False)
    limited = any(request.compute < FULL for request in requests)
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        containers=tuple(requests),
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
        notes=tuple(notes),
    )


def _memory_amount(member: PodContainer, resource: str) -> tuple[int | None, str]:
    """Return the bytes that a container requests, and a note where they were rounded.

    None where it requests none. A number without a suffix is in GiB. The function rounds every
    amount down to whole MiB, the smallest unit of a record.

    Raises:
        DialectError: the text is not an amount, or less than 1 MiB, or too large for a record.
    """
    found = stated_amount(member, resource)
    if found is None:
        return None, ""
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
    size = amount // MIB * MIB
    if not MIB <= size <= MAX_AMOUNT * MIB:
        most = f"{MAX_AMOUNT}Mi"
        problem = f"must be 1Mi to {most}; a bare number counts GiB; omit it for all memory"
        raise DialectError(place, value, problem)
    note = f"{place}: {value} is rounded down to {format_bytes(size)}"
    return size, note if size != amount else ""


def write(request: Request, card_memory: int | None) -> WrittenRequest:
    """Write a request.

    Raises:
        DialectError: a container requests a part of a card's memory in percent, which has no word
            here, and the bytes of a card are not known.
    """
    if request.modes == frozenset({Mode.WHOLE}):
        return WrittenRequest(tuple({keys.GPU: each.count} for each in request.containers))
    online = request.terms.task_class is TaskClass.ONLINE
    mutex = needs_exclusive_policy(request, lambda each: each.compute == FULL and not online)
    containers: list[dict[str, int | str]] = []
    for container in request.containers:
        stated: dict[str, int | str] = {keys.SGPU: container.count}
        if not online:  # at least 1 percent: without an amount it would have all
            stated[keys.VCORE] = max(stated_compute(container, by_policy=mutex), 1)
        if container.memory is None and container.memory_percent != FULL and card_memory is None:
            raise DialectError(
                f"container {container.name}",
                f"{container.memory_percent} % of the card's memory",
                f"{keys.VMEMORY} counts bytes; state the memory of a card with --card-memory",
            )
        if container.memory_percent != FULL:
            stated[keys.VMEMORY] = f"{mebibytes(container.memory_on(card_memory or 0))}Mi"
        containers.append(stated)
    classes = {task_class: name for name, task_class in TASK_CLASSES.items()}
    return WrittenRequest(
        tuple(containers),
        words(
            {
                keys.USE_UUIDS: sorted(request.allow_uuids or ()),
                keys.NO_USE_UUIDS: sorted(request.deny_uuids),
                keys.APP_CLASS: classes.get(request.terms.task_class, ""),
                keys.QOS: request.terms.qos or "",
                CARD_POLICY: MUTEX if mutex else "",
            }
        ),
    )


WRITER = RequestWriter(
    resources=frozenset({keys.SGPU, keys.VCORE, keys.VMEMORY, keys.GPU}),
    annotations=keys.POD_ANNOTATIONS,
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)
