"""What the service answers about one namespace, and the command shows.

Memory is in MiB, compute in percent of one card.
"""

from msgspec import field

from adapters.wire.kube import Wire


class WaitingPod(Wire, frozen=True, gc=False):
    """A pod that requests a share and has no node; ``fits`` counts nodes."""

    namespace: str
    pod: str
    dialect: str | None
    scheduler: str
    request: str
    fits: int
    reason: str
    gang: str | None


class HeldPod(Wire, frozen=True, gc=False):
    """A pod with shares of cards of one node; ``cards`` counts different ones."""

    namespace: str
    pod: str
    dialect: str
    node: str
    cards: int
    granted_mib: int = field(name="grantedMiB")
    compute: int
    priority: int
    uuids: tuple[str, ...]
    note: str


class PodShare(Wire, frozen=True, gc=False):
    """A pod's share of one card, by the card's index; ``all`` is for all of its memory."""

    card: int
    namespace: str
    pod: str
    dialect: str
    granted_mib: int = field(name="grantedMiB")
    compute: int
    containers: tuple[str, ...]
    uuid: str
    note: str
    all: bool = False


class TenantRows(Wire, frozen=True, gc=False, omit_defaults=True):
    """The answer to one question.

    Attributes:
        elsewhere: how much is of other namespaces.
        created: when pods of the rows were created, by name.
    """

    pending: tuple[WaitingPod, ...] = ()
    pods: tuple[HeldPod, ...] = ()
    shares: tuple[PodShare, ...] = ()
    elsewhere: int = 0
    created: dict[str, str] = field(default_factory=dict)


class TenantExplanation(Wire, frozen=True, gc=False):
    """The answer about one pod: the lines of its explanation, and whether all is well."""

    pod: str
    dialect: str | None
    summary: str
    fits: int
    lines: tuple[str, ...]
    well: bool
