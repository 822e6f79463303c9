"""Reads what a pod requests of MetaX cards: shares, or whole cards.

Source of the whole cards: HAMi v2.10.0 pkg/device/metax/device.go:134-166.
"""

from adapters.dialects.containers import pod_containers, stated_amount, whole_amount
from adapters.dialects.device_plugins.resources import plugin_share
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.formats.annotation_values import annotation_path, names
from adapters.dialects.formats.hami_policies import read_policies
from adapters.dialects.metax import keys, shares
from adapters.dialects.metax.amount import MAX_AMOUNT
from adapters.dialects.metax.settings import MetaxConfig
from adapters.wire.kube import Pod, annotations, full_name
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest, Request


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
        return shares.read_share_request(pod, sharing, config, defaults)
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
        (member, whole_amount(member, config.gpu, 1, MAX_AMOUNT)) for member in pod_containers(pod)
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
