"""Device plugins, and other components that give cards to containers or choose them."""

from collections.abc import Iterator
from typing import NamedTuple

from adapters.cli.doctor.checks.agents import is_agent
from adapters.cli.doctor.finding import CheckResult, ok, warning
from adapters.cli.doctor.observed import Observed
from adapters.cli.doctor.programs import Workload

CHECK = "injectors"

_NAMED = 5
"""Pods that are named, at most."""

_NEED_EVERY_CARD = (
    "dcgm",
    "gpu-feature-discovery",
    "gpu-operator-validator",
    "hami",
    "k8s-device-plugin",
    "k8s-mig-manager",
    "volcano-vgpu-device-plugin",
)
"""Parts of the names of images that use all cards and request none. Source: the Dockerfiles of
NVIDIA's (``NVIDIA_VISIBLE_DEVICES=all``), HAMi charts/hami/templates/device-plugin."""


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


_SEE = "docs/reference/node-agent.md, 'What a container gets', says which of the two holds"

_KNOWN = (
    _Known("volcano-vgpu-device-plugin", "Volcano's vGPU device plugin"),
    _Known(
        "koordlet",
        "koordlet",
        "its gate GPUEnvInject, where it is on, sets NVIDIA_VISIBLE_DEVICES",
        f"{_SEE}; the gate must be off where mirrors names koordinator (docs/reference/mirrors.md)",
    ),
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
"""Source of the names: the projects' charts and Dockerfiles; in docs/reference/compatibility.md."""


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
    yield from _without_cards(seen)
    for known, workload in found:
        name = f"{known.name} ({workload.metadata.namespace}/{workload.metadata.name})"
        if known.overlap:
            yield warning(CHECK, f"{name}: {known.overlap}", known.remedy)
        else:
            yield ok(CHECK, f"{name} {known.does}")


def _without_cards(seen: Observed) -> Iterator[CheckResult]:
    """A finding where the agents hide the cards from components that need them."""
    exempt = seen.exempt()
    if exempt is None:
        return
    agents = seen.agents()
    nodes = {pod.spec.node_name for pod in seen.pods if is_agent(pod, agents)}
    pods = [
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in seen.pods
        if pod.spec.node_name in nodes and pod.metadata.namespace not in exempt
        if any(_needs_every_card(each.image_name) for each in pod.spec.containers)
    ]
    if pods:
        more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
        spaces = ",".join(sorted({*exempt, *(name.partition("/")[0] for name in pods)}))
        yield warning(
            CHECK,
            f"the agent hides the cards from {', '.join(pods[:_NAMED])}{more}: components that need"
            " every card and request none",
            f"helm upgrade with --set 'node.exempt={{{spaces}}}'; tenants must not be able to"
            " create pods there",
        )


def _needs_every_card(image: str) -> bool:
    return any(part in image for part in _NEED_EVERY_CARD)


def _known(workload: Workload) -> _Known | None:
    names = [each.image_name for each in workload.spec.template.spec.containers]
    return next((known for known in _KNOWN if any(known.image in name for name in names)), None)
