"""The chart's copies of our files and lists equal the originals; the tests need no helm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adapters.dialects import record, registry
from adapters.sidecar.in_cluster.scheduler_config import config_map_names

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts" / "dragoman" / "files"


def test_the_definition_of_ledgers_is_the_one_in_configs() -> None:
    source = ROOT / "configs" / "crd" / "nodeledgers.yaml"

    assert (FILES / "nodeledgers.yaml").read_text() == source.read_text()


def test_the_webhook_on_pods_has_every_annotation_that_only_a_scheduler_may_write() -> None:
    keys = frozenset((record.KEY,)).union(*(info.result_keys for info in registry.DIALECTS))

    assert (FILES / "result-keys.txt").read_text().split() == sorted(keys)


def test_the_service_may_read_every_settings_file_of_the_schedulers() -> None:
    assert (FILES / "settings-names.txt").read_text().split() == sorted(config_map_names())


def test_the_values_accept_every_dialect() -> None:
    schema = json.loads((FILES.parent / "values.schema.json").read_text())

    lists = [choices for choices in enums(schema) if "koordinator" in choices]

    assert lists == [[*registry.names()]] * 2


def enums(schema: Any) -> Iterator[list[object]]:
    """All lists of choices in a schema."""
    if isinstance(schema, dict):
        if "enum" in schema:
            yield schema["enum"]
        for each in schema.values():
            yield from enums(each)
