"""Pods of gangs and the objects that describe gangs, as plain objects."""

from typing import Any

from adapters.cli.tests.builders import Plain, pod, volcano

LARGE = 6000
"""MiB, more than half of a card of ``builders.node``."""

KUBERNETES = "scheduling.k8s.io/v1beta1"
KOORDINATOR = "scheduling.sigs.k8s.io/v1alpha1"
PLUGINS = "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
APIS = (KUBERNETES, KOORDINATOR, PLUGINS, VOLCANO)


def group(api: str, minimum: int, name: str = "g", namespace: str = "", **spec: Any) -> Plain:
    """A PodGroup of one of ``APIS``."""
    stated = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return {
        "apiVersion": api,
        "kind": "PodGroup",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {**(stated if api == KUBERNETES else {"minMember": minimum}), **spec},
    }


def member(
    name: str, api: str = KUBERNETES, gang: str = "g", limits: Plain | None = None, **more: Plain
) -> Plain:
    """A pod that names its gang in the words of one of ``APIS``; keywords as of ``pod``."""
    metadata, spec = more.pop("metadata", {}), more.pop("spec", {})
    words: Plain = {}
    match api:
        case "scheduling.k8s.io/v1beta1":
            spec = {"schedulingGroup": {"podGroupName": gang}, **spec}
        case "scheduling.sigs.k8s.io/v1alpha1":
            words = {"labels": {"pod-group.scheduling.sigs.k8s.io": gang}}
        case "scheduling.x-k8s.io/v1alpha1":
            words = {"labels": {"scheduling.x-k8s.io/pod-group": gang}}
        case _:
            words = {"annotations": {"scheduling.k8s.io/group-name": gang}}
            spec = {"schedulerName": "volcano", **spec}
    for key, texts in words.items():
        metadata = {**metadata, key: {**texts, **metadata.get(key, {})}}
    given = volcano(LARGE) if limits is None else limits
    return pod(name, given, metadata={"uid": f"uid-{name}", **metadata}, spec=spec, **more)


def bound(name: str, card: int, on: str = "node-a", **more: Any) -> Plain:
    """A running pod of Kubernetes' gang ``g``, with a card."""
    record = {"volcano.sh/vgpu-ids-new": f"GPU-{on}-{card},NVIDIA,{LARGE},0:"}
    return member(
        name,
        metadata={"annotations": record},
        spec={"nodeName": on},
        status={"phase": "Running"},
        **more,
    )
