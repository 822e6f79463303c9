"""The status of a node's record: the cards that its agent finds, whichever dialects describe them.

It also has the devices that the kubelet assigned to pods of which no scheduler wrote a record.

Only the agent writes the status, and only the service writes everything else. So neither overwrites
the other, and the agent needs no permission to write allocations.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Wire
from adapters.wire.records.allocation import Count
from adapters.wire.records.ledger import CardRecord, card_of, card_record, located
from core.hardware.card import Card
from core.hardware.mig import NO_GEOMETRY

_MAX_CARDS = 1024
"""Cards, and problems, of one record."""

_MAX_HOLDINGS = 16 * _MAX_CARDS

# NVIDIA k8s-device-plugin; volcano-sh/volcano pkg/scheduler/api/devices/nvidia/gpushare/type.go
_REPORTED = frozenset(
    {
        *("nvidia.com/gpu", "nvidia.com/gpu.shared"),
        *("volcano.sh/gpu-memory", "volcano.sh/gpu-number"),
    }
)
_REPORTED_PREFIX = "nvidia.com/mig-"


def is_reported(resource: str) -> bool:
    """Return whether the agent reports the devices of a resource that the kubelet assigned.

    The device plugins of these resources write nothing on a pod that names its cards for certain.
    """
    return resource in _REPORTED or resource.startswith(_REPORTED_PREFIX)


class HardwareRecordError(ValueError):
    """A status that cannot be read."""


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """The devices of one resource that the kubelet assigned to one container.

    Attributes:
        pod: uid; another pod of the same name has another.
        resource: one that ``is_reported``; an older agent reports fewer of them.
        count: devices, as the kubelet counts; at the container's start all that it asks for.
        cards: uuids, ascending.
        shared: other containers may have these cards too, or this one has only a part of them.
    """

    pod: str
    container: str
    resource: str
    count: Count
    cards: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=_MAX_CARDS)]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """What an agent finds on its node.

    Attributes:
        cards: by ascending index; their ``dialects`` are those of the agent's configuration.
        isolation: the provider that is installed; None where the agent does not state one.
        problems: uuid of a card and what is wrong with it.
        holdings: of pods whose cards the service learns only from the kubelet.
        stopped: uids of the allocations in the node's ledger that have a ``release_by`` and of
            which no container is on the node any more. Only an agent that the runtime reports
            all containers to may list one, and it starts no container of such a pod.
        mig_cut: whether the agent creates and removes MIG instances as allocations need them;
            False: if any component does, it is another one. None where the agent is older than
            this field.
    """

    cards: tuple[Card, ...] = ()
    isolation: str | None = None
    problems: tuple[tuple[str, str], ...] = ()
    holdings: tuple[DeviceHolding, ...] = ()
    stopped: tuple[str, ...] = ()
    mig_cut: bool | None = None


class ProblemRecord(Wire, frozen=True, gc=False):
    """What is wrong with a card."""

    card: str
    text: str


class HardwareRecord(Wire, frozen=True, gc=False):
    """The status. Every field is present, so that a patch replaces all of an earlier one."""

    cards: Annotated[tuple[CardRecord, ...], msgspec.Meta(max_length=_MAX_CARDS)] = ()
    isolation: str | None = None
    problems: Annotated[tuple[ProblemRecord, ...], msgspec.Meta(max_length=_MAX_CARDS)] = ()
    holdings: Annotated[tuple[DeviceHolding, ...], msgspec.Meta(max_length=_MAX_HOLDINGS)] = ()
    stopped: Annotated[tuple[str, ...], msgspec.Meta(max_length=_MAX_HOLDINGS)] = ()
    mig_cut: bool | None = None


_encoder = msgspec.json.Encoder()
_decoder: Decoder[HardwareRecord | None] = Decoder(HardwareRecord | None)


def encode(hardware: NodeHardware) -> bytes:
    """Return the status, without the MIG layouts of the cards."""
    record = HardwareRecord(
        tuple(card_record(replace(card, geometry=NO_GEOMETRY), []) for card in hardware.cards),
        hardware.isolation,
        tuple(ProblemRecord(*problem) for problem in hardware.problems),
        hardware.holdings,
        hardware.stopped,
        hardware.mig_cut,
    )
    return _encoder.encode(record)


def decode(status: bytes | msgspec.Raw, node: str) -> NodeHardware | None:
    """Return the hardware in the status of a node; None where that is empty.

    Raises:
        HardwareRecordError: it cannot be read.
    """
    if not bytes(status):
        return None
    try:
        record = _decoder.decode(status)
        if record is None:
            return None
        cards = {card.uuid: card_of(card, node, []) for card in record.cards}
    except UnreadableError as error:
        problem = located(status, error)
        raise HardwareRecordError(f"the status of the ledger cannot be read: {problem}") from error
    problems = tuple((problem.card, problem.text) for problem in record.problems)
    return NodeHardware(
        tuple(cards.values()),
        record.isolation,
        problems,
        record.holdings,
        record.stopped,
        record.mig_cut,
    )
