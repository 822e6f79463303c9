"""The status of a node's record: the cards that its node agent finds, whoever describes them.

Beside them stands what the kubelet has given to pods that no scheduler's record tells of.

The agent writes the status alone, the service everything else; so neither can undo the other, and
the agent needs no right to say who holds what.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from adapters.wire.grant import Count
from adapters.wire.kube import Wire
from adapters.wire.ledger import CardRecord, card_of, card_record
from core.hardware.card import Card
from core.hardware.mig import NO_GEOMETRY

_MOST = 1024
"""Cards and problems that are read of one node."""

_MOST_HOLDINGS = 16 * _MOST

KUBELET = "kubelet"
"""The dialect of an allocation that is known from the kubelet: nothing on its pod says it."""

# NVIDIA k8s-device-plugin; volcano-sh/volcano pkg/scheduler/api/devices/nvidia/gpushare/type.go
REPORTED = frozenset({"nvidia.com/gpu", "volcano.sh/gpu-memory", "volcano.sh/gpu-number"})
"""Resources whose device plugins leave nothing on a pod that tells its cards for sure."""


class HardwareRecordError(ValueError):
    """A status that is not one."""


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """What the kubelet has given to one container, of one resource.

    Attributes:
        pod: uid; another pod of the same name has another.
        container: its name.
        resource: one of ``REPORTED``.
        count: devices, as the kubelet counts; all that the container asks for when it starts.
        cards: uuids, ascending.
        shared: others may have been given of these cards too, or the container only a part.
    """

    pod: str
    container: str
    resource: str
    count: int
    cards: tuple[str, ...]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """What an agent finds in its node.

    Attributes:
        cards: by ascending index; their ``dialects`` are those that the agent's operator has named.
        isolation: the provider that is installed; None where the agent does not say.
        problems: uuid of a card and what is wrong with it.
        holdings: of pods that the ledger could not tell without.
    """

    cards: tuple[Card, ...] = ()
    isolation: str | None = None
    problems: tuple[tuple[str, str], ...] = ()
    holdings: tuple[DeviceHolding, ...] = ()


class ProblemRecord(Wire, frozen=True, gc=False):
    """What is wrong with a card."""

    card: str
    text: str


class HoldingRecord(Wire, frozen=True, gc=False):
    """A ``Holding``."""

    pod: str
    container: str
    resource: str
    count: Count
    cards: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=_MOST)]
    shared: bool = False


class HardwareRecord(Wire, frozen=True, gc=False):
    """The status. Nothing is left out, so that a patch with it leaves nothing of an earlier one."""

    cards: Annotated[tuple[CardRecord, ...], msgspec.Meta(max_length=_MOST)] = ()
    isolation: str | None = None
    problems: Annotated[tuple[ProblemRecord, ...], msgspec.Meta(max_length=_MOST)] = ()
    holdings: Annotated[tuple[HoldingRecord, ...], msgspec.Meta(max_length=_MOST_HOLDINGS)] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(HardwareRecord | None)


def encode(hardware: NodeHardware) -> bytes:
    """The status that says it; slices that a card can be cut into are not told."""
    record = HardwareRecord(
        tuple(card_record(replace(card, geometry=NO_GEOMETRY), []) for card in hardware.cards),
        hardware.isolation,
        tuple(ProblemRecord(*problem) for problem in hardware.problems),
        tuple(
            HoldingRecord(h.pod, h.container, h.resource, h.count, h.cards, h.shared)
            for h in hardware.holdings
        ),
    )
    return _encoder.encode(record)


def decode(status: bytes | msgspec.Raw, node: str) -> NodeHardware | None:
    """What a status says; None where it says nothing.

    Args:
        status: JSON; may be empty.
        node: name of the node.

    Raises:
        HardwareRecordError: it is not one.
    """
    if not bytes(status):
        return None
    try:
        record = _decoder.decode(status)
        if record is None:
            return None
        cards = {card.uuid: card_of(card, node, []) for card in record.cards}
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError) as error:
        raise HardwareRecordError(f"the status of the ledger cannot be read: {error}") from error
    problems = tuple((problem.card, problem.text) for problem in record.problems)
    holdings = tuple(
        DeviceHolding(h.pod, h.container, h.resource, h.count, h.cards, h.shared)
        for h in record.holdings
    )
    return NodeHardware(tuple(cards.values()), record.isolation, problems, holdings)
