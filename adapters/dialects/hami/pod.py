"""Reads what a pod requests: amounts in its resources, constraints in its annotations."""

from adapters.dialects.containers import pod_containers, resource_names, stated_amount
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.formats.annotation_values import (
    boolean,
    names,
    several_words,
)
from adapters.dialects.formats.hami_policies import NUMA_BIND, read_policies
from adapters.dialects.hami import keys
from adapters.dialects.hami.amounts import read_amounts
from adapters.dialects.hami.settings import HamiConfig
from adapters.wire.kube import Pod, Text, annotations, full_name
from core.hardware.card import Level, Mode
from core.requests.request import Request, TopologyConstraint

_MODES = {keys.HAMI_CORE: Mode.SHARED, keys.MIG: Mode.MIG, keys.MPS: Mode.MPS}

_NO_DAEMON = (
    f"metadata.annotations[{keys.MODE}]: {keys.MPS}: the container gets HAMi-core's limits, as from"
    " HAMi's device plugin, and no MPS daemon"
)
"""Source: HAMi v2.10 pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go:832, where each
mode but MIG has the same environment, and mps.go:59-67, which adds nothing to it."""


def matches(pod: Pod, config: HamiConfig) -> bool:
    """Whether a pod means HAMi.

    It does if it names a resource that only HAMi has. ``nvidia.com/gpu`` alone is a whole card in
    several dialects: it means HAMi beside an annotation that only HAMi reads, or where HAMi's
    settings give such a container a default memory.
    """
    named = resource_names(pod)
    if not named.isdisjoint(config.amounts):
        return True
    if config.count not in named or not any(
        found is not None and str(found[1]).strip() != "0"
        for found in (stated_amount(member, config.count) for member in pod_containers(pod))
    ):
        return False
    if config.count != keys.COUNT or config.default_memory:
        return True
    return not annotations(pod).keys().isdisjoint(keys.POD_ANNOTATIONS)


def read_request(pod: Pod, config: HamiConfig, defaults: Defaults) -> Request:
    """Read what a pod that ``matches`` requests.

    Raises:
        DialectError: the request is invalid.
    """
    texts = annotations(pod)
    policies = read_policies(texts, defaults)
    found = [read_amounts(member, config) for member in pod_containers(pod)]
    amounts = [one for one in found if one is not None]
    if not amounts:
        raise DialectError("spec.containers[*].resources", "", f"requests no {config.count}")
    bound = boolean(texts, NUMA_BIND) or False
    linked = policies.linked or defaults.topology_aware or False
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        containers=tuple(
            one.request(config, alone=policies.mutex, linked=linked or bound) for one in amounts
        ),
        modes=_modes(texts),
        vendor=keys.VENDOR,
        allow_uuids=names(texts, keys.USE_UUID) or None,
        deny_uuids=names(texts, keys.AVOID_UUID),
        allow_types=tuple(sorted(names(texts, keys.USE_TYPE))) or None,
        deny_types=tuple(sorted(names(texts, keys.AVOID_TYPE))),
        ranking=policies.ranking(),
        topology=TopologyConstraint(
            levels=(Level.NUMA, Level.PCIE, Level.LINK) if linked else (),
            required=Level.NUMA if bound else None,
            by_score=linked,
        ),
        priority=pod.spec.priority or 0,
        several_slices=True,
        notes=(*(note for one in amounts for note in one.notes), *_notes(texts)),
    )


def _modes(texts: Text) -> frozenset[Mode]:
    """The modes of cards that a pod allows: those that it names, or else each.

    Source: nvidia/device.go:486-497, checkType.
    """
    words = several_words(texts, keys.MODE, *_MODES)
    return frozenset(_MODES[word] for word in words) or frozenset(_MODES.values())


def _notes(texts: Text) -> tuple[str, ...]:
    return (_NO_DAEMON,) if keys.MPS in several_words(texts, keys.MODE, *_MODES) else ()
