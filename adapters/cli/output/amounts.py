"""Amounts of cards in words: what a request asks for, and what a share is."""

from adapters.wire.agent_report import Use
from core.hardware.quantity import MIB
from core.hardware.quantity import format_gib as gib
from core.requests.grant import Allocation, Grant
from core.requests.request import ContainerRequest, Request


def percent(amount: int) -> str:
    """Return percent of a card's compute."""
    return f"{amount}%"


def request_text(request: Request) -> str:
    """Return what a pod asks for, container by container: ``2 cards: 4.0 GiB, 50% each``."""
    several = len(request.containers) > 1
    return "; ".join(
        f"{each.name}: {container_text(each)}" if several else container_text(each)
        for each in request.containers
    )


def container_text(container: ContainerRequest) -> str:
    """Return what one container asks for."""
    cards = "1 card" if container.count == 1 else f"{container.count} cards"
    if container.exclusive:
        return f"{cards}, whole"
    each = " each" if container.count > 1 else ""
    memory = (
        f"{container.memory_percent}% of memory"
        if container.memory is None
        else f"{gib(container.memory)} GiB"
    )
    compute = f", {container.compute}% compute" if container.compute else ""
    return f"{cards}: {memory}{compute}{each}"


def memory_of(allocation: Allocation) -> int:
    """Return the bytes of all grants of a pod."""
    return sum(grant.memory for grant in allocation.grants)


def compute_of(allocation: Allocation) -> int:
    """Return the percent of all grants of a pod."""
    return sum(grant.compute for grant in allocation.grants)


def grant_text(grant: Grant) -> str:
    """Return one share in words, such as ``4.0 GiB, 50%``."""
    slice_ = f" ({grant.slice.profile})" if grant.slice else ""
    return f"{gib(grant.memory)} GiB{f', {grant.compute}%' if grant.compute else ''}{slice_}"


def used(use: Use) -> tuple[str, str]:
    """Return memory in GiB and compute in percent; empty where it is unknown."""
    memory = "" if use.memory is None else gib(use.memory)
    return memory, "" if use.compute is None else percent(use.compute)


def used_fields(use: Use) -> dict[str, int | None]:
    """Return a card's use as fields of JSON, YAML and CSV; memory in MiB, compute in percent."""
    return {
        "usedMiB": None if use.memory is None else use.memory // MIB,
        "usedCompute": use.compute,
    }
