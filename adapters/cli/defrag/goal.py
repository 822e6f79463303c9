"""What a plan of moves is to reach."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.source import InputError
from adapters.dialects.gangs import gang_of
from adapters.wire.kube import Pod, full_name, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.quantity import MAX_MEMORY
from core.requests.gang import GangRef

FOR = "--for"

_PODS = ("pod", "pods", "po")

Group = tuple[Pod, ...]
"""Pods that fit together or not at all: those of a gang, or a single one."""


@dataclass(frozen=True, slots=True)
class PendingPods:
    """Pods that wait are to fit.

    Attributes:
        names: what ``--for`` names; nothing for all pods that wait.
        namespace: of a pod or gang that names none; None for any.
    """

    names: tuple[str, ...] = ()
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class FreeNodes:
    """Whole nodes are to be empty.

    Attributes:
        number: 1 or more.
        pool: which nodes; empty for all.
    """

    number: int
    pool: str = ""


@dataclass(frozen=True, slots=True)
class LargestShare:
    """A card is to have so much free.

    Attributes:
        memory: bytes.
        pool: which nodes, or which model; empty for all.
    """

    memory: int
    pool: str = ""


Goal = PendingPods | FreeNodes | LargestShare


def size(text: str) -> int:
    """Return the bytes of ``--largest-share``.

    Raises:
        InputError: it is no amount of memory, or not 1 byte to ``MAX_MEMORY``.
    """
    try:
        amount = parse_int(text)
    except QuantityError as error:
        raise InputError("--largest-share", f"{error}; write an amount such as 40Gi") from None
    if not 1 <= amount <= MAX_MEMORY:
        raise InputError("--largest-share", f"{text!r} must be 1 byte to {MAX_MEMORY >> 40} TiB")
    return amount


def nodes_of_pool(fleet: Fleet, pool: str) -> frozenset[str]:
    """Return the nodes of a pool: with a label ``KEY=VALUE``, or with cards of a model.

    Raises:
        InputError: there is no such node.
    """
    key, is_label, value = pool.partition("=")
    found = frozenset(
        name
        for name, state in fleet.nodes.items()
        if not pool
        or (is_label and labels(state.kube).get(key) == value)
        or any(card.model == pool for card in state.node.cards)
    )
    if not found:
        raise InputError("--pool", f"no node has the label or the model {pool!r}")
    return found


def groups(fleet: Fleet, goal: PendingPods) -> list[Group]:
    """Return the pods that are to fit, in order of their names, those of a gang together.

    Raises:
        InputError: a name is that of no pod and no gang that waits.
    """
    waiting = sorted(fleet.pending(), key=full_name)
    if not goal.names:
        return _grouped(waiting)
    chosen: dict[str, Group] = {}
    for name in goal.names:
        group = _named(name, goal.namespace, _grouped(waiting))
        chosen[group[0].metadata.uid] = group
    return [*chosen.values()]


def _grouped(pods: Iterable[Pod]) -> list[Group]:
    found: dict[GangRef | str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(gang_of(pod) or pod.metadata.uid, []).append(pod)
    return [tuple(group) for group in found.values()]


def _named(text: str, namespace: str | None, every: list[Group]) -> Group:
    kind, slash, rest = text.partition("/")
    is_gang = bool(slash) and kind == "gang"
    name = rest if slash and kind in (*_PODS, "gang") else text
    within, slash, name = name.rpartition("/")
    namespace = within if slash else namespace
    found = [
        group for group in every if name in _names(group, is_gang=is_gang, namespace=namespace)
    ]
    if len(found) == 1:
        return found[0]
    what = "gang" if is_gang else "pod"
    place = f" in namespace {namespace}" if namespace else ""
    if not found:
        raise InputError(FOR, f"no {what} {name}{place} waits for a node")
    several = ", ".join(full_name(group[0]) for group in found[:5])
    raise InputError(FOR, f"several namespaces have a {what} {name} that waits: {several}")


def _names(group: Group, *, is_gang: bool, namespace: str | None) -> Iterator[str]:
    """Yield the names by which a group is meant."""
    for pod in group:
        if namespace in (None, pod.metadata.namespace or "default"):
            gang = gang_of(pod)
            if not is_gang:
                yield pod.metadata.name
            elif gang is not None:
                yield gang.name
