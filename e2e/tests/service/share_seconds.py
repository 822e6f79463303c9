"""What pods had of cards by the history of the NodeLedgers, beside what the services export."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.names import LEDGERS
from e2e.harness.schedulers.service import Service

GIB = 1 << 30
FAMILIES = (
    "dragoman_share_seconds_total",
    "dragoman_share_memory_gib_seconds_total",
    "dragoman_share_compute_card_seconds_total",
)
Key = tuple[str, str, str, str, str]
"""Name of the metric, node, namespace, dialect, model."""


class Exported(NamedTuple):
    """What one scrape returned.

    Attributes:
        until: milliseconds since 1970 up to which at least all nodes are counted.
        values: by series.
    """

    until: int
    values: dict[Key, float]


def exported(service: Service) -> Exported | None:
    """What a service exports; None where it does not lead, or has led too shortly."""
    text = service.metrics("/metrics/usage")
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    if not samples:
        return None
    (until,) = [one.value for one in samples if one.name.endswith("_timestamp_seconds")]
    values = {_key(one): one.value for one in samples if one.name in FAMILIES}
    return Exported(round(until * 1000), values)


def _key(sample: Sample) -> Key:
    of = sample.labels
    return sample.name, of["node"], of["namespace"], of["dialect"], of["model"]


def history(plane: ControlPlane, version: str) -> Iterator[Object]:
    """The specs of all NodeLedgers after a resource version, write by write."""
    for event in plane.api.watch(LEDGERS, version, 2):
        if event["type"] in {"ADDED", "MODIFIED"}:
            yield event["object"]["spec"]


def expected(specs: Sequence[Object], until: int) -> dict[Key, float]:
    """The seconds of every grant, one record after the other, as the exported series have them.

    Args:
        specs: each record of a node, from its first.
        until: milliseconds since 1970; later records count up to their own time.
    """
    sums: dict[Key, float] = defaultdict(float)
    for number, spec in enumerate(specs):
        last = number == len(specs) - 1
        start = spec["meter"]["until"]
        end = max(start, until) if last else specs[number + 1]["meter"]["until"]
        models = {card["uuid"]: card["model"] for card in spec["cards"]}
        for row in spec.get("allocations", ()):
            for grant in row["grants"]:
                place = (
                    spec["node"],
                    row["pod"].partition("/")[0],
                    row["dialect"],
                    models[grant["card"]],
                )
                amounts = 1, grant["memory"] / GIB, grant["compute"] / 100
                for name, amount in zip(FAMILIES, amounts, strict=True):
                    sums[name, *place] += amount * (end - start) / 1000
    return sums


def counted_before(spec: Object) -> dict[Key, float]:
    """What a record has counted up to its own time, as the exported series have it."""
    units = (1000, 1000 * GIB, 1000 * 100)
    return {
        (name, spec["node"], row["namespace"], row["dialect"], row["model"]): int(row[part]) / unit
        for row in spec["meter"].get("totals", ())
        for name, part, unit in zip(FAMILIES, ("shares", "memory", "compute"), units, strict=True)
    }
