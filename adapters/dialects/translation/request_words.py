"""The resources, annotations and labels by which pods state a request of a dialect."""

from dataclasses import replace

from adapters.dialects import registry
from adapters.dialects.info import DialectInfo
from adapters.dialects.losses import Loss
from adapters.dialects.request_writer import RequestWriter
from adapters.wire.kube import Pod
from core.requests.request import Request


def texts(info: DialectInfo, writer: RequestWriter) -> frozenset[str]:
    """Annotations and labels that state a request or a result of a dialect."""
    return writer.annotations | writer.labels | info.result_keys


def with_vendor(request: Request) -> Request:
    """The request with the vendor of its dialect's cards, if it states none."""
    info = registry.named(request.dialect)
    return replace(request, vendor=request.vendor or (info.vendor if info else None))


def unread_amounts(pod: Pod, writer: RequestWriter) -> list[Loss]:
    """The amounts of a pod that no request contains."""
    return [
        Loss(f"container {container.name}: {resource}", str(amounts[resource]), "removed")
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        for amounts in (
            {**(container.resources.requests or {}), **(container.resources.limits or {})},
        )
        for resource in sorted(writer.unread & amounts.keys())
    ]
