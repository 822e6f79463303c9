"""HAMi's settings for cards of any vendor: device configuration and policies.

Source: HAMi v2.10.0 pkg/scheduler/policy/{gpu,node}_policy.go and
pkg/device/metax/{device,sdevice}.go.

The device configuration is one file, with a section for each vendor. Source: HAMi v2.10
charts/hami/templates/scheduler/device-configmap.yaml. Its name there is that of the release with
``-scheduler-device`` (``_helpers.tpl``, hami-vgpu.fullname), and its labels are the same in each
release. ``nodeconfig`` of the device plugin's own ConfigMap is read by the plugin alone
(pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go:134), which states the outcome in the
annotation of its node.
"""

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from adapters.dialects.dialect import Defaults, DialectError, Document, Documents, SchedulingPolicy
from adapters.dialects.formats import annotation_values
from adapters.wire.decode.decoder import UnreadableError, convert
from adapters.wire.kube import Text
from core.requests.request import CardKey, NodeKey, Ranking, Weights

# pkg/util/types.go:87
NODE_POLICY = "hami.io/node-scheduler-policy"
# pkg/util/types.go:89
CARD_POLICY = "hami.io/gpu-scheduler-policy"
# pkg/util/device_scoring_weights.go:43
WEIGHTS = "hami.io/device-scoring-weights"
# pkg/scheduler/scheduler.go:642
NUMA_BIND = "nvidia.com/numa-bind"

BINPACK = SchedulingPolicy.BINPACK.value
SPREAD = SchedulingPolicy.SPREAD.value
# pkg/util/types.go:70-82
MUTEX = "mutex"
NUMA = "numa"
TOPOLOGY = "topology-aware"

_CARD_KEYS = {
    BINPACK: CardKey.FULLEST,
    SPREAD: CardKey.EMPTIEST,
    MUTEX: CardKey.IDLE,
    NUMA: CardKey.HIGH_NUMA,
}
# pkg/util/device_scoring_weights.go:43-102
_WEIGHT = re.compile(r"\s*(slot|core|memory)\s*=\s*([0-9]{1,9})\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a pod, or else of the operator.

    Attributes:
        node: ``binpack`` or ``spread``.
        cards: criteria by name, most important first; never empty.
        numa_first: the NUMA node counts before ``cards``.
        linked: ``topology-aware`` is one of the policies.
        weights: of slots, compute and memory in the use of a card or node.
    """

    node: str
    cards: tuple[str, ...]
    numa_first: bool
    linked: bool
    weights: Weights

    @property
    def mutex(self) -> bool:
        """Whether no other pod may use the pod's cards."""
        return MUTEX in self.cards

    def ranking(self, *, online: bool = False, links: bool = False, whole: bool = False) -> Ranking:
        """Return the policies as criteria of the core.

        Args:
            online: for an online task.
            links: links count in the choice of the node.
            whole: for whole cards.
        """
        spread = self.node == SPREAD
        card_keys = [
            *([CardKey.ONLINE] if online else []),
            *([CardKey.HIGH_NUMA] if self.numa_first else []),
            *(_CARD_KEYS[name] for name in self.cards),
            *([CardKey.HIGH_NUMA] if len(self.cards) == 1 else []),
            CardKey.HIGH_INDEX,
        ]
        node_keys = [
            *([NodeKey.ONLINE] if online else []),
            *([NodeKey.LINKS] if links else []),
            *([NodeKey.MOST_GAIN if spread else NodeKey.LEAST_LOSS] if whole else []),
            NodeKey.EMPTIEST if spread else NodeKey.FULLEST,
        ]
        return Ranking(tuple(dict.fromkeys(card_keys)), tuple(node_keys), self.weights)


def read_policies(annotations: Text, defaults: Defaults) -> Policies:
    """Read the policies of a pod.

    ``topology-aware`` among the card policies has no effect on the order: the core prefers linked
    cards in any case.

    Raises:
        DialectError: a policy or a weight is invalid.
    """
    node = annotation_values.one_word(annotations, NODE_POLICY, BINPACK, SPREAD)
    requested = annotation_values.several_words(
        annotations, CARD_POLICY, BINPACK, SPREAD, MUTEX, NUMA, TOPOLOGY
    )
    default = SPREAD if requested or not defaults.card_policy else defaults.card_policy.value
    return Policies(
        node=node or (defaults.node_policy or SchedulingPolicy.BINPACK).value,
        cards=tuple(name for name in requested if name != TOPOLOGY) or (default,),
        numa_first=annotation_values.boolean(annotations, NUMA_BIND) or False,
        linked=TOPOLOGY in requested,
        weights=_weights(annotations.get(WEIGHTS)),
    )


def _weights(value: str | None) -> Weights:
    if value is None:
        return Weights()
    items = [_WEIGHT.fullmatch(item) for item in value.split(",")]
    found = {item[1]: int(item[2]) for item in items if item}
    if len(items) != 3 or len(found) != 3 or not any(found.values()):
        problem = "must be slot=1,core=1,memory=1 with numbers of 0 or more, not all 0"
        raise DialectError(annotation_values.annotation_path(WEIGHTS), value, problem)
    return Weights(found["slot"], found["core"], found["memory"])


DEVICE_CONFIG: Document = ("hami-scheduler-device", "device-config.yaml")

DEVICE_CONFIG_LABEL = "app.kubernetes.io/component=hami-scheduler"
"""The label of the ConfigMap, whatever the name of the release."""

_File = TypeVar("_File", bound=msgspec.Struct)


def read_device_config(settings: Documents, section: str, to: type[_File]) -> _File:
    """Read the file, as far as a dialect needs it.

    Args:
        settings: the settings files; without this one it counts as empty.
        section: of the dialect, for errors.
        to: the file with this section, whose fields have defaults.

    Raises:
        DialectError: the file has an invalid value.
    """
    found = settings.get(DEVICE_CONFIG)
    try:
        return convert({} if found is None else found, to)
    except UnreadableError as error:
        raise DialectError(section_path(section), found, str(error)) from None


def section_path(section: str) -> str:
    """Return the place of a section, for errors."""
    name, key = DEVICE_CONFIG
    return f"ConfigMap {name}, key {key}, {section}"
