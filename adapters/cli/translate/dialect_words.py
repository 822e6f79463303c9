"""What the registry knows about the words of a dialect, for translations."""

from dataclasses import replace

from adapters.cli.input.source import InputError
from adapters.dialects import registry
from adapters.dialects.dra import DRA
from adapters.dialects.info import DialectInfo
from adapters.dialects.losses import Loss
from adapters.dialects.request_writer import RequestWriter
from adapters.wire.kube import Pod
from core.requests.request import Request


def targets() -> list[str]:
    """The dialects that requests can be written in, and claims."""
    return [*(info.name for info in registry.DIALECTS if info.writer is not None), DRA]


def writer_of(name: str) -> RequestWriter:
    """What writes a request in a dialect.

    Raises:
        InputError: nothing does.
    """
    info = _info(name)
    if info.writer is None:
        raise InputError(name, f"cannot be translated; must be one of {', '.join(targets())}")
    return info.writer()


def texts_of(name: str) -> frozenset[str]:
    """Annotations and labels that state a request or a result of a dialect; claims have none."""
    if name == DRA:
        return frozenset()
    writer = writer_of(name)
    return writer.annotations | writer.labels | _info(name).result_keys


def vendor_of(name: str) -> str | None:
    """The vendor of the only cards that a dialect can describe; None where it has no such one."""
    return None if name == DRA else _info(name).vendor


def with_vendor(request: Request) -> Request:
    """The request with the vendor of its dialect's cards, if it states none."""
    return replace(request, vendor=request.vendor or vendor_of(request.dialect))


def unread_amounts(pod: Pod, name: str) -> list[Loss]:
    """The amounts of a pod that no request contains."""
    unread = writer_of(name).unread
    return [
        Loss(f"container {container.name}: {resource}", str(amounts[resource]), "removed")
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        for amounts in (
            {**(container.resources.requests or {}), **(container.resources.limits or {})},
        )
        for resource in sorted(unread & amounts.keys())
    ]


def _info(name: str) -> DialectInfo:
    return next(info for info in registry.DIALECTS if info.name == name)
