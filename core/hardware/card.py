"""One physical GPU, as all dialects that describe it agree."""

from dataclasses import dataclass
from enum import Enum, IntEnum

from core.hardware.mig import NO_GEOMETRY, Geometry
from core.hardware.quantity import FULL
from core.value import value


class Mode(Enum):
    """How a card can be divided."""

    __hash__ = object.__hash__  # by identity, which is a third of the time of that by name

    SHARED = "shared"
    """Several pods share its memory and compute, isolated in software (HAMi-core, sGPU)."""
    MIG = "mig"
    """Pods have hardware slices of it."""
    MPS = "mps"
    """Several pods share it, and the vendor's service (NVIDIA's MPS) is to run for them."""
    WHOLE = "whole"
    """One pod has the whole card."""


class Level(IntEnum):
    """How closely the cards of one scope are connected; higher is closer."""

    NODE = 1
    NUMA = 2
    PCIE = 3
    LINK = 4
    """Directly: NVLink, MetaXLink, HCCS."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A set of cards of one node that are connected at one level; equal scopes are the same set."""

    level: Level
    name: str


@value(frozen=True, slots=True)
class Card:
    """A card that requests get whole or in shares.

    Attributes:
        uuid: the vendor's identifier; unique in the cluster.
        index: the number that the node's own tools give it (minor, position), 0 or more.
        vendor: lower-case vendor name, such as ``nvidia`` or ``metax``.
        model: product name for people.
        memory: bytes of device memory.
        slots: how many containers may share it, 1 or more.
        healthy: False excludes it from every placement; allocations that have it keep it.
        numa: NUMA node, or None where unknown.
        links: the scopes that it belongs to, at most one of a level.
        dialects: the names of those that describe it; only their requests may use it.
        names: every product name that a dialect has for it, for allow and deny lists.
        geometry: into which slices it can be partitioned; empty where that is not known, or the
            card is not in MIG mode.
        compute: percent of one card that pods may have of it together. Above 100 its compute is
            overcommitted; 0 gives none, so that only requests of memory alone fit.
        problem: why no pod gets it, or none in another mode, in words for people; empty where
            no description says why, or nothing keeps pods off.
    """

    uuid: str
    node: str
    index: int
    vendor: str
    model: str
    memory: int
    slots: int
    healthy: bool = True
    mode: Mode = Mode.SHARED
    numa: int | None = None
    links: tuple[Scope, ...] = ()
    dialects: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    geometry: Geometry = NO_GEOMETRY
    compute: int = FULL
    problem: str = ""

    def scope(self, level: Level) -> Scope | None:
        """Return the card's scope at one level, if it is known."""
        return next((scope for scope in self.links if scope.level is level), None)
