"""Pods and containers, for the builders and tests of all dialects."""

from collections.abc import Mapping, Sequence
from itertools import count

from adapters.wire.kube import Amount, Container, Metadata, Pod, PodSpec, Resources

_serial = count()


def a_container(
    domain: str,
    limits: Mapping[str, Amount] | None,
    requests: Mapping[str, Amount] | None = None,
    name: str = "main",
    *,
    sidecar: bool = False,
) -> Container:
    """Resources have names without the domain, which ends with a slash or is empty."""

    def named(amounts: Mapping[str, Amount] | None) -> dict[str, Amount]:
        return {f"{domain}{key}": value for key, value in (amounts or {}).items()}

    return Container(
        name=name,
        resources=Resources(limits=named(limits), requests=named(requests)),
        restart_policy="Always" if sidecar else None,
    )


def a_pod(
    containers: Sequence[Container],
    annotations: Mapping[str, str] | None = None,
    init: Sequence[Container] = (),
    *,
    labels: Mapping[str, str] | None = None,
    priority: int | None = None,
    node: str | None = None,
    name: str = "",
    namespace: str = "default",
) -> Pod:
    """A pod of a name and uid of its own."""
    name = name or f"pod-{next(_serial)}"
    return Pod(
        metadata=Metadata(
            name,
            namespace,
            f"uid-{name}",
            annotations=dict(annotations or {}),
            labels=dict(labels or {}),
        ),
        spec=PodSpec(
            containers=tuple(containers),
            init_containers=tuple(init),
            node_name=node,
            priority=priority,
        ),
    )
