"""Warnings for annotations, labels and resources that look like a dialect's but are not read.

Such a name that is close to one that a dialect reads is probably misspelled, and one that is read
in another place stands in a wrong one. A resource of an accelerator that no dialect counts is
named, so that its author does not wait for Dragoman; so is an annotation about cards that no
dialect reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import islice

from adapters.dialects import registry
from adapters.dialects.containers import pod_containers, resource_names
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.dialect import Dialect
from adapters.dialects.info import DialectInfo
from adapters.wire.kube import Container, Pod, PodSpec, Resources, annotations, labels

MOST = 16

NOT_COUNTED = "Dragoman does not count this resource"
"""The end of a warning about a resource of an accelerator."""

_MISPLACED = "not read there; it is"

_COMPARED = 128
"""Annotations or labels that are compared with the known ones, of these domains; no honest pod has
as many."""

_CLOSE = 0.8
_PREFIX = 6
"""Characters from which on the beginning of a known name counts as close to it."""

# Domains of accelerators' resources. Source: HAMi v2.10.0 charts/hami/values.yaml and
# docs of the vendors' device plugins.
SHARERS = (
    "aliyun.com/gpu-",
    "cerit.io/gpu",
    "elasticgpu.io/",
    "k8s.amazonaws.com/vgpu",
    "nvidia.com/gpu-",
    "nvshare.com/",
    "tencent.com/vcuda-",
    "volcano.sh/gpu-",
)
"""Resources of systems that share NVIDIA's cards, each with a book of its own.

Source: gpushare-device-plugin of AliyunContainerService and of CERIT-SC, elastic-gpu,
aws-virtual-gpu-device-plugin, nebuly nos (``nvidia.com/gpu-10gb``), nvshare, tkestack gpu-manager,
and Volcano's device plugin before vGPU (``volcano.sh/gpu-memory``), each in its README.
"""

_ACCELERATORS = (
    *SHARERS,
    "amd.com/",
    "aws.amazon.com/neuron",
    "birentech.com/",
    "cambricon.com/",
    "enflame.com/",
    "google.com/tpu",
    "gpu.intel.com/",
    "habana.ai/",
    "huawei.com/",
    "hygon.com/",
    "iluvatar.ai/",
    "iluvatar.com/",
    "kunlunxin.com/",
    "metax-tech.com/",
    "mthreads.com/",
    "nvidia.com/",
    "vastaitech.com/",
)


# Beginnings of annotations that are about cards and no other component's.
_ABOUT_CARDS = (
    "hami.io/",
    "koordinator.sh/gpu",
    "metax-tech.com/",
    "nvidia.com/",
    "volcano.sh/vgpu-",
)


def advice(pod: Pod, dialects: Sequence[Dialect]) -> tuple[str, ...]:
    """Return warnings for the author of a pod, ``MOST`` sentences at most; most pods get none."""
    return tuple(islice(_warnings(pod, dialects), MOST))


def counts(name: str, dialects: Sequence[Dialect]) -> bool:
    """Return whether a dialect counts a resource, also where a setting renames it."""
    if name in _known(registry.DIALECTS).resources:
        return True
    pod = Pod(spec=PodSpec(containers=(Container("", Resources(limits={name: 1})),)))
    return any(dialect.matches(pod) for dialect in dialects)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the dialects read: resources, annotations and labels, and the domains of all three."""

    resources: frozenset[str]
    annotations: frozenset[str]
    labels: frozenset[str]
    domains: frozenset[str]


@lru_cache(maxsize=1)
def _known(_: tuple[DialectInfo, ...]) -> _Known:
    """Return what the dialects of a registry read; computed again only for another registry."""
    annotations = registry.annotations()
    resources = registry.resources() | registry.resources_beside()
    labels = registry.labels()
    domains = frozenset(key.partition("/")[0] for key in annotations | labels | resources)
    return _Known(resources, annotations, labels, domains)


def _warnings(pod: Pod, dialects: Sequence[Dialect]) -> Iterator[str]:
    known = _known(registry.DIALECTS)
    counted = {name for name in resource_names(pod) if _is_served(name, dialects)}
    for member in pod_containers(pod):
        resources = member.container.resources
        for name in sorted({*(resources.limits or ()), *(resources.requests or ())} - counted):
            close = _close(name, known.resources)
            if name in known.annotations:
                yield f"{member.path}.resources[{name}]: {_MISPLACED} an annotation"
            elif close is not None:
                yield f"{member.path}.resources[{name}]: no dialect has it; did you mean {close}?"
            elif name.startswith(_ACCELERATORS):
                yield f"{member.path}.resources[{name}]: {NOT_COUNTED}"
    named = resource_names(pod)
    everything = known.annotations | known.labels | known.resources
    for place, keys, read in (
        ("annotations", annotations(pod), known.annotations),
        ("labels", labels(pod), known.labels | registry.service_keys()),
    ):
        near = (key for key in sorted(keys) if key.partition("/")[0] in known.domains)
        for key in islice(near, _COMPARED):
            if key in read or key in named:
                continue
            where = f"metadata.{place}[{key}]"
            close = _close(key, everything)
            if key in known.resources or plugin_share(key) is not None:
                yield f"{where}: {_MISPLACED} a resource of a container"
            elif key in everything:
                kind = "an annotation" if key in known.annotations else "a label"
                yield f"{where}: {_MISPLACED} {kind}"
            elif close is not None:
                yield f"{where}: no dialect reads it; did you mean {close}?"
            elif place == "annotations" and counted and key.startswith(_ABOUT_CARDS):
                yield f"{where}: no dialect reads it"


def uncounted(names: Iterable[str], dialects: Sequence[Dialect]) -> tuple[str, ...]:
    """Return the resources of accelerators that no dialect and no known device plugin counts."""
    of_cards = (name for name in names if name.startswith(_ACCELERATORS))
    return tuple(sorted(name for name in of_cards if not _is_served(name, dialects)))


def _is_served(name: str, dialects: Sequence[Dialect]) -> bool:
    """Return whether a dialect or a known device plugin counts a resource."""
    return plugin_share(name) is not None or counts(name, dialects)


def _close(name: str, known: frozenset[str]) -> str | None:
    """Return the closest known name of the same domain; None where none is close."""
    domain, _, own = name.partition("/")
    if name in known or not own:
        return None
    best: tuple[float, str] | None = None
    for each in sorted(known):
        its_domain, _, its_own = each.partition("/")
        if its_domain != domain:
            continue
        begins = len(own) >= _PREFIX and its_own.startswith(own)
        ratio = SequenceMatcher(None, _letters(own), _letters(its_own)).ratio()
        if (ratio >= _CLOSE or begins) and (best is None or ratio > best[0]):
            best = ratio, each
    return None if best is None else best[1]


def _letters(name: str) -> str:
    return name.translate({ord(each): None for each in "-._"})
