"""The arguments of Koordinator's DeviceShare plugin, and the order that follows from them.

Source: koordinator-sh/koordinator pkg/scheduler/apis/config/v1/{types.go:361-396,
defaults.go:88-94,254-282}.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec

from adapters.dialects.dialect import Defaults, DialectError, Documents, SchedulingPolicy
from adapters.dialects.formats import koordinator_words as words
from adapters.wire.decode.decoder import UnreadableError, convert
from core.requests.request import CardKey, NodeKey, Ranking, Weights


@dataclass(frozen=True, slots=True)
class KoordinatorScheduling:
    """The policy of the scheduler, and the cards that it does not share.

    Attributes:
        policy: for nodes and cards.
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
    found = settings.get(words.SCHEDULER_CONFIG)
    file = _convert("", {} if found is None else found, _ConfigFile)
    for place, profile in enumerate(file.profiles or ()):
        for position, plugin in enumerate(profile.plugin_config or ()):
            if plugin.name == words.DEVICE_SHARE:
                path = f".profiles[{place}].pluginConfig[{position}].args"
                return _scheduling(_convert(path, plugin.args or {}, _Arguments))
    return _scheduling(_Arguments())


def ranking(scheduling: KoordinatorScheduling, defaults: Defaults) -> Ranking:
    """The order of nodes and cards; what the operator sets for all dialects wins."""
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
    return KoordinatorScheduling(
        policy=SchedulingPolicy.BINPACK if most else SchedulingPolicy.SPREAD,
        weights=_weights(strategy.resources or ()),
        unshareable=frozenset(
            (one.vendor.lower(), one.model) for one in arguments.gpu_share_unsupported_models or ()
        ),
    )


def _weights(resources: tuple[_Resource, ...]) -> Weights:
    """Memory counts where no GPU resource has a weight: else all choices would have one score."""
    compute = sum(one.weight for one in resources if one.name == words.CORE)
    memory = sum(one.weight for one in resources if one.name in (words.MEMORY, words.RATIO))
    return Weights(slots=0, compute=compute, memory=memory if compute else memory or 1)


def _convert(path: str, value: object, to: type[_Shape]) -> _Shape:
    try:
        return convert(value, to)
    except UnreadableError as error:
        name, key = words.SCHEDULER_CONFIG
        raise DialectError(f"{name}[{key}]{path}", value, str(error)) from None
