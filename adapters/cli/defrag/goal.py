"""What a plan of moves is to reach, and what it gains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.source import InputError
from adapters.dialects.gangs import any_gang_of
from adapters.wire.kube import Pod, full_name, gates_of, labels, pod_ref
from adapters.wire.quantity import QuantityError, parse_int
from core.feasibility.fragmentation import FreeShares, fragmentation, free_shares
from core.hardware.quantity import MAX_MEMORY
from core.ledger.node_ledger import NodeLedger
from core.requests.gang import GangApi, GangRef

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

    Pods that scheduling gates hold back are none of them: what is made free for one is idle.

    Raises:
        InputError: a name is that of no pod and no gang that waits.
    """
    pending = sorted(fleet.pending(), key=full_name)
    gangs = fleet.gangs()
    members: dict[GangRef | str, list[Pod]] = {}
    for pod in pending:
        ref, gang = any_gang_of(pod), gangs.any_gang(pod)
        if ref is not None and ref.api is GangApi.VOLCANO and (gang is None or gang.minimum < 2):
            ref = None  # vc-scheduler gives each workload a PodGroup, most of one pod
        if not gates_of(pod):
            members.setdefault(ref or pod.metadata.uid, []).append(pod)
    every = [tuple(group) for group in members.values()]
    if not goal.names:
        return every
    chosen: dict[str, Group] = {}
    for text in goal.names:
        kind, slash, rest = text.partition("/")
        is_gang = bool(slash) and kind == "gang"
        within, slash, name = (rest if slash and kind in (*_PODS, "gang") else text).rpartition("/")
        namespace = within if slash else goal.namespace
        found: list[Group] = []
        for group in every:
            of_namespace = [pod for pod in group if namespace in (None, pod_ref(pod).namespace)]
            named = {gang.name for gang in map(any_gang_of, of_namespace) if gang is not None}
            if name in (named if is_gang else {pod.metadata.name for pod in of_namespace}):
                found.append(group)
        what = "gang" if is_gang else "pod"
        if not found:
            place = f" in namespace {namespace}" if namespace else ""
            gates = [gates_of(pod) for pod in pending if name == pod.metadata.name]
            held = f": scheduling gates hold it back ({gates[0]})" if any(gates) else ""
            raise InputError(FOR, f"no {what} {name}{place} waits for a node{held}")
        if len(found) > 1:
            several = ", ".join(full_name(group[0]) for group in found[:5])
            raise InputError(FOR, f"several namespaces have a {what} {name} that waits: {several}")
        chosen[found[0][0].metadata.uid] = found[0]
    return [*chosen.values()]


@dataclass(frozen=True, slots=True)
class ModelGain:
    """The free shares of one model, each before and after the moves.

    Attributes:
        model: of the cards.
        largest: bytes of the largest share of one card that fits anywhere.
        idle: cards without a share.
    """

    model: str
    largest: tuple[int, int]
    idle: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gain:
    """What is free, each before and after the moves.

    Attributes:
        models: in order of the nodes.
        fragmentation: as ``core.feasibility.fragmentation`` counts it, percent.
        empty: nodes with cards on which no pod has any.
    """

    models: tuple[ModelGain, ...]
    fragmentation: tuple[int, int]
    empty: tuple[int, int]


def gain(before: Mapping[str, NodeLedger], after: Mapping[str, NodeLedger]) -> Gain:
    """Compare two states of the same nodes."""
    then = {name: free_shares(ledger) for name, ledger in before.items()}
    now = {
        name: then[name] if ledger is before[name] else free_shares(ledger)
        for name, ledger in after.items()
    }
    earlier, later = _by_model(then.values()), _by_model(now.values())
    return Gain(
        tuple(
            ModelGain(model, *zip(earlier[model], later[model], strict=True)) for model in earlier
        ),
        (fragmentation(before.values()), fragmentation(after.values())),
        (_empty(before), _empty(after)),
    )


def _by_model(every: Iterable[tuple[FreeShares, ...]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for shares in every:
        for each in shares:
            largest, idle = found.get(each.model, (0, 0))
            found[each.model] = max(largest, each.largest), idle + each.idle
    return found


def _empty(ledgers: Mapping[str, NodeLedger]) -> int:
    return sum(bool(ledger.node.cards) and not ledger.allocations for ledger in ledgers.values())
