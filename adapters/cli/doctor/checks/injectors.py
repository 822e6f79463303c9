"""Device plugins, and other components that give cards to containers or choose them."""

from collections.abc import Iterator
from typing import NamedTuple

from adapters.cli.doctor.finding import CheckResult, ok, warning
from adapters.cli.doctor.observed import Observed
from adapters.cli.doctor.programs import Workload

CHECK = "injectors"


class _Known(NamedTuple):
    """A component of another project.

    Attributes:
        image: a part of the name of its image.
        name: for people.
        overlap: what it does that the agent or the service does too; empty for nothing.
        remedy: for an overlap.
        does: what it does where it does not overlap.
    """

    image: str
    name: str
    overlap: str = ""
    remedy: str = ""
    does: str = "describes cards, and injects nothing with the agent beside it"


_SEE = "docs/node-agent.md, 'What a container gets', says which of the two holds"

_KNOWN = (
    _Known("volcano-vgpu-device-plugin", "Volcano's vGPU device plugin"),
    _Known("koordlet", "koordlet", "its hook sets NVIDIA_VISIBLE_DEVICES", _SEE),
    _Known("metax-device-plugin", "MetaX's device plugin"),
    _Known("gpu-device", "MetaX's device plugin"),
    _Known(
        "k8s-device-plugin",
        "NVIDIA's device plugin",
        does="serves its nodes; 'device-plugins' says which of them are Dragoman's too",
    ),
    _Known(
        "hami",
        "HAMi",
        "its scheduler, where it runs, keeps a ledger of its own of the same cards",
        "keep its pods off nodes whose cards Dragoman shares; those that run are adopted",
    ),
)
"""Source of the names: the projects' charts and Dockerfiles; in docs/compatibility.md."""


def check(seen: Observed) -> Iterator[CheckResult]:
    """A finding for each component that is known."""
    if "daemonsets" in seen.unreadable:
        return
    found = [
        (known, each)
        for each in seen.daemon_sets
        if (known := _known(each)) is not None and each not in seen.agents()
    ]
    if not found:
        yield ok(CHECK, "no device plugin that Dragoman knows; the agents report the cards")
    for known, workload in found:
        name = f"{known.name} ({workload.metadata.namespace}/{workload.metadata.name})"
        if known.overlap:
            yield warning(CHECK, f"{name}: {known.overlap}", known.remedy)
        else:
            yield ok(CHECK, f"{name} {known.does}")


def _known(workload: Workload) -> _Known | None:
    names = [each.image_name for each in workload.spec.template.spec.containers]
    return next((known for known in _KNOWN if any(known.image in name for name in names)), None)
