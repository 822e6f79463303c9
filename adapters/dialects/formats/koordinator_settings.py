"""Koordinator's words that other dialects use too, and the arguments of its DeviceShare plugin.

Paths are in koordinator-sh/koordinator, unless another repository is named. Source of the arguments
and of the order that follows from them: pkg/scheduler/apis/config/v1/{types.go:361-396,
defaults.go:88-94,254-282}.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec

from adapters.dialects.dialect import Defaults, DialectError, Document, Documents, SchedulingPolicy
from adapters.wire.decode.decoder import UnreadableError, convert
from core.requests.request import CardKey, NodeKey, Ranking, Weights

NAME = "koordinator"
"""The dialect of the cards that a Device object describes."""

# apis/extension/device_share.go:43-59
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"

# apis/extension/deprecated.go:21-60
DEPRECATED = {
    CORE: "kubernetes.io/gpu-core",
    MEMORY: "kubernetes.io/gpu-memory",
    RATIO: "kubernetes.io/gpu-memory-ratio",
}
"""Earlier names, by the name that wins where a record has both."""

# apis/extension/device_share.go:31
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
# pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go:42-51
BIND_TIMESTAMP = "scheduling.koordinator.sh/bind-timestamp"
MINORS = "scheduling.koordinator.sh/gpu-minors"

# koordinator-sh/charts versions/v1.8.0/templates/koord-scheduler-config.yaml
SCHEDULER_CONFIG: Document = ("koord-scheduler-config", "koord-scheduler-config")
# apis/extension/multi_scheduler.go:41-60
DEVICE_SHARE = "DeviceShare"


@dataclass(frozen=True, slots=True)
class KoordinatorScheduling:
    """The policy of the scheduler, and the cards that it does not share.

    Attributes:
        weights: of compute and memory in the use of a node or card.
        unshareable: vendor, in lower case, and model of cards that are allocated as a whole only.
    """

    policy: SchedulingPolicy
    weights: Weights
    unshareable: frozenset[tuple[str, str]]


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Resource(_Camel, frozen=True):
    name: str
    weight: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1


class _Strategy(_Camel, frozen=True):
    type: Literal["", "LeastAllocated", "MostAllocated"] = ""
    resources: tuple[_Resource, ...] | None = None


class _Model(_Camel, frozen=True):
    vendor: str
    model: str


class _Arguments(_Camel, frozen=True):
    scoring_strategy: _Strategy | None = None
    gpu_share_unsupported_models: tuple[_Model, ...] | None = msgspec.field(
        default=None, name="gpuShareUnsupportedModels"
    )


class _PluginConfig(_Camel, frozen=True):
    name: str = ""
    args: dict[str, object] | None = None


class _ConfigProfile(_Camel, frozen=True):
    plugin_config: tuple[_PluginConfig, ...] | None = None


class _ConfigFile(_Camel, frozen=True):
    profiles: tuple[_ConfigProfile, ...] | None = None


_Shape = TypeVar("_Shape", _Arguments, _ConfigFile)


def read_scheduling(settings: Documents) -> KoordinatorScheduling:
    """Read the arguments in the first profile that has some; else Koordinator's defaults.

    Raises:
        DialectError: a value is invalid.
    """
    found = settings.get(SCHEDULER_CONFIG)
    file = _convert("", {} if found is None else found, _ConfigFile)
    for place, profile in enumerate(file.profiles or ()):
        for position, plugin in enumerate(profile.plugin_config or ()):
            if plugin.name == DEVICE_SHARE:
                path = f".profiles[{place}].pluginConfig[{position}].args"
                return _scheduling(_convert(path, plugin.args or {}, _Arguments))
    return _scheduling(_Arguments())


def ranking(scheduling: KoordinatorScheduling, defaults: Defaults) -> Ranking:
    """Return the order of nodes and cards; what the operator sets for all dialects wins."""
    cards = defaults.card_policy or scheduling.policy
    nodes = defaults.node_policy or scheduling.policy
    node_keys = (NodeKey.FULLEST if nodes is SchedulingPolicy.BINPACK else NodeKey.EMPTIEST,)
    return Ranking(
        cards=(
            CardKey.FULLEST if cards is SchedulingPolicy.BINPACK else CardKey.EMPTIEST,
            CardKey.LOW_INDEX,
        ),
        nodes=(NodeKey.LINKS, *node_keys) if defaults.topology_aware else node_keys,
        weights=scheduling.weights,
    )


def _scheduling(arguments: _Arguments) -> KoordinatorScheduling:
    strategy = arguments.scoring_strategy or _Strategy()
    most = strategy.type == "MostAllocated"
    resources = strategy.resources or ()
    compute = sum(one.weight for one in resources if one.name == CORE)
    memory = sum(one.weight for one in resources if one.name in (MEMORY, RATIO))
    return KoordinatorScheduling(
        policy=SchedulingPolicy.BINPACK if most else SchedulingPolicy.SPREAD,
        # Where no GPU resource has a weight, memory counts, or all would be equal.
        weights=Weights(slots=0, compute=compute, memory=memory if compute else memory or 1),
        unshareable=frozenset(
            (one.vendor.lower(), one.model) for one in arguments.gpu_share_unsupported_models or ()
        ),
    )


def _convert(path: str, value: object, to: type[_Shape]) -> _Shape:
    try:
        return convert(value, to)
    except UnreadableError as error:
        name, key = SCHEDULER_CONFIG
        raise DialectError(f"{name}[{key}]{path}", value, str(error)) from None
