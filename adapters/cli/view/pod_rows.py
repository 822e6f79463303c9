"""``top pods``, ``top namespaces`` and ``who``: which pods have which cards."""

from collections import Counter
from dataclasses import replace
from itertools import chain

from msgspec import to_builtins

from adapters.answer.device_plugins import DeviceUser, devices_text
from adapters.answer.rows import held_pod, held_shares
from adapters.cli.fleet.facts import counted, plugin_devices, requests_cards
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.source import InputError
from adapters.cli.output.rows import Row, columns
from adapters.cli.view.listing import Listing, elsewhere, in_namespaces
from adapters.cli.view.node_rows import device_users, uncounted_nodes, used, used_fields
from adapters.wire.agent_report import Use, total
from adapters.wire.kube import pod_ref
from adapters.wire.records.quota import limited_amounts
from adapters.wire.records.tenant import HeldPod, PodShare
from core.hardware.quantity import MIB
from core.hardware.quantity import format_gib as gib
from core.quota.amounts import text
from core.requests.grant import Allocation

PODS = (
    *columns("NAMESPACE", "POD", "DIALECT", "NODE"),
    *columns("CARDS", "GRANTED(GiB)", "COMPUTE", right=True),
    *columns("USED(GiB)", "USED-COMPUTE", "PRIORITY", wide=True, right=True),
    *columns("UUIDS", "NOTE", wide=True),
)

POD_KEYS = (
    "namespace", "pod", "dialect", "node", "cards", "grantedMiB", "compute", "priority", "note",
    "usedMiB", "usedCompute",
)  # fmt: skip

_NAMESPACES = (
    *columns("NAMESPACE"),
    *columns("PODS", "PENDING", "CARDS", "GRANTED(GiB)", "COMPUTE", right=True),
    *columns("DEVICES", "QUOTA"),
    *columns("USED(GiB)", "USED-COMPUTE", wide=True, right=True),
    *columns("DIALECTS", wide=True),
)

_NAMESPACE_KEYS = (
    "namespace", "pods", "pending", "cards", "grantedMiB", "compute", "devices", "quota",
    "dialects", "usedMiB", "usedCompute",
)  # fmt: skip

SHARES = (
    *columns("CARD", right=True),
    *columns("NAMESPACE", "POD", "DIALECT"),
    *columns("GRANTED(GiB)", "COMPUTE", right=True),
    *columns("CONTAINERS"),
    *columns("UUID", "NOTE", wide=True),
)

SHARE_KEYS = (
    "card", "namespace", "pod", "dialect", "grantedMiB", "compute", "containers", "uuid", "note",
)  # fmt: skip


def top_pods(fleet: Fleet, namespace: str | None) -> Listing:
    """Return one row for each pod with cards; ``cards`` counts different ones."""
    rows = [
        pod_row(held_pod(held, fleet.claims), fleet.agents.pod(name, held.pod))
        for name, state in fleet.nodes.items()
        for held in state.ledger.allocations.values()
    ]
    chosen = in_namespaces(rows, namespace)
    every = device_users(fleet)
    further = replace(every, rows=in_namespaces(every.rows, namespace))
    shown = len(chosen) + len(further.rows)
    others = len(rows) + len(every.rows) - shown
    notes = () if shown else (elsewhere("no pods have cards", namespace, others),)
    return Listing("PodList", PODS, chosen, POD_KEYS, further, notes, others)


def pod_row(held: HeldPod, in_use: Use) -> Row:
    """Return the row of a pod with shares."""
    compute = f"{held.compute}%" if held.compute else ""
    cells = (
        held.namespace, held.pod, held.dialect, held.node, str(held.cards),
        gib(held.granted_mib * MIB), compute, *used(in_use), str(held.priority),
        ",".join(held.uuids), held.note,
    )  # fmt: skip
    return Row(f"pod/{held.pod}", cells, {**to_builtins(held), **used_fields(in_use)})


def top_namespaces(fleet: Fleet) -> Listing:
    """Return one row for each namespace with a quota, or pods that have or want cards.

    Pods with devices of a device plugin count too; only the kubelet knows their cards.
    """
    held: dict[str, list[Allocation]] = {}
    for state in fleet.nodes.values():
        for allocation in state.ledger.allocations.values():
            held.setdefault(allocation.pod_ref.namespace, []).append(allocation)
    users: dict[str, list[DeviceUser]] = {}
    for user in chain.from_iterable(plugin_devices(fleet).users.values()):
        users.setdefault(pod_ref(user.pod).namespace, []).append(user)
    waiting = [pod for pod in fleet.pending() if requests_cards(pod, fleet.dialects)]
    pending = Counter(pod_ref(pod).namespace for pod in waiting)
    quotas = counted(fleet.quotas, (state.ledger for state in fleet.nodes.values()))
    rows: list[Row] = []
    for name in sorted({*held, *users, *pending, *quotas}):
        having, using, quota = held.get(name, []), users.get(name, []), quotas.get(name)
        in_use = total(fleet.agents.pod(each.node, each.pod) for each in having)
        pods, cards = len(having) + len(using), sum(len(each.cards) for each in having)
        grants = [grant for allocation in having for grant in allocation.grants]
        memory, compute = sum(g.memory for g in grants), sum(g.compute for g in grants)
        devices = Counter[str]()
        for user in using:
            devices.update(user.amounts)
        dialects = sorted({each.dialect for each in having})
        bounds = () if quota is None else quota.bounds.with_amounts(quota.used())
        limits = ", ".join(
            f"{kind} {text(kind, amount)} of {text(kind, limit)}"
            for kind, limit, amount in bounds
            if limit is not None
        )
        cells = (
            name, str(pods), str(pending[name]), str(cards), gib(memory), f"{compute}%",
            devices_text(devices), limits, *used(in_use), ",".join(dialects),
        )  # fmt: skip
        fields = {
            "namespace": name, "pods": pods, "pending": pending[name], "cards": cards,
            "grantedMiB": memory // MIB, "compute": compute, "devices": dict(devices),
            "quota": None if quota is None else limited_amounts(quota),
            "dialects": dialects, **used_fields(in_use),
        }  # fmt: skip
        rows.append(Row(f"namespace/{name}", cells, fields))
    return Listing("NamespaceList", _NAMESPACES, tuple(rows), _NAMESPACE_KEYS)


def _split(fleet: Fleet, place: str) -> tuple[str, str]:
    """Return the node that a place names, and the card; empty for all of its cards."""
    for name, state in fleet.nodes.items():
        if any(card.uuid == place for card in state.node.cards):
            return name, place
    name, _, wanted = place.partition("/" if "/" in place else ":")
    return name, wanted


def who(fleet: Fleet, place: str) -> Listing:
    """Return the shares of the cards of ``NODE``, or of one: ``NODE/CARD``, ``NODE:CARD``, a uuid.

    Raises:
        InputError: there is no such node or card.
    """
    name, wanted = _split(fleet, place)
    state = fleet.nodes.get(name)
    if state is None:
        known = ", ".join(sorted(fleet.nodes)[:20]) or "none"
        raise InputError(place, f"no node {name!r}; nodes: {known}")
    shares = held_shares(state.ledger, wanted, fleet.claims)
    if shares is None:
        known = ", ".join(f"{card.index} ({card.uuid})" for card in state.node.cards) or "none"
        raise InputError(place, f"node {name} has no card {wanted!r}; cards: {known}")
    further = None if wanted else device_users(fleet, name)
    notes = uncounted_nodes(fleet, name)
    rows = tuple(map(share_row, shares))
    return Listing("ShareList", SHARES, rows, SHARE_KEYS, further, notes)


def share_row(share: PodShare) -> Row:
    """Return the row of a share."""
    cells = (
        str(share.card), share.namespace, share.pod, share.dialect,
        "all" if share.all else gib(share.granted_mib * MIB),
        f"{share.compute}%" if share.compute else "",
        ",".join(share.containers), share.uuid, share.note,
    )  # fmt: skip
    fields = to_builtins(share)
    del fields["all"]
    return Row(f"pod/{share.pod}", cells, fields)
