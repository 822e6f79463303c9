"""The chart's copies of our files and lists equal the originals; the tests need no helm."""

import ast
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.dialects import registry
from adapters.dialects.device_plugins import WHOLE_CARDS
from adapters.dialects.dialect import Defaults
from adapters.dialects.formats.nvidia_words import SHARED
from adapters.dialects.hami import keys as hami_keys
from adapters.dialects.koordinator import keys as koordinator_keys
from adapters.dialects.metax.dialect import Metax
from adapters.dialects.volcano import keys as volcano_keys
from adapters.dialects.volcano.dialect import Volcano
from adapters.service.in_cluster.handlers import config_map_names

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts" / "dragoman" / "files"


KINDS = ("nodeledgers", "sharequotas", "moveplans")


@pytest.mark.parametrize("kind", KINDS)
def test_the_definitions_of_kinds_are_those_in_configs(kind: str) -> None:
    source = ROOT / "configs" / "crd" / f"{kind}.yaml"

    assert (FILES / f"{kind}.yaml").read_text() == source.read_text()


def test_the_icon_is_that_of_the_dashboard() -> None:
    (icon,) = ROOT.glob("adapters/service/web/dashboard/static/icon.svg")
    kind, _, content = yaml.safe_load((FILES.parent / "Chart.yaml").read_text())["icon"].partition(
        ","
    )

    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(content) == icon.read_bytes().strip()


def test_the_alerts_are_those_in_configs() -> None:
    source = ROOT / "configs" / "prometheus-alerts.yaml"

    assert (FILES / "prometheus-alerts.yaml").read_text() == source.read_text()


def test_artifact_hub_learns_the_images_and_kinds_of_this_version() -> None:
    chart = yaml.safe_load((FILES.parent / "Chart.yaml").read_text())
    values = yaml.safe_load((FILES.parent / "values.yaml").read_text())
    definitions = [yaml.safe_load((FILES / f"{kind}.yaml").read_text()) for kind in KINDS]
    hub = chart["annotations"]

    assert [image["image"] for image in yaml.safe_load(hub["artifacthub.io/images"])] == [
        f"{values[part]['image']['repository']}:{chart['appVersion']}"
        for part in ("service", "node")
    ]
    assert [
        (each["kind"], each["name"]) for each in yaml.safe_load(hub["artifacthub.io/crds"])
    ] == [(each["spec"]["names"]["kind"], each["metadata"]["name"]) for each in definitions]


def test_the_webhook_on_pods_has_every_annotation_that_only_a_scheduler_may_write() -> None:
    keys = registry.service_keys()

    assert (FILES / "result-keys.txt").read_text().split() == sorted(keys)


def test_the_policy_has_the_annotations_by_which_a_driver_shares_a_card() -> None:
    kept = frozenset[str]().union(*(info.kept_annotations for info in registry.DIALECTS))

    assert (FILES / "request-keys.txt").read_text().split() == sorted(kept)


def test_the_service_may_read_every_settings_file_of_the_schedulers() -> None:
    assert (FILES / "settings-names.txt").read_text().split() == sorted(config_map_names())


def test_the_values_accept_every_dialect() -> None:
    schema = json.loads((FILES.parent / "values.schema.json").read_text())

    lists = [choices for choices in enums(schema) if "koordinator" in choices]

    described = [*registry.names()]
    assert lists == [described, [*registry.mirror_targets()], described]


def test_a_pod_that_requests_a_share_by_any_name_reaches_the_webhook() -> None:
    values = yaml.safe_load((FILES.parent / "values.yaml").read_text())
    volcano = Volcano.configured({}, Defaults()).pods.config
    metax = Metax.configured({}, Defaults()).config
    names = {
        *volcano.resources,
        *volcano_keys.LEGACY,
        *metax.resources,
        *koordinator_keys.OWN,
        *koordinator_keys.WHOLE_CARDS,
        *hami_keys.POD_RESOURCES,
    }

    prefixes = tuple(values["webhooks"]["resourcePrefixes"])

    assert {name for name in names if not name.startswith(prefixes)} == set()


def enums(schema: Any) -> Iterator[list[object]]:
    """All lists of choices in a schema."""
    if isinstance(schema, dict):
        if "enum" in schema:
            yield schema["enum"]
        for each in schema.values():
            yield from enums(each)


def test_a_pod_of_a_device_plugin_alone_is_no_request_for_the_webhook() -> None:
    helpers = (FILES.parent / "templates" / "_helpers.tpl").read_text()
    stated = helpers.split('define "dragoman.plainResources" -}}')[1].split("{{")[0]
    annotations = (FILES / "hami-annotations.txt").read_text().split()

    assert sorted(ast.literal_eval(stated.strip())) == sorted((*WHOLE_CARDS, SHARED))
    assert annotations == sorted(hami_keys.POD_ANNOTATIONS)
