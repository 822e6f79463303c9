"""The answer about a gang: where its pods fit together, or why they do not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.accounting.gang_cache import Gang
from adapters.accounting.gang_members import GangMembers
from adapters.accounting.gang_texts import named
from core.requests.grant import Placement

NOWHERE: Mapping[str, str] = {}
NO_CARDS: Mapping[str, Placement] = {}


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """A gang at one moment.

    Attributes:
        members: its pods, and what they have.
        refusal: why none of those that wait may be bound; empty where they may.
        placed: the cards of those that fit together, by uid.
        devices: the node of those to which a device plugin gives devices, by uid.
    """

    members: GangMembers
    refusal: str = ""
    placed: Mapping[str, Placement] = field(default_factory=lambda: NO_CARDS)
    devices: Mapping[str, str] = field(default_factory=lambda: NOWHERE)

    @property
    def gang(self) -> Gang:
        """The gang."""
        return self.members.gang

    @property
    def decides(self) -> bool:
        """Whether its pods wait for each other; else each of them is on its own."""
        return bool(self.refusal or self.placed or self.devices)

    def node_of(self, uid: str) -> str | None:
        """The node to which a pod would go; None where it would go to none."""
        to = self.placed.get(uid)
        return self.devices.get(uid) if to is None else to.node

    def text_of(self, uid: str) -> str:
        """What there is to say of a pod of a gang that decides."""
        if self.refusal:
            return self.refusal
        least = self.gang.minimum
        rest = "" if self.node_of(uid) else " without this pod"
        return f"{named(self.gang)}: {least} of {least} fit together{rest}"
