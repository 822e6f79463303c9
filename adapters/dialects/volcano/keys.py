"""Every key and setting of Volcano's vGPU dialect, once.

Paths without a repository are in volcano-sh/volcano, where ``vgpu/`` stands for
``pkg/scheduler/api/devices/nvidia/vgpu/``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar, cast

import msgspec

from adapters.dialects import allocation_record
from adapters.dialects.dialect import Defaults, DialectError, Document, Documents, SchedulingPolicy
from adapters.dialects.formats.annotation_values import parse_bool
from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.wire.decode.decoder import UnreadableError, convert
from core.hardware.quantity import MIB
from core.requests.request import CardKey, NodeKey, Ranking, Weights

NAME = "volcano"

# pkg/scheduler/api/devices/config/vgpu.go:19-30
COUNT = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
MEMORY_PERCENT = "volcano.sh/vgpu-memory-percentage"
CORES = "volcano.sh/vgpu-cores"

FAMILY = "volcano.sh/vgpu-"
"""Prefix of the name of every resource of this dialect, unless a setting renames it."""

# pkg/scheduler/api/devices/nvidia/gpushare/type.go:27-38
LEGACY = frozenset({"volcano.sh/gpu-memory", "volcano.sh/gpu-number"})
"""Resources of the older device plugin, which shares cards by environment variables only."""

# vgpu/type.go:54, 57-59
MODE = "volcano.sh/vgpu-mode"
HAMI_CORE = "hami-core"
MIG = "mig"
MPS = "mps"

# vgpu/type.go:23-25
USE_TYPE = "nvidia.com/use-gputype"
AVOID_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "volcano.sh/vgpu-use-gpuuuid"
AVOID_UUID = "volcano.sh/vgpu-nouse-gpuuuid"

# vgpu/type.go:55-56
GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
SPREAD = "spread"

# vgpu/utils.go:174-204
GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations with the name of a pod's PodGroup; the first one counts."""

POD_ANNOTATIONS = frozenset(
    {MODE, USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID, GROUP_POLICY, *GROUP_NAMES}
)
POD_RESOURCES = frozenset({COUNT, MEMORY, MEMORY_PERCENT, CORES}) | LEGACY

# vgpu/utils.go:52-100; the device plugin writes it, pkg/util/util.go:163-170
REGISTER = "volcano.sh/node-vgpu-register"

# vgpu/utils.go:220-226; pkg/plugin/register.go of the device plugin
VENDOR_TYPE = "NVIDIA"
"""The type of every device in a result; a registered type begins with it and a hyphen."""

VENDOR = "nvidia"

# vgpu/type.go:27-32
NODE = "volcano.sh/vgpu-node"
TIME = "volcano.sh/vgpu-time"
ASSIGNED = "volcano.sh/vgpu-ids-new"
TO_ALLOCATE = "volcano.sh/devices-to-allocate"
PHASE = "volcano.sh/bind-phase"
BIND_TIME = "volcano.sh/bind-time"

RESULT_KEYS = frozenset(
    (NODE, TIME, ASSIGNED, TO_ALLOCATE, PHASE, BIND_TIME, allocation_record.KEY)
)
"""All annotations that a placed pod gets; only a scheduler may write them."""

ALLOCATING = "allocating"
"""The bind phase that the scheduler writes; the device plugin writes the next ones."""

DEVICE_CONFIG: Document = ("volcano-vgpu-device-config", "device-config.yaml")
SCHEDULER_CONFIG: Document = ("volcano-scheduler-configmap", "volcano-scheduler.conf")

# pkg/scheduler/plugins/deviceshare/deviceshare.go:40-57, 80-128 and gpuexclusive.go:33-37
PLUGIN = "deviceshare"
EXTENDER = "extender"
"""The plugin that has deviceshare's arguments after ``dragoman configure`` replaced it."""
POLICY = "deviceshare.SchedulePolicy"
WEIGHT = "deviceshare.ScheduleWeight"
RULES = "deviceshare.GPUExclusiveRules"
CONFIG_NAME = "deviceshare.KnownGeometriesCMName"
SWITCHES = (
    "deviceshare.VGPUEnable",
    "deviceshare.GPUSharingEnable",
    "deviceshare.GPUNumberEnable",
    "deviceshare.NodeLockEnable",
    "deviceshare.AscendMindClusterVNPUEnable",
    "deviceshare.AscendHAMiVNPUEnable",
)
"""Arguments that are true or false. Dragoman checks them; none changes its decisions."""


INFO = DialectInfo(
    name=NAME,
    style=DialectStyle("#d9622b", "dark_orange", "█", "V"),
    result_keys=RESULT_KEYS,
    allocation_annotations=frozenset({ASSIGNED}),
    documents=frozenset({DEVICE_CONFIG, SCHEDULER_CONFIG}),
    implementation="adapters.dialects.volcano.dialect:Volcano",
    writer="adapters.dialects.volcano.pod:WRITER",
    vendor=VENDOR,
    mirror=ASSIGNED,
    pod_annotations=POD_ANNOTATIONS,
    pod_resources=POD_RESOURCES,
    node_sources=(f"annotation {REGISTER}",),
    # Source: volcano-sh/volcano cmd/scheduler/app/options/options.go, defaultSchedulerName.
    scheduler="volcano",
)


_Name = Annotated[str, msgspec.Meta(min_length=1)]
# The device plugin takes the group's name up to the hyphen (pkg/util/util.go:551-564), and the
# others separate the fields of a result.
_GROUP_NAME = re.compile(r"[^\s,:;\[\]-]+")
_Mebibytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=8)]


class Slices(msgspec.Struct, frozen=True):
    """Equal slices of a group.

    Attributes:
        name: of the profile, such as ``1g.5gb``.
        memory: MiB of each.
    """

    name: _Name
    memory: _Mebibytes
    count: _Count


class Group(msgspec.Struct, frozen=True):
    """One way to partition a card.

    Attributes:
        name: as results contain it.
        slices: by position.
    """

    name: str = msgspec.field(name="group")
    slices: tuple[Slices, ...] = msgspec.field(name="geometries")


class GeometryTable(msgspec.Struct, frozen=True):
    """The ways to partition the cards of some models.

    Attributes:
        models: the table applies to a registered type that contains one of these.
        groups: in order of preference.
    """

    models: tuple[_Name, ...]
    groups: tuple[Group, ...] = msgspec.field(name="allowedGeometries")


class DeviceConfig(msgspec.Struct, frozen=True):
    """The settings that the device plugin and the scheduler share.

    Source: pkg/scheduler/api/devices/config/vgpu.go:82-113. Neither of them reads its other fields.

    Attributes:
        count: name of the resource that counts cards.
        memory: name of the resource that is memory of each card, in units.
        percent: name of the resource that is percent of each card's memory.
        cores: name of the resource that is percent of each card's compute.
        priority: name of a resource that Volcano declares and never reads; None where not declared.
        factor: MiB of one unit; 0 means 1.
        tables: the ways to partition cards; the first that contains the model counts.
    """

    count: _Name = msgspec.field(default=COUNT, name="resourceCountName")
    memory: _Name = msgspec.field(default=MEMORY, name="resourceMemoryName")
    percent: _Name = msgspec.field(default=MEMORY_PERCENT, name="resourceMemoryPercentageName")
    cores: _Name = msgspec.field(default=CORES, name="resourceCoreName")
    priority: str | None = msgspec.field(default=None, name="resourcePriorityName")
    factor: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = msgspec.field(
        default=1, name="gpuMemoryFactor"
    )
    tables: tuple[GeometryTable, ...] = msgspec.field(default=(), name="knownMigGeometries")

    @property
    def unit(self) -> int:
        """Bytes of one unit of memory."""
        return max(self.factor, 1) * MIB

    @property
    def resources(self) -> frozenset[str]:
        """The names of all resources that a container can request."""
        return frozenset((self.count, self.memory, self.percent, self.cores))


class VolcanoScheduling(msgspec.Struct, frozen=True):
    """The arguments of the scheduler's plugin.

    Attributes:
        policy: order of cards, and of nodes where ``weight`` is above 0; None where not set.
        weight: of the plugin's score for nodes; 0 for none.
        rules: labels; pods that have all labels of one rule share no card with each other.
    """

    policy: SchedulingPolicy | None = None
    weight: int = 0
    rules: tuple[tuple[tuple[str, str], ...], ...] = ()


class _DeviceFile(msgspec.Struct, frozen=True):
    nvidia: DeviceConfig | None = None


class _Plugin(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: dict[str, object] | None = None


class _Tier(msgspec.Struct, frozen=True):
    plugins: tuple[_Plugin, ...] | None = None


class _SchedulerFile(msgspec.Struct, frozen=True):
    tiers: tuple[_Tier, ...] | None = None


_File = TypeVar("_File", _DeviceFile, _SchedulerFile)


def read_scheduling(settings: Documents) -> tuple[VolcanoScheduling, Document]:
    """Read the scheduler's arguments, and find the document of its device settings.

    Raises:
        DialectError: an argument is invalid.
    """
    file = _convert(settings, SCHEDULER_CONFIG, _SchedulerFile)
    merged: dict[str, object] = {}
    plugins = [plugin for tier in file.tiers or () for plugin in tier.plugins or ()]
    for wanted in (EXTENDER, PLUGIN):
        for plugin in plugins:
            if plugin.name == wanted:
                merged.update(plugin.arguments or {})
    arguments = {key: value for key, value in merged.items() if value is not None}
    for switch in SWITCHES:
        if switch in arguments and parse_bool(str(arguments[switch])) is None:
            raise _rejected(switch, arguments[switch], "must be true or false")
    policy = None
    if POLICY in arguments:
        try:
            policy = SchedulingPolicy(arguments[POLICY])
        except ValueError:
            problem = "must be binpack or spread, or be omitted"
            raise _rejected(POLICY, arguments[POLICY], problem) from None
    weight = str(arguments.get(WEIGHT, 0))
    if re.fullmatch(r"[0-9]{1,9}", weight, re.ASCII) is None:
        raise _rejected(WEIGHT, arguments[WEIGHT], "must be a whole number, 0 or more")
    try:
        rules = convert(
            arguments.get(RULES, []), list[Annotated[dict[str, str], msgspec.Meta(min_length=1)]]
        )
    except UnreadableError:
        problem = "must be a list of maps from label to value, all texts, none of them empty"
        raise _rejected(RULES, arguments[RULES], problem) from None
    default, key = DEVICE_CONFIG
    name = arguments.get(CONFIG_NAME, default)
    if not isinstance(name, str) or (name != default and (name, key) not in settings):
        problem = f"must be {default}; the service reads no other ConfigMap"
        raise _rejected(CONFIG_NAME, name, problem)
    sorted_rules = tuple(tuple(sorted(rule.items())) for rule in rules)
    return VolcanoScheduling(policy, int(weight), sorted_rules), (name, key)


def read_device_config(settings: Documents, document: Document) -> DeviceConfig:
    """Read the device settings; what they omit gets Volcano's default.

    Raises:
        DialectError: a value is invalid.
    """
    config = _convert(settings, document, _DeviceFile).nvidia or DeviceConfig()
    place = f"{_path(document)}, nvidia"
    if len(config.resources) < 4:
        raise DialectError(
            place, ", ".join(sorted(config.resources)), "must give each resource its own name"
        )
    for table in config.tables:
        names = [group.name for group in table.groups]
        if len(set(names)) < len(names) or not all(map(_GROUP_NAME.fullmatch, names)):
            raise DialectError(
                f"{place}.knownMigGeometries",
                ", ".join(names),
                "must give each group of a card its own name, without spaces and any of -,:;[]",
            )
    return config


def _rejected(argument: str, value: object, problem: str) -> DialectError:
    return DialectError(f"{_path(SCHEDULER_CONFIG)}, {argument}", value, problem)


def _path(document: Document) -> str:
    name, key = document
    return f"ConfigMap {name}, key {key}"


def _convert(settings: Documents, document: Document, to: type[_File]) -> _File:
    found = settings.get(document)
    try:
        return convert({} if found is None else found, to, strict=False)
    except UnreadableError as error:
        problem, _, path = str(error).partition(" - at `$")
        path = path.removesuffix("`")
        field = f"{_path(document)}, {path.removeprefix('.') or 'the file'}"
        for name, index in re.findall(r"\.(\w+)|\[([0-9]+)\]", path):
            if name:
                found = cast("Mapping[str, object]", found)[name]
            else:
                found = cast("Sequence[object]", found)[int(index)]
        raise DialectError(field, found, problem) from None


# pkg/scheduler/api/devices/nvidia/vgpu/utils.go:529-561
_CARDS = {
    SchedulingPolicy.BINPACK: (CardKey.MOST_MEMORY_USED, CardKey.LOW_INDEX),
    SchedulingPolicy.SPREAD: (CardKey.FEWEST_SHARERS, CardKey.LOW_INDEX),
    None: (CardKey.HIGH_INDEX,),
}

# pkg/scheduler/api/devices/nvidia/vgpu/utils.go:563-576, where spread is always 0
_NODES = {
    SchedulingPolicy.BINPACK: (NodeKey.CHOSEN_FULLEST,),
    SchedulingPolicy.SPREAD: (NodeKey.EMPTIEST,),
    None: (),
}


def ranking(scheduling: VolcanoScheduling, defaults: Defaults) -> Ranking:
    """Return the order of cards and nodes for every pod; no annotation of a pod changes it."""
    voted = scheduling.policy if scheduling.weight else None
    return Ranking(
        cards=_CARDS[defaults.card_policy or scheduling.policy],
        nodes=_NODES[defaults.node_policy or voted],
        weights=Weights(slots=0, compute=0, memory=1),
    )
