"""Reads what a pod requests in shares of cards (sGPU).

Source: MetaX sGPU manual, tables 7.7 to 7.14; HAMi v2.10.0 pkg/device/metax/sdevice.go.
"""

from collections.abc import Sequence

from adapters.dialects.containers import PodContainer, stated_amount, whole_amount
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.formats.annotation_values import annotation_path, boolean, names, one_word
from adapters.dialects.formats.hami_policies import read_policies
from adapters.dialects.formats.hami_record import BEST_EFFORT, QOS_POLICIES
from adapters.dialects.metax import keys
from adapters.dialects.metax.amount import MAX_AMOUNT, memory_amount
from adapters.dialects.metax.settings import MetaxConfig
from adapters.wire.kube import Pod, Text, annotations, full_name
from core.hardware.card import Level, Mode
from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest, Request, TaskClass, TopologyConstraint

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
        task_class=task_class,
        qos=(qos or BEST_EFFORT) if limited and not online else None,
        ranking=order.ranking(
            online=online, links=links and any(request.linked for request in requests)
        ),
        topology=TopologyConstraint(levels=(Level.LINK,)),
        priority=pod.spec.priority or 0,
        notes=tuple(_notes(sharing, config, online=online, qos=qos)),
    )


def default_annotations(texts: Text, request: Request) -> Text:
    """The QoS policy that HAMi's webhook adds where the author sets none.

    Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:107-126.
    """
    unset = keys.QOS not in texts and Mode.WHOLE not in request.modes
    if not unset or request.task_class is TaskClass.ONLINE:
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
