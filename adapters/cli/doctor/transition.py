"""How each node gives its cards on the way from device plugins to claims, and what is in the way.

Who has the cards and who advertises them is what ``audit`` reads, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from adapters.cli.audit.audit import of_device_plugins, two_allocators
from adapters.cli.configure.options import Scheduler
from adapters.cli.doctor import cluster
from adapters.cli.doctor.finding import FindingLevel
from adapters.cli.doctor.observed import Observed, scheduler_pods, settings_of
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.fleet.replicas import VOLCANO
from adapters.cli.output.report import MAX_NODE_NAMES, named
from adapters.cli.output.rows import Row, columns, table
from adapters.cli.output.terminal import first_names
from adapters.dialects import registry
from adapters.dialects.device_plugins import plugin_amounts
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.formats.hami_record import HAMI
from adapters.dialects.formats.koordinator_settings import NAME as KOORDINATOR
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.nvidia.keys import NAME as AGENTS_CARDS
from adapters.wire.kube import ConfigMap, full_name, labels
from core.requests.grant import KUBELET

PLUGIN, DIALECT, CLAIMS, NOTHING = "plugin", "dialect", "claims", "nothing"

_NAMES = {
    Scheduler.KUBE: "default-scheduler",
    Scheduler.KOORD: "koord-scheduler",
    Scheduler.VOLCANO: VOLCANO,
}
"""What pods call the schedulers, unless their configuration says otherwise."""

_GATE_OFF = "DynamicResourceAllocation=false"

_SHARES = re.compile(r"(?i)(?:DRAConsumableCapacity|AllAlpha)=(?:1|t|true)\b")
"""Off by default before Kubernetes 1.36; koord-scheduler 1.8.0 is built with 1.35, vc-scheduler
1.14.1 with 1.34. Without it they take the card of several claims for free when one of these ends.
Source: k8s.io/kubernetes v1.35.2 pkg/scheduler/framework/plugins/dynamicresources,
allocateddevices.go."""

_SLICES = "ResourceSlices of "

_SWITCHES = {
    "claims": "dra.enabled is off: the ledgers do not count ResourceClaims",
    "arbiter": "dra.arbiter.enabled is off: nothing refuses a claim the cards of a pod",
    "shadows": "dra.shadows.enabled is off: schedulers of claims do not see the cards of pods",
}


@dataclass(frozen=True, slots=True)
class Advertiser:
    """What advertises cards of a node.

    Attributes:
        kind: ``plugin``, ``dialect`` or ``claims``.
        by: the resource of a device plugin, the dialect, or the driver of the ResourceSlices.
        devices: allocatable ones of a device plugin, or cards.
        total: what there is of them, unhealthy ones and cards of other advertisers included.
        cards: by uuid; a device plugin names none.
    """

    kind: str
    by: str
    devices: int
    total: int
    cards: tuple[str, ...] = ()

    def text(self) -> str:
        """Return it in a few words."""
        what = "device" if self.kind == PLUGIN else "card"
        of = "" if self.devices == self.total else f" of {self.total}"
        return f"{self.by}: {self.devices}{of} {what}{'' if self.total == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Blocker:
    """What is in the way of the next state; nodes with the same text are alike.

    Attributes:
        text: without names.
        names: of pods or cards that it is about.
    """

    text: str
    names: tuple[str, ...] = ()

    def line(self) -> str:
        """Return it with the first names."""
        return ": ".join(filter(None, (self.text, first_names(self.names, MAX_NODE_NAMES))))


@dataclass(frozen=True, slots=True)
class NodeTransition:
    """One node: what advertises its cards, and what is in the way."""

    node: str
    advertisers: tuple[Advertiser, ...]
    blockers: tuple[Blocker, ...]

    @property
    def state(self) -> str:
        """The kinds of its advertisers that have a device, in words."""
        kinds = [*dict.fromkeys(each.kind for each in self.advertisers if each.devices)]
        return " and ".join(filter(None, (", ".join(kinds[:-1]), *kinds[-1:]))) or NOTHING


@dataclass(frozen=True, slots=True)
class Transition:
    """The report.

    Attributes:
        nodes: in order of the input, without those of which nothing says that they have cards.
        others: how many those are.
        everywhere: what is in the way of all nodes.
    """

    nodes: tuple[NodeTransition, ...]
    others: int
    everywhere: tuple[Blocker, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether anything is in the way."""
        return bool(self.everywhere) or any(each.blockers for each in self.nodes)


def transition(
    fleet: Fleet, config_maps: Iterable[ConfigMap], seen: Observed | None = None
) -> Transition:
    """Report each node, and what is in the way of all.

    Args:
        fleet: the nodes and who has their cards.
        config_maps: of the input, among which the service's and vc-scheduler's may be.
        seen: the live cluster; None for files.
    """
    nodes = tuple(filter(None, (_node(*each, fleet.dialects) for each in fleet.nodes.items())))
    found = [*config_maps, *(seen.config_maps.values() if seen else ())]
    everywhere = tuple(dict.fromkeys(_everywhere(fleet, found, seen)))
    return Transition(nodes, len(fleet.nodes) - len(nodes), everywhere)


def _node(name: str, state: NodeState, dialects: Sequence[Dialect]) -> NodeTransition | None:
    advertisers = tuple(_advertisers(state, dialects))
    blockers = tuple(_blockers(name, state, dialects, advertisers))
    has_cards = advertisers or blockers or state.stored or f"{GPU}.present" in labels(state.kube)
    return NodeTransition(name, advertisers, blockers) if has_cards else None


def _advertisers(state: NodeState, dialects: Sequence[Dialect]) -> Iterator[Advertiser]:
    cards = state.node.cards
    by_name = {
        each: tuple(c.uuid for c in cards if each in c.dialects) for each in registry.names()
    }
    own = {name: uuids for name, uuids in by_name.items() if uuids}
    expected: dict[str, int] = {}
    for dialect in dialects:
        if dialect.name in own and dialect.name != AGENTS_CARDS:
            info = registry.named(dialect.name)
            expected |= dict.fromkeys((info.pod_resources if info else frozenset()) - {GPU}, 0)
            expected |= dialect.resources(cards)
    for each in of_device_plugins(state, expected):
        yield Advertiser(PLUGIN, each.name, each.allocatable, each.capacity)
    drivers = {key.removeprefix(_SLICES): tuple(sorted(v)) for key, v in state.sliced.items()}
    for kind, found in ((DIALECT, own), (CLAIMS, drivers)):
        for by, uuids in found.items():
            yield Advertiser(kind, by, len(uuids), max(len(cards), len(uuids)), uuids)


def _blockers(
    name: str, state: NodeState, dialects: Sequence[Dialect], advertisers: Sequence[Advertiser]
) -> Iterator[Blocker]:
    yield from map(Blocker, filter(None, (*state.problems, state.unreadable)))
    kinds = {each.kind for each in advertisers if each.devices}
    sliced = {uuid for each in advertisers if each.kind == CLAIMS for uuid in each.cards}
    described = {uuid for each in advertisers if each.kind == DIALECT for uuid in each.cards}
    if kinds and CLAIMS not in kinds:
        yield Blocker("no ResourceSlice describes its cards")
    elif described - sliced:
        yield Blocker("cards that no ResourceSlice describes", tuple(sorted(described - sliced)))
    twice = [*two_allocators(name, state, dialects)]
    yield from (Blocker(each.text, (each.card,) if each.card else ()) for each in twice)
    plugins = [each.by for each in advertisers if each.kind == PLUGIN and each.devices]
    if plugins and CLAIMS in kinds and not any(_SLICES in each.text for each in twice):
        text = f"{', '.join(plugins)} and ResourceSlices advertise the same cards"
        yield Blocker(f"{text}: the kubelet chooses one that a claim may have")
    if GPU in plugins and state.agent and any(KOORDINATOR in c.dialects for c in state.agent.cards):
        yield Blocker(f"the service writes a card on pods of {GPU}, and the kubelet gives another")
    for each in advertisers:
        if not each.devices:
            text = f"{each.by}: none of {each.total} devices is healthy"
            yield Blocker(f"{text}: its device plugin has ended, or the cards failed")
    holders: dict[str, list[str]] = {}
    held = {uid: each for uid, each in state.ledger.allocations.items() if each.dialect != DRA}
    for one in held.values():
        if one.dialect != KUBELET:
            holders.setdefault(one.dialect, []).append(one.pod)
    for pod in state.pods:
        allocation = held.get(pod.metadata.uid)
        if allocation is None or allocation.dialect == KUBELET:
            with suppress(DialectError):
                if (amounts := plugin_amounts(pod)) or allocation:
                    by = ", ".join(amounts) or "an unknown way"
                    holders.setdefault(by, []).append(full_name(pod))
    for by, pods in holders.items():
        yield Blocker(f"pods with cards by {by}", tuple(sorted(pods)))


def _everywhere(
    fleet: Fleet, config_maps: Sequence[ConfigMap], seen: Observed | None
) -> Iterator[Blocker]:
    services = list(filter(None, (settings_of(each, "sidecar.yaml") for each in config_maps)))
    if not services:
        yield Blocker("no settings of the service can be read: dra.enabled is not known")
    for settings in services:
        section = settings.get("dra")
        switches = section if isinstance(section, dict) else {}
        yield from (Blocker(text) for key, text in _SWITCHES.items() if not switches.get(key))
    if any(HAMI in card.dialects for each in fleet.nodes.values() for card in each.node.cards):
        for name, made in fleet.claims.classes.items():
            if made.spec.extended_resource_name == GPU:
                yield Blocker(f"DeviceClass {name} answers {GPU}: pods of HAMi may get whole cards")
    volcanos = {t for each in config_maps for t in (each.data or {}).values() if "tiers:" in t}
    blind: dict[str, str] = {}
    if volcanos and not any(map(cluster.VOLCANO_ALLOCATES.search, volcanos)):
        blind[VOLCANO] = "without predicate.DynamicResourceAllocationEnable: true"
    are_shared = any(
        each.is_shared for node in fleet.nodes for each in fleet.claims.devices.own(node)
    )
    unaware: set[str] = set()
    for found in scheduler_pods(seen.pods if seen else ()):
        name = _NAMES[found.scheduler]
        words = " ".join(word for each in found.pod.spec.containers for word in each.words)
        if _GATE_OFF in words:
            blind[name] = f"with {_GATE_OFF}"
        elif (
            are_shared
            and found.scheduler is not Scheduler.KUBE
            and name not in blind
            and not _SHARES.search(words)
        ):
            unaware.add(found.scheduler.value)
    for program in sorted(unaware):
        yield Blocker(
            f"{program} (as of Kubernetes 1.35) takes a card for free as soon as one of several"
            " claims on it ends: start it with --feature-gates=DRAConsumableCapacity=true"
        )
    waiting: dict[str, list[str]] = {}
    for pod in fleet.pending():
        if pod.spec.resource_claims:
            scheduler = pod.spec.scheduler_name or _NAMES[Scheduler.KUBE]
            waiting.setdefault(scheduler, []).append(full_name(pod))
    for scheduler in sorted(waiting.keys() & blind.keys()):
        text = f"pods wait with claims for {scheduler}, which allocates none {blind[scheduler]}"
        yield Blocker(text, tuple(waiting[scheduler]))
    checks = (cluster.check_claims, cluster.check_claim_schedulers)
    for each in (each for check in checks if seen for each in check(seen)):
        if each.level is not FindingLevel.OK:
            yield Blocker(f"{each.text}: {each.remedy}")


def as_table(report: Transition) -> str:
    """One line for nodes that are alike, then what is in the way of all nodes."""
    alike: dict[tuple[str, ...], list[NodeTransition]] = {}
    for each in report.nodes:
        texts = (", ".join(one.text() for one in each.advertisers), each.state)
        alike.setdefault((*texts, *(one.text for one in each.blockers)), []).append(each)
    rows: list[Row] = []
    for (advertised, state, *_), nodes in alike.items():
        names = named([each.node for each in nodes])
        lines = tuple(
            Blocker(same[0].text, tuple(dict.fromkeys(n for one in same for n in one.names))).line()
            for same in zip(*(each.blockers for each in nodes), strict=True)
        )
        rows.append(Row(names, (names, state, advertised, "; ".join(lines)), {}, lines))
    text = table(columns("NODE", "STATE", "ADVERTISED BY", "IN THE WAY"), rows) if rows else ""
    everywhere = "".join(f"all nodes: {each.line()}\n" for each in report.everywhere)
    others = f"nodes without cards: {report.others}\n" if report.others else ""
    return "\n".join(filter(None, (text, everywhere + others)))


def as_plain(report: Transition) -> dict[str, object]:
    """Return the ``TransitionReport``, for JSON and YAML."""
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "TransitionReport",
        "everywhere": msgspec.to_builtins(report.everywhere),
        "nodes": [{"state": each.state, **msgspec.to_builtins(each)} for each in report.nodes],
    }
