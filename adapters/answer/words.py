"""An answer in words: of a request, of cards, and of the nodes that a pod does not fit."""

import re
from collections.abc import Callable, Iterator, Sequence

from adapters.accounting.gang_cache import Gang
from adapters.answer.answer import EXAMPLES, PodAnswer
from adapters.answer.device_plugins import devices_text
from adapters.dialects.matching import amounts_of
from adapters.wire.kube import full_name
from core.hardware.quantity import FULL
from core.hardware.quantity import format_gib as gib
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.request import ContainerRequest, Request

_GROUP = re.compile(r"; (?=\d+ nodes?: |\S+ said: )")

NAMED = EXAMPLES
"""Nodes that are named for one reason, at most."""


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
    if container.exclusive and container.memory_percent == FULL:
        return f"{cards}, whole"
    each = " each" if container.count > 1 else ""
    memory = (
        f"{container.memory_percent}% of memory"
        if container.memory is None
        else f"{gib(container.memory)} GiB"
    )
    compute = f", {container.compute}% compute" if container.compute else ""
    alone = ", shared with no pod" if container.exclusive and container.compute != FULL else ""
    return f"{cards}: {memory}{compute}{each}{alone}"


def grant_text(grant: Grant) -> str:
    """Return one share in words, such as ``4.0 GiB, 50%``."""
    slice_ = f" ({grant.slice.profile})" if grant.slice else ""
    return f"{gib(grant.memory)} GiB{f', {grant.compute}%' if grant.compute else ''}{slice_}"


def asked_text(answer: PodAnswer) -> str | None:
    """Return what the pod asks for; None where Dragoman counts none of it."""
    if answer.request is None:
        return None if answer.claims is None else devices_text(answer.claims.requested)
    amounts = amounts_of(answer.pod, answer.request)
    if amounts and (answer.devices is not None or not answer.candidates.names):
        return devices_text(amounts)
    return request_text(answer.request)


def headline(answer: PodAnswer) -> str:
    """Return the state of the pod in a sentence; what keeps it from some nodes stands below it."""
    if answer.standing:
        return answer.standing
    if answer.fits_nowhere and not answer.waits_for_gang:
        nodes = len(answer.rejected)
        return f"is pending: fits none of {nodes} {'node' if nodes == 1 else 'nodes'}"
    refused = "refused by its scheduler, though " if answer.is_refused else ""
    return f"is pending: {refused}{answer.text() if answer.fits_nowhere else answer.summary()}"


def head_lines(answer: PodAnswer, allocation: Allocation | None, gang: Gang | None) -> list[str]:
    """Return the pod with its state, what it asks for, and what there is to note."""
    name = answer.dialect or (allocation.dialect if allocation else "")
    lines = [f"{full_name(answer.pod)}{f' ({name})' if name else ''} {headline(answer)}"]
    request = asked_text(answer)
    if request is not None:
        lines.append(f"Request: {request}")
    if gang is not None:
        lines.append(f"Gang: {gang.ref}, of {gang.minimum} pods ({gang.ref.api.value})")
    return [*lines, *(f"Note: {note}" for note in answer.notes)]


def card_lines(
    allocation: Allocation,
    ledger: NodeLedger,
    title: str = "Cards",
    sharers: Callable[[list[str]], str] = ", ".join,
) -> Iterator[str]:
    """Yield the cards of an allocation, each with the pods that share it, as ``sharers`` says."""
    yield ""
    yield title
    cards = ledger.node.cards
    indexes = {card.uuid: position for position, card in enumerate(cards)}
    for grant in allocation.grants:
        position = indexes.get(grant.card)
        if position is None:
            yield f"  {grant.card}: {grant_text(grant)}; the node does not have this card"
            continue
        card = cards[position]
        others = [
            ledger.allocations[share.uid].pod
            for share in ledger.usages[position].shares
            if share.uid != allocation.uid
        ]
        container = f"{grant.container}: " if grant.container else ""
        shared = f"; shared with {sharers(others)}" if others else ""
        yield f"  {container}#{card.index} {card.uuid} ({card.model}), {grant_text(grant)}{shared}"
    for uuid in sorted(allocation.blocked):
        yield f"  {uuid}: may be in use"


def node_lines(answer: PodAnswer) -> Iterator[str]:
    """Yield the nodes that a pod does not fit, by cause, and what its scheduler said."""
    yield ""
    yield "Nodes"
    for group in answer.groups():
        nodes = "node" if group.nodes == 1 else "nodes"
        yield f"  {group.nodes} {nodes}: {group.text} ({named(group.examples, group.nodes)})"
    if answer.message:
        yield answer.message


def reason_lines(text: str) -> tuple[str, ...]:
    """Return a summary over nodes in lines, one for each group of them; one line of another."""
    head, fit, rest = text.partition(" nodes fit: ")
    groups = _GROUP.split(rest)
    if len(groups) == 1:
        return (text,)
    return f"{head}{fit.rstrip()}", *(f"  {each}" for each in groups)


def named(names: Sequence[str], count: int) -> str:
    """Return the first of some names, and how many more there are."""
    if count <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {count - NAMED} more"
