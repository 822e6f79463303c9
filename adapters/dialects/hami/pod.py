"""Reads what a pod requests: amounts in its resources, constraints in its annotations."""

from adapters.dialects.containers import pod_containers, resource_names, stated_amount
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.formats.annotation_values import (
    annotation_path,
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

_MODES = {keys.HAMI_CORE: Mode.SHARED, keys.MIG: Mode.MIG}


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
        notes=tuple(note for one in amounts for note in one.notes),
    )


def _modes(texts: Text) -> frozenset[Mode]:
    """The modes of cards that a pod allows.

    A card that HAMi shares by MPS is a shared card here, as one of HAMi-core, so a pod cannot ask
    for one of the two.
    """
    words = several_words(texts, keys.MODE, keys.HAMI_CORE, keys.MIG, keys.MPS)
    if words == (keys.MPS,):
        problem = f"must be {keys.HAMI_CORE}, {keys.MIG} or both; MPS is not selectable"
        raise DialectError(annotation_path(keys.MODE), texts[keys.MODE], problem)
    return frozenset(_MODES[word] for word in words if word in _MODES) or frozenset(_MODES.values())
