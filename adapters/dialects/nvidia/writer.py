"""Writes a request in the words of NVIDIA's device plugin: whole cards, and nothing else."""

from adapters.dialects.formats.nvidia_words import GPU, SHARED
from adapters.dialects.request_writer import RequestWriter, WrittenRequest
from core.requests.request import Request


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write the number of cards; whatever a request says besides is lost."""
    return WrittenRequest(tuple({GPU: container.count} for container in request.containers))


WRITER = RequestWriter(
    resources=frozenset({GPU, SHARED}),
    annotations=frozenset(),
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)
