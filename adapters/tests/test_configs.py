from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.dialects.volcano import keys
from adapters.dialects.volcano.keys import DeviceConfig, read_device_config
from adapters.dialects.volcano.node import partitioning
from core.hardware import mig_catalog
from core.hardware.quantity import MIB

CONFIGS = Path(__file__).parents[2] / "configs"
OWN = "koord-scheduler-config-with-deviceshare.yaml"
WITHOUT = "koord-scheduler-config.yaml"
ALL = (
    WITHOUT,
    "koord-scheduler-preemption-config.yaml",
    "kube-scheduler-config.yaml",
    "kube-scheduler-preemption-config.yaml",
)


def test_the_demonstration_has_the_example_of_configs() -> None:
    packaged = files("adapters.cli.demo").joinpath("mixed.yaml").read_text()

    assert packaged == (CONFIGS / "examples" / "mixed.yaml").read_text()


def content(name: str) -> Any:
    return yaml.safe_load((CONFIGS / name).read_text())


def scheduler(name: str) -> Any:
    """What a scheduler reads of a file: of a ConfigMap its only key."""
    found = content(name)
    if found["kind"] != "ConfigMap":
        return found
    (text,) = found["data"].values()
    return yaml.safe_load(text)


def geometries() -> DeviceConfig:
    document = content("mig-geometries.yaml")
    name, key = keys.DEVICE_CONFIG
    assert document["metadata"]["name"] == name
    settings = {keys.DEVICE_CONFIG: yaml.safe_load(document["data"][key])}
    return read_device_config(settings, keys.DEVICE_CONFIG)


def test_every_layout_of_the_mig_geometries_is_possible_as_nvidia_publishes_it() -> None:
    for table in geometries().tables:
        for model in table.models:
            memory = max(slices.memory for group in table.groups for slices in group.slices)

            found = partitioning((table,), f"NVIDIA-NVIDIA {model}", memory * MIB)

            assert found.problems == (), model
            assert len(found.geometry.layouts) == len(table.groups), model
            built_in = {each.name: each for each in mig_catalog.geometry((model,)).layouts}
            for layout in found.geometry.layouts:
                assert layout == built_in[layout.name], (model, layout.name)


@pytest.mark.parametrize(
    ("registered", "smallest"),
    [
        ("NVIDIA-NVIDIA A30", "1g.6gb"),
        ("NVIDIA-NVIDIA A100-SXM4-40GB", "1g.5gb"),
        ("NVIDIA-NVIDIA A100 80GB PCIe", "1g.10gb"),
        ("NVIDIA-NVIDIA H100 80GB HBM3", "1g.10gb"),
        ("NVIDIA-NVIDIA H200", "1g.18gb"),
    ],
)
def test_a_card_is_partitioned_by_the_table_of_its_model(registered: str, smallest: str) -> None:
    found = partitioning(geometries().tables, registered, 0)

    assert found.geometry.layouts[0].slices[0].profile == smallest


def managed(extender: Any) -> set[str]:
    return {row["name"] for row in extender["managedResources"]}


def asked(name: str) -> set[str]:
    """The resources of the pods about which a scheduler asks."""
    verbs = ("filterVerb", "prioritizeVerb")
    found = [each for each in scheduler(name)["extenders"] if any(verb in each for verb in verbs)]
    return set[str]().union(*map(managed, found))


def volcano_asks(name: str) -> set[str]:
    plugins = [plugin for tier in scheduler(name)["tiers"] for plugin in tier["plugins"]]
    (extender,) = [plugin["arguments"] for plugin in plugins if plugin["name"] == "extender"]
    return {*extender["extender.managedResources"]}


def test_the_two_koordinator_profiles_differ_by_its_device_plugin_and_by_who_binds() -> None:
    own, without = scheduler(OWN), scheduler(WITHOUT)

    (profile,), (bare,) = own["profiles"], without["profiles"]
    for point in profile["plugins"].values():
        point["enabled"] = [each for each in point["enabled"] if each["name"] != "DeviceShare"]
    assert profile == bare
    assert without["extenders"][0].pop("bindVerb") == "bind"
    shares, uncalled, plain = own["extenders"]
    assert managed(uncalled) == {"koordinator.sh/gpu.shared"}
    rows = without["extenders"][0]["managedResources"]
    others = [row for row in rows if not row["name"].startswith("koordinator.sh/")]
    assert [shares, plain] == [
        {**without["extenders"][0], "managedResources": others},
        without["extenders"][1],
    ]


def test_every_scheduler_configuration_asks_about_the_same_resources() -> None:
    every = volcano_asks("volcano-scheduler-configmap.yaml")

    assert [asked(name) for name in ALL] == [every] * len(ALL)


@pytest.mark.parametrize(
    ("found", "family"),
    [
        (asked(OWN), "koordinator.sh/"),
        (volcano_asks("volcano-scheduler-configmap-native.yaml"), "volcano.sh/"),
    ],
)
def test_a_scheduler_in_native_mode_asks_about_all_but_its_own(
    found: set[str], family: str
) -> None:
    every = asked(WITHOUT)

    assert found == {name for name in every if not name.startswith(family)} != every
