"""What people read about a gang that waits; the service and the command say the same."""

from adapters.accounting.gang_cache import Gang, GangPart
from core.feasibility.gang_plan import GangPlan

KINDS = 32
"""Different requests of the pods of a gang, at most: each takes a look at every class of nodes."""


def named(gang: Gang) -> str:
    """Return the name of a gang and how many of its pods are bound together."""
    return f"gang {gang.ref} of {gang.minimum}"


def incomplete(gang: Gang) -> list[GangPart]:
    """Return the parts with fewer pods than are bound together."""
    return [part for part in gang.parts if len(part.pods) < part.minimum]


def too_few(gang: Gang) -> str | None:
    """Return that a gang has fewer pods than are bound together; None where it has enough."""
    for part in incomplete(gang):
        return f"gang {part.ref}: {len(part.pods)} of {part.minimum} pods exist"
    return None


def too_many(gang: Gang, kinds: int) -> str:
    """Return that the pods of a gang request more different shares than are planned."""
    return f"{named(gang)}: its pods request more than {kinds} different shares"


def together(gang: Gang, lacks: int, plan: GangPlan) -> str:
    """Return how many pods of a gang a plan places, and why no more.

    Args:
        gang: with all its pods.
        lacks: how many of those that are bound together it does not place.
        plan: the plan.
    """
    why = f"; no room for {plan.short}: {plan.reason}" if plan.short and lacks else ""
    return f"{named(gang)}: {gang.minimum - lacks} of {gang.minimum} fit together{why}"
