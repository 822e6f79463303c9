"""What the chart has of ours by copy is what we have; nothing of helm is needed to see it."""

from pathlib import Path

from adapters.dialects import record
from adapters.dialects.dialect import Defaults
from adapters.dialects.registry import dialects
from adapters.sidecar.in_cluster.scheduler_config import config_map_names

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts" / "dragoman" / "files"


def test_the_definition_of_ledgers_is_the_one_in_configs() -> None:
    source = ROOT / "configs" / "crd" / "nodeledgers.yaml"

    assert (FILES / "nodeledgers.yaml").read_text() == source.read_text()


def test_the_webhook_on_pods_knows_every_annotation_that_only_a_scheduler_may_write() -> None:
    keys = frozenset((record.KEY,)).union(*(one.result_keys for one in dialects({}, Defaults())))

    assert (FILES / "result-keys.txt").read_text().split() == sorted(keys)


def test_the_service_may_read_every_settings_file_of_the_schedulers() -> None:
    assert (FILES / "settings-names.txt").read_text().split() == sorted(config_map_names())
