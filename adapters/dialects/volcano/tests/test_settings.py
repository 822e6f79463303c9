from typing import Any

import pytest
import yaml

from adapters.dialects.dialect import Defaults, DialectError, SchedulingPolicy
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.keys import (
    INFO,
    DeviceConfig,
    VolcanoScheduling,
    read_device_config,
    read_scheduling,
)
from adapters.dialects.volcano.tests.builders import a_container, a_pod, configured, volcano
from core.hardware.quantity import MIB
from core.requests.request import CardKey, NodeKey, Ranking, Weights

# As in the guide.
GUIDE_SCHEDULER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true # enable vgpu
      deviceshare.SchedulePolicy: binpack # scheduling policy. binpack / spread
"""

# Source: volcano-vgpu-device-plugin deployments/static/volcano-vgpu-device-plugin.yml:25-46
SHIPPED_DEVICES = """
nvidia:
  resourceCountName: volcano.sh/vgpu-number
  resourceMemoryName: volcano.sh/vgpu-memory
  resourceMemoryPercentageName: volcano.sh/vgpu-memory-percentage
  resourceCoreName: volcano.sh/vgpu-cores
  overwriteEnv: false
  defaultMemory: 0
  defaultCores: 0
  defaultGPUNum: 1
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
  gpuMemoryFactor: 1
  knownMigGeometries:
  - models: [ "A30" ]
    allowedGeometries:
      - group: group1
        geometries:
        - name: 1g.6gb
          memory: 6144
          count: 4
"""


BAD_DEVICES: list[tuple[object, str, object]] = [
    ({"nvidia": {"gpuMemoryFactor": -1}}, "nvidia.gpuMemoryFactor", -1),
    ({"nvidia": {"gpuMemoryFactor": "much"}}, "nvidia.gpuMemoryFactor", "much"),
    ({"nvidia": {"resourceCoreName": ""}}, "nvidia.resourceCoreName", ""),
    (
        {"nvidia": {"knownMigGeometries": [{"models": "A30", "allowedGeometries": None}]}},
        "nvidia.knownMigGeometries[0].models",
        "A30",
    ),
    (["nvidia"], "the file", ["nvidia"]),
]

BAD_RULES: list[object] = ["app=a", [{}], [{"app": 1}], {"app": "a"}, ["app"]]

BAD_ARGUMENTS: list[tuple[str, object, str]] = [
    ("deviceshare.VGPUEnable", "perhaps", "must be true or false"),
    ("deviceshare.NodeLockEnable", 2, "must be true or false"),
    ("deviceshare.SchedulePolicy", "pack", "must be binpack or spread, or be omitted"),
    ("deviceshare.SchedulePolicy", 1, "must be binpack or spread, or be omitted"),
    ("deviceshare.ScheduleWeight", -1, "must be a whole number, 0 or more"),
    ("deviceshare.ScheduleWeight", 1.5, "must be a whole number, 0 or more"),
    ("deviceshare.ScheduleWeight", True, "must be a whole number, 0 or more"),
    *(
        (
            "deviceshare.GPUExclusiveRules",
            rules,
            "must be a list of maps from label to value, all texts, none of them empty",
        )
        for rules in BAD_RULES
    ),
    (
        "deviceshare.KnownGeometriesCMName",
        "other",
        "must be volcano-vgpu-device-config; the service reads no other ConfigMap",
    ),
    (
        "deviceshare.KnownGeometriesCMName",
        ["volcano-vgpu-device-config"],
        "must be volcano-vgpu-device-config; the service reads no other ConfigMap",
    ),
]


def ranking(arguments: dict[str, object], defaults: Defaults | None = None) -> Ranking:
    dialect = volcano(arguments=arguments, defaults=defaults)
    return dialect.read_request(a_pod(a_container(number=1))).ranking


def rejection(device: Any = None, scheduler: Any = None) -> DialectError:
    with pytest.raises(DialectError) as error:
        configured({keys.DEVICE_CONFIG: device, keys.SCHEDULER_CONFIG: scheduler})
    return error.value


def rejected_argument(name: str, value: object) -> DialectError:
    with pytest.raises(DialectError) as error:
        volcano(arguments={name: value})
    return error.value


def test_the_documents_are_the_guides_two_config_maps() -> None:
    assert INFO.documents == {
        ("volcano-vgpu-device-config", "device-config.yaml"),
        ("volcano-scheduler-configmap", "volcano-scheduler.conf"),
    }


def test_the_guides_scheduler_settings_are_accepted_unchanged() -> None:
    scheduling, document = read_scheduling({keys.SCHEDULER_CONFIG: yaml.safe_load(GUIDE_SCHEDULER)})

    assert scheduling == VolcanoScheduling(policy=SchedulingPolicy.BINPACK)
    assert document == keys.DEVICE_CONFIG


@pytest.mark.parametrize("switch", [True, "true", "False", 1, None])
def test_a_switch_is_a_boolean_or_its_text_and_changes_no_decision(switch: object) -> None:
    configured = volcano(arguments=dict.fromkeys(keys.SWITCHES, switch))

    assert configured == volcano()


@pytest.mark.parametrize("switch", ["no", "2", "", 0.5])
@pytest.mark.parametrize("name", keys.SWITCHES)
def test_a_switch_of_another_value_is_an_error(name: str, switch: object) -> None:
    error = rejected_argument(name, switch)

    assert (error.field, error.value) == (
        f"ConfigMap volcano-scheduler-configmap, key volcano-scheduler.conf, {name}",
        switch,
    )
    assert error.problem == "must be true or false"


def test_the_shipped_device_settings_are_accepted_unchanged() -> None:
    settings = {keys.DEVICE_CONFIG: yaml.safe_load(SHIPPED_DEVICES)}

    config = read_device_config(settings, keys.DEVICE_CONFIG)

    assert config.unit == MIB
    assert [group.name for group in config.tables[0].groups] == ["group1"]


@pytest.mark.parametrize("document", [None, {}, {"nvidia": None}, {"vnpus": []}])
def test_settings_that_say_nothing_are_volcanos_own(document: object) -> None:
    config = read_device_config({keys.DEVICE_CONFIG: document}, keys.DEVICE_CONFIG)

    assert config == DeviceConfig()
    assert config.resources == {
        "volcano.sh/vgpu-number",
        "volcano.sh/vgpu-memory",
        "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores",
    }


@pytest.mark.parametrize(("factor", "unit"), [(0, MIB), (1, MIB), (8, 8 * MIB), ("8", 8 * MIB)])
def test_a_factor_is_mib_to_a_unit_and_0_means_1(factor: object, unit: int) -> None:
    assert volcano({"gpuMemoryFactor": factor}).pods.config.unit == unit


@pytest.mark.parametrize(("device", "place", "value"), BAD_DEVICES)
def test_a_bad_device_setting_is_named_with_its_place_and_value(
    device: object, place: str, value: object
) -> None:
    error = rejection(device=device)

    assert error.field == (f"ConfigMap volcano-vgpu-device-config, key device-config.yaml, {place}")
    assert error.value == value


def test_two_resources_of_one_name_are_rejected() -> None:
    error = rejection(device={"nvidia": {"resourceMemoryName": "volcano.sh/vgpu-number"}})

    assert error.problem == "must give each resource its own name"


@pytest.mark.parametrize("names", [["a", "a"], ["a-b"], [""], ["a;b"], ["a b"], ["a[0]"]])
def test_groups_with_names_that_a_result_cannot_contain_are_rejected(names: list[str]) -> None:
    groups: list[object] = [{"group": name, "geometries": ()} for name in names]

    error = rejection(
        device={"nvidia": {"knownMigGeometries": [{"models": ["X"], "allowedGeometries": groups}]}}
    )

    assert error.field.endswith("nvidia.knownMigGeometries")
    assert error.value == ", ".join(names)


@pytest.mark.parametrize(("argument", "value", "right"), BAD_ARGUMENTS)
def test_a_bad_argument_of_the_scheduler_is_named_with_its_value(
    argument: str, value: object, right: str
) -> None:
    error = rejected_argument(argument, value)

    assert error.field == (
        f"ConfigMap volcano-scheduler-configmap, key volcano-scheduler.conf, {argument}"
    )
    assert error.value == value
    assert error.problem == right


@pytest.mark.parametrize(
    "scheduler",
    [
        {},
        {"tiers": None},
        {"tiers": [{"plugins": None}]},
        {"tiers": [{"plugins": [{"name": "gang"}, {"name": "deviceshare"}]}]},
        {"tiers": [{"plugins": [{"name": "other", "arguments": {keys.POLICY: "no"}}]}]},
    ],
)
def test_a_scheduler_file_without_arguments_sets_nothing(scheduler: object) -> None:
    scheduling, _ = read_scheduling({keys.SCHEDULER_CONFIG: scheduler})

    assert scheduling == VolcanoScheduling()


@pytest.mark.parametrize("own", [None, "spread"])
def test_what_configure_kept_of_deviceshare_counts_where_that_is_gone(own: str | None) -> None:
    plugins = [{"name": "extender", "arguments": {"a": 1, keys.POLICY: "binpack"}}]
    if own is not None:
        plugins = [{"name": "deviceshare", "arguments": {keys.POLICY: own}}, *plugins]

    scheduling, _ = read_scheduling({keys.SCHEDULER_CONFIG: {"tiers": [{"plugins": plugins}]}})

    assert scheduling.policy == SchedulingPolicy(own or "binpack")


def test_a_malformed_scheduler_file_is_named_by_place() -> None:
    error = rejection(scheduler={"tiers": [{"plugins": 3}]})

    assert error.field.endswith("key volcano-scheduler.conf, tiers[0].plugins")
    assert error.value == 3


def test_another_config_map_is_read_where_it_is_among_the_settings() -> None:
    arguments = {"deviceshare.KnownGeometriesCMName": "mine"}
    dialect = configured(
        {
            ("mine", "device-config.yaml"): {"nvidia": {"gpuMemoryFactor": 4}},
            keys.SCHEDULER_CONFIG: {
                "tiers": [{"plugins": [{"name": "deviceshare", "arguments": arguments}]}]
            },
        }
    )

    assert dialect.pods.config.unit == 4 * MIB


# How settings order cards and nodes.


@pytest.mark.parametrize(
    ("policy", "cards"),
    [
        (None, (CardKey.HIGH_INDEX,)),
        ("binpack", (CardKey.MOST_MEMORY_USED, CardKey.LOW_INDEX)),
        ("spread", (CardKey.FEWEST_SHARERS, CardKey.LOW_INDEX)),
    ],
)
def test_the_policy_orders_cards_and_without_a_weight_no_nodes(
    policy: str | None, cards: tuple[CardKey, ...]
) -> None:
    order = ranking({"deviceshare.SchedulePolicy": policy})

    assert order == Ranking(cards, (), Weights(slots=0, compute=0, memory=1))


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        (None, ()),
        ("binpack", (NodeKey.CHOSEN_FULLEST,)),
        ("spread", (NodeKey.EMPTIEST,)),
    ],
)
def test_with_a_weight_the_policy_orders_nodes_too(
    policy: str | None, nodes: tuple[NodeKey, ...]
) -> None:
    order = ranking({"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": "10"})

    assert order.nodes == nodes


def test_the_operators_policies_replace_the_schedulers() -> None:
    order = ranking(
        {"deviceshare.SchedulePolicy": "binpack", "deviceshare.ScheduleWeight": 1},
        Defaults(card_policy=SchedulingPolicy.SPREAD, node_policy=SchedulingPolicy.SPREAD),
    )

    assert order.cards[0] is CardKey.FEWEST_SHARERS
    assert order.nodes == (NodeKey.EMPTIEST,)
