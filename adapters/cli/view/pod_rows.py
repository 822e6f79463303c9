"""``top pods``, ``top namespaces`` and ``who``: which pods have which cards."""

from collections import Counter
from dataclasses import replace
from itertools import chain

from adapters.answer.device_plugins import DeviceUser, devices_text
from adapters.cli.fleet.facts import counted, plugin_devices, requests_cards
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.input.source import InputError
from adapters.cli.output.amounts import compute_of, gib, memory_of, percent, used, used_fields
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import Listing, elsewhere, in_namespaces
from adapters.cli.view.plugin_rows import device_users, uncounted_nodes
from adapters.wire.agent_report import AgentReports, Use, total
from adapters.wire.kube import pod_ref
from adapters.wire.records.quota import limited_amounts
from core.hardware.card import Card
from core.hardware.quantity import MIB
from core.ledger.usage import CardShare
from core.quota.amounts import text
from core.quota.quota import Quota
from core.requests.grant import Allocation

_PODS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("DIALECT"),
    Column("NODE"),
    Column("CARDS", right=True),
    Column("GRANTED(GiB)", right=True),
    Column("COMPUTE", right=True),
    Column("USED(GiB)", wide=True, right=True),
    Column("USED-COMPUTE", wide=True, right=True),
    Column("PRIORITY", wide=True, right=True),
    Column("UUIDS", wide=True),
    Column("NOTE", wide=True),
)

_POD_KEYS = (
    "namespace", "pod", "dialect", "node", "cards", "grantedMiB", "compute", "priority", "note",
    "usedMiB", "usedCompute",
)  # fmt: skip

_NAMESPACES = (
    Column("NAMESPACE"),
    Column("PODS", right=True),
    Column("PENDING", right=True),
    Column("CARDS", right=True),
    Column("GRANTED(GiB)", right=True),
    Column("COMPUTE", right=True),
    Column("DEVICES"),
    Column("QUOTA"),
    Column("USED(GiB)", wide=True, right=True),
    Column("USED-COMPUTE", wide=True, right=True),
    Column("DIALECTS", wide=True),
)

_NAMESPACE_KEYS = (
    "namespace", "pods", "pending", "cards", "grantedMiB", "compute", "devices", "quota",
    "dialects", "usedMiB", "usedCompute",
)  # fmt: skip

_SHARES = (
    Column("CARD", right=True),
    Column("NAMESPACE"),
    Column("POD"),
    Column("DIALECT"),
    Column("GRANTED(GiB)", right=True),
    Column("COMPUTE", right=True),
    Column("CONTAINERS"),
    Column("UUID", wide=True),
    Column("NOTE", wide=True),
)

_SHARE_KEYS = (
    "card", "namespace", "pod", "dialect", "grantedMiB", "compute", "containers", "uuid", "note",
)  # fmt: skip


def top_pods(fleet: Fleet, namespace: str | None) -> Listing:
    """Return one row for each pod with cards; ``cards`` counts different ones."""
    rows = [
        _pod_row(state, allocation, fleet.agents.pod(name, allocation.pod))
        for name, state in fleet.nodes.items()
        for allocation in state.ledger.allocations.values()
    ]
    chosen = in_namespaces(rows, namespace)
    every = device_users(fleet)
    further = replace(every, rows=in_namespaces(every.rows, namespace))
    shown = len(chosen) + len(further.rows)
    others = len(rows) + len(every.rows) - shown
    notes: tuple[str, ...] = ()
    if not shown:
        notes = (elsewhere("no pods have cards", namespace, others),)
    return Listing("PodList", _PODS, chosen, _POD_KEYS, further, notes, others)


def top_namespaces(fleet: Fleet) -> Listing:
    """Return one row for each namespace with a quota, or pods that have or want cards.

    Pods with devices of a device plugin count too; only the kubelet knows their cards.
    """
    allocations: dict[str, list[Allocation]] = {}
    for state in fleet.nodes.values():
        for allocation in state.ledger.allocations.values():
            allocations.setdefault(allocation.pod_ref.namespace, []).append(allocation)
    users: dict[str, list[DeviceUser]] = {}
    for user in chain.from_iterable(plugin_devices(fleet).users.values()):
        users.setdefault(pod_ref(user.pod).namespace, []).append(user)
    pending: dict[str, int] = {}
    for pod in fleet.pending():
        if requests_cards(pod, fleet.dialects):
            name = pod.metadata.namespace or "default"
            pending[name] = pending.get(name, 0) + 1
    quotas = counted(fleet.quotas, (state.ledger for state in fleet.nodes.values()))
    rows = [
        _namespace_row(
            name, allocations.get(name, []), users.get(name, []), pending.get(name, 0),
            quotas.get(name), fleet.agents,
        )
        for name in sorted({*allocations, *users, *pending, *quotas})
    ]  # fmt: skip
    return Listing("NamespaceList", _NAMESPACES, tuple(rows), _NAMESPACE_KEYS)


def who(fleet: Fleet, place: str) -> Listing:
    """Return the shares of a node's cards, or of one card.

    Args:
        fleet: the cluster.
        place: ``NODE`` or ``NODE/CARD``; a card by its index or uuid.

    Raises:
        InputError: there is no such node or card.
    """
    name, _, wanted = place.partition("/")
    state = fleet.nodes.get(name)
    if state is None:
        known = ", ".join(sorted(fleet.nodes)[:20]) or "none"
        raise InputError(place, f"no node {name!r}; nodes: {known}")
    cards = [card for card in state.node.cards if wanted in ("", str(card.index), card.uuid)]
    if wanted and not cards:
        known = ", ".join(f"{card.index} ({card.uuid})" for card in state.node.cards) or "none"
        raise InputError(place, f"node {name} has no card {wanted!r}; cards: {known}")
    rows = [
        _share_row(card, share, state.ledger.allocations[share.uid])
        for card, use in zip(state.node.cards, state.ledger.usages, strict=True)
        if card in cards
        for share in use.shares
    ]
    further = None if wanted else device_users(fleet, name)
    notes = uncounted_nodes(fleet, name)
    return Listing("ShareList", _SHARES, tuple(rows), _SHARE_KEYS, further, notes)


def _pod_row(state: NodeState, allocation: Allocation, in_use: Use) -> Row:
    ref = allocation.pod_ref
    uuids = sorted(allocation.cards)
    memory, compute = memory_of(allocation), compute_of(allocation)
    note = allocation.unread or ""
    return Row(
        f"pod/{ref.name}",
        (
            ref.namespace, ref.name, allocation.dialect, state.node.name, str(len(uuids)),
            gib(memory), percent(compute), *used(in_use), str(allocation.priority),
            ",".join(uuids), note,
        ),
        {
            "namespace": ref.namespace, "pod": ref.name, "dialect": allocation.dialect,
            "node": state.node.name, "cards": len(uuids), "grantedMiB": memory // MIB,
            "compute": compute, "priority": allocation.priority, "uuids": uuids, "note": note,
            **used_fields(in_use),
        },
    )  # fmt: skip


def _namespace_row(
    name: str,
    allocations: list[Allocation],
    users: list[DeviceUser],
    pending: int,
    quota: Quota | None,
    agents: AgentReports,
) -> Row:
    in_use = total(agents.pod(each.node, each.pod) for each in allocations)
    cards = sum(len(each.cards) for each in allocations)
    memory = sum(map(memory_of, allocations))
    compute = sum(map(compute_of, allocations))
    devices = Counter[str]()
    for user in users:
        devices.update(user.amounts)
    pods = len(allocations) + len(users)
    dialects = sorted({each.dialect for each in allocations})
    return Row(
        f"namespace/{name}",
        (
            name, str(pods), str(pending), str(cards), gib(memory), percent(compute),
            devices_text(devices), _quota_text(quota), *used(in_use), ",".join(dialects),
        ),
        {
            "namespace": name, "pods": pods, "pending": pending, "cards": cards,
            "grantedMiB": memory // MIB, "compute": compute, "devices": dict(devices),
            "quota": None if quota is None else limited_amounts(quota),
            "dialects": dialects, **used_fields(in_use),
        },
    )  # fmt: skip


def _quota_text(quota: Quota | None) -> str:
    """Return used and limit of each resource, such as ``cards 1.5 of 2, memory 20 of 24 GiB``."""
    if quota is None:
        return ""
    return ", ".join(
        f"{name} {text(name, amount)} of {text(name, limit)}"
        for name, limit, amount in quota.bounds.with_amounts(quota.used())
        if limit is not None
    )


def _share_row(card: Card, share: CardShare, owner: Allocation) -> Row:
    ref = owner.pod_ref
    containers = sorted({g.container or "*" for g in owner.grants if g.card == card.uuid})
    note = owner.unread or ""
    memory = "all" if share.blocked else gib(share.memory)
    return Row(
        f"pod/{ref.name}",
        (
            str(card.index), ref.namespace, ref.name, owner.dialect, memory, percent(share.compute),
            ",".join(containers), card.uuid, note,
        ),
        {
            "card": card.index, "namespace": ref.namespace, "pod": ref.name,
            "dialect": owner.dialect,
            "grantedMiB": (card.memory if share.blocked else share.memory) // MIB,
            "compute": share.compute, "containers": containers, "uuid": card.uuid, "note": note,
        },
    )  # fmt: skip
