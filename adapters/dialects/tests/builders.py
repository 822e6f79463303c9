"""Pods that run on a node, in any vocabulary."""

from collections.abc import Mapping

from adapters.wire.kube import Amount, Container, Metadata, Pod, PodSpec, Resources, Text


def bound(limits: Mapping[str, Amount], annotations: Text | None = None) -> Pod:
    """A pod of one container on node ``n``."""
    return Pod(
        Metadata(name="p", namespace="d", uid="7", annotations=annotations),
        PodSpec(containers=(Container("c", Resources(limits=dict(limits))),), node_name="n"),
    )
