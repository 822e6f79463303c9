"""Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value.

    Attributes:
        labels: in the order in which they are written.
    """

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name.

    Attributes:
        kind: ``gauge`` or ``counter``.
    """

    name: str
    help: str
    samples: tuple[Sample, ...]
    kind: str = "gauge"


def render(families: Iterable[Family]) -> str:
    """Write the text of all families; one without samples is left out."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in family.samples:
            labels = ",".join(
                f'{key}="{value.translate(_ESCAPES)}"' for key, value in sample.labels.items()
            )
            braces = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{braces} {sample.value:.15g}")
    return "".join(f"{line}\n" for line in lines)
