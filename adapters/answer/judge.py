"""Answers for pods of one cluster. Nothing is placed.

The work is done in steps, so that a service answers its schedulers in between; ``Judge.answer``
does all of them at once.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from adapters.accounting import gang_members
from adapters.accounting.gang_cache import Gang
from adapters.accounting.pod_requests import PodRequest, dialect_name, template_of
from adapters.answer.answer import (
    NO_REASONS,
    ClusterFacts,
    GangAnswer,
    PodAnswer,
    committed,
    scheduler_message,
    standing,
    uncounted_text,
)
from adapters.answer.claims import claim_fit, nodes_by_class, requested, requested_by_class
from adapters.answer.device_plugins import DeviceFit, PluginDevices
from adapters.answer.node_rules import STEP, NodeChoice, NodeChooser, NodeLabels, label_advice
from adapters.dialects.containers import resource_names
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.matching import amounts_of
from adapters.dialects.merge import read_node
from adapters.dialects.registry import node_sources
from adapters.dialects.unread_keys import advice, uncounted
from adapters.wire.kube import KubeNode, Pod
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import NodeNames
from core.feasibility.suitability import is_not_ours
from core.requests.decision import Decision, NodeReasons
from core.requests.gang import GangRef
from core.requests.reason import Cause, Reason
from core.requests.request import Request

T = TypeVar("T")

CLASSES = 25
"""Node classes that are evaluated before other calls run: about ten milliseconds."""

DEVICES = 50
"""Nodes whose devices are counted before other calls run: about five milliseconds."""

ADVISED = 128
"""Kinds of pods whose advice is kept; the oldest is evicted first."""

NOTHING = Decision(None, NO_REASONS)


class Judge:
    """Compares pods with one cluster.

    Node objects and devices of plugins are read once; ledgers and quotas are those of now.

    Attributes:
        facts: of the cluster.
        devices: of plugins; empty until a pod needs them.
    """

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.devices = PluginDevices()
        self._nodes = facts.nodes()
        self._chooser = NodeChooser(self._nodes)
        self._are_devices_read = False
        self._labels: NodeLabels | None = None
        self._advice: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()
        self._undescribed: dict[str, str] = {}
        self._gangs: dict[GangRef, tuple[Hashable, frozenset[str], GangAnswer]] = {}

    def answer(self, pod: Pod) -> PodAnswer:
        """Return the answer about a pod."""
        return finished(self.steps(pod))

    def steps(self, pod: Pod) -> Generator[None, None, PodAnswer]:
        """Return the answer about a pod; it pauses every few milliseconds."""
        answer = yield from self._alone(pod, explain=True)
        gang = self.facts.gang(pod) if answer.waits and answer.found else None
        if gang is None:
            return answer
        # The answer about a gang is the same for its pods until something changes.
        revision, uids = self.facts.revision, frozenset(each.metadata.uid for each in gang.pods)
        known = self._gangs.get(gang.key)
        if known is None or known[:2] != (revision, uids):
            known = self._gangs[gang.key] = revision, uids, (yield from self._planned(gang))
        whole = known[2]
        if not whole.decides:
            return replace(answer, gang=whole)
        uid = pod.metadata.uid
        best, placement = whole.node_of(uid), whole.placed.get(uid)
        message = scheduler_message(pod, self.node(best))
        return replace(answer, gang=whole, best=best, placement=placement, message=message)

    def alone(self, pod: Pod, *, explain: bool = True) -> PodAnswer:
        """Return the answer about a pod, without regard to its gang.

        With ``explain`` it says of every node whether the pod fits, even where it fits one.
        """
        return finished(self._alone(pod, explain=explain))

    def plan(self, gang: Gang) -> GangAnswer:
        """Where the pods of a gang fit together now. Nothing is placed."""
        return finished(self._planned(gang))

    def _alone(self, pod: Pod, *, explain: bool) -> Generator[None, None, PodAnswer]:
        template = template_of(pod)
        hints = self._advice.get(template)
        if hints is None:  # computed once for pods alike but for name and uid
            hints = self._advice[template] = advice(pod, self.facts.dialects)
            if len(self._advice) > ADVISED:
                self._advice.popitem(last=False)
        try:
            found = self.facts.read(pod)
            amounts = {} if found is None else amounts_of(pod, found.request)
        except DialectError as error:
            name = dialect_name(pod, self.facts.dialects)
            return PodAnswer(pod, standing(self.facts, pod, ""), name, str(error), notes=hints)
        asked = None if pod.spec.node_name else requested(pod, self.facts.claims)
        claims = None
        if asked is not None:
            choice = yield from self._chooser.steps(pod)
            claims = yield from claim_fit(pod, asked, self.facts, choice.selection.names)
            reasons = claims.reasons.followed_by(choice.excluded)
            if found is None:
                best = next(iter(claims.fitting), None)
                return PodAnswer(
                    pod,
                    standing(self.facts, pod, ""),
                    DRA,
                    best=best,
                    fitting=claims.fitting,
                    rejected=reasons,
                    excluded=choice.excluded,
                    claims=claims,
                    notes=hints,
                    message=scheduler_message(pod, self.node(best)),
                )
            claims = replace(claims, is_sure=False)  # its share and devices may be of one card
            choice = NodeChoice(NodeNames(claims.fitting), reasons)
        elif found is None:
            others = uncounted(resource_names(pod), self.facts.dialects)
            own = standing(self.facts, pod, uncounted_text(others) if others else "")
            return PodAnswer(pod, own, uncounted=others, notes=hints)
        else:
            choice = yield from self._chooser.steps(pod)
        request = found.request
        if amounts:
            yield from self._read_devices()
        made = requested_by_class(pod, amounts, self.facts.claims)
        claimed: dict[str, None] = {}
        if made is not None:
            allowed = choice.selection.names
            claimed = nodes_by_class(amounts, self.facts.claims, self._nodes, allowed)
            choice = replace(choice, selection=NodeNames(n for n in allowed if n not in claimed))
        devices = self.devices.fit(request, amounts, choice.selection.names)
        if claimed and devices is None:
            devices = DeviceFit(amounts, (), NO_REASONS)
        names, broken = self._readable(_with_cards(self.devices, choice.selection, devices))
        free = () if devices is None else devices.fitting
        if explain:
            evaluation = yield from self._prepared(request, names)
        else:
            evaluation = self.facts.evaluate(request)
        # Where devices are free and nothing has to be said of the nodes, no card is looked at.
        decision = NOTHING if free and not explain else evaluation.decide(names, explain=explain)
        placement = None if free else decision.placement
        best = free[0] if free else None if placement is None else placement.node
        rejected = NO_REASONS
        fitting: tuple[str, ...] = () if best is None else (best,)
        if explain or best is None:
            fitting = (*free, *_others(names.names, decision.reasons))
            of_devices = NO_REASONS if devices is None else devices.reasons
            rejected = of_devices.followed_by(decision.reasons).followed_by(broken)
            rejected = rejected.followed_by(choice.excluded)
            rejected = rejected.detailed(Cause.NO_CARDS, self._describer(request))
            if made is not None:
                by_claim = yield from claim_fit(pod, made, self.facts, [*claimed])
                claims = claims or by_claim
                fitting = (*fitting, *by_claim.fitting)
                rejected = by_claim.reasons.followed_by(rejected)
                best = next(iter(fitting), None) if best is None else best
        if not fitting:  # a name may be misspelled
            if self._labels is None:
                labels = NodeLabels()
                for number, node in enumerate(self._nodes.values(), start=1):
                    labels.add(node)
                    if number % STEP == 0:
                        yield
                self._labels = labels
            hints = (*hints, *label_advice(pod, self._labels))
        return PodAnswer(
            pod,
            standing(self.facts, pod, ""),
            found.dialect.name,
            None,
            found,
            placement,
            names,
            best,
            fitting,
            rejected,
            choice.excluded,
            devices,
            claims,
            (),
            (*request.notes, *hints),
            scheduler_message(pod, self.node(best)),
        )

    def _describer(self, request: Request) -> Callable[[str], str]:
        """Return what says why a node's description gives no card; empty without a description."""
        sources = node_sources({request.dialect, *request.alternatives})
        keys = {each.removeprefix("annotation ") for each in sources}

        def why(name: str) -> str:
            node = self._nodes.get(name)
            found = keys.intersection((node and node.metadata.annotations) or ())
            if node is None or not found:
                return ""
            if name not in self._undescribed:
                problems = (*read_node(node, None, self.facts.dialects)[1], "")
                self._undescribed[name] = problems[0].removeprefix(f"node {name}: ")
            return self._undescribed[name] or f"annotation {min(found)} lists no cards"

        return why

    def node(self, name: str | None) -> KubeNode | None:
        """Return a node; None where there is no such node."""
        return None if name is None else self._nodes.get(name)

    def fitting(
        self, request: Request, amounts: Mapping[str, int], names: NodeNames
    ) -> tuple[str, ...]:
        """Which of some nodes a request fits, whatever their objects say."""
        devices = self.devices.fit(request, amounts, names.names)
        names, _ = self._readable(_with_cards(self.devices, names, devices))
        fitting = _others(names.names, self.facts.evaluate(request).explain(names))
        return fitting if devices is None else (*devices.fitting, *fitting)

    def _planned(self, gang: Gang) -> Generator[None, None, GangAnswer]:
        members = gang_members.members_of(
            gang, lambda uid: bool(committed(self.facts, uid)), self.facts.read
        )
        served = [*self._served(members)]
        placed = members.placed.difference(each.request.uid for each, _ in served)
        members = replace(members, placed=placed)
        plugged = [(each, amounts) for each, amounts in served if amounts]
        if not members.lacks():
            return GangAnswer(members)
        missing = gang_members.too_few(gang)
        if missing is not None:
            return GangAnswer(members, missing)
        if plugged:
            yield from self._read_devices()
        choices: dict[str, NodeNames] = {}
        for each in (*members.waiting, *(each for each, _ in plugged)):
            choice = yield from self._chooser.steps(each.pod)
            choices[each.request.uid] = choice.selection
        devices = self._with_devices(plugged, choices)
        rest = [each for each, _ in plugged if each.request.uid not in devices]
        members = replace(members, waiting=(*members.waiting, *rest))
        kinds = members.kinds()
        if len(kinds) > gang_members.KINDS:
            return GangAnswer(members, gang_members.too_many(gang, gang_members.KINDS))
        for alike in kinds.values():
            yield
            self.facts.evaluate(alike[0].request).ranks(self.facts.inventory.rows())
        plan = members.plan(
            lambda _, request: self.facts.evaluate(request),
            lambda each: choices[each.request.uid],
            self.facts.over_quota,
        )
        lacks = members.lacks({*plan.placed, *devices})
        if not lacks:
            return GangAnswer(members, "", plan.placed, devices)
        plan = replace(plan, is_best=plan.is_best and not plugged)  # one order of devices was tried
        for each in members.waiting:
            if each.request.pod == plan.short:  # a plan knows no devices, and no excluded nodes
                answer = yield from self._alone(each.pod, explain=True)
                plan = replace(plan, reason=answer.text()) if answer.fits_nowhere else plan
        return GangAnswer(members, gang_members.together(gang, lacks, plan))

    def _served(
        self, members: gang_members.GangMembers
    ) -> Iterator[tuple[PodRequest, Mapping[str, int]]]:
        """Return the pods of a gang that wait for devices; none where these are invalid."""
        for pod in members.gang.pods:
            uid = pod.metadata.uid
            if uid not in members.placed or pod.spec.node_name or committed(self.facts, uid):
                continue
            found = self.facts.read(pod)
            if found is not None:
                try:
                    yield found, amounts_of(pod, found.request)
                except DialectError:
                    yield found, {}

    def _with_devices(
        self,
        plugged: Iterable[tuple[PodRequest, Mapping[str, int]]],
        choices: dict[str, NodeNames],
    ) -> Mapping[str, str]:
        """Return the nodes of pods whose devices are free, one after the other; nothing is taken.

        ``choices`` are the nodes on which a pod may run, by uid. Those that have no cards for a pod
        of a device plugin are dropped.
        """
        nodes: dict[str, str] = {}
        taken: list[tuple[str, Mapping[str, int]]] = []
        for each, amounts in plugged:
            uid = each.request.uid
            devices = self.devices.fit(each.request, amounts, choices[uid].names)
            if devices is not None and devices.fitting:
                nodes[uid] = devices.fitting[0]
                self.devices.take(nodes[uid], amounts)
                taken.append((nodes[uid], amounts))
            else:
                choices[uid] = _with_cards(self.devices, choices[uid], devices)
        for node, amounts in taken:
            self.devices.take(node, {resource: -amount for resource, amount in amounts.items()})
        return nodes

    def _prepared(
        self, request: Request, names: NodeNames
    ) -> Generator[None, None, NodeEvaluation]:
        """Return the evaluation of now, with a result for each of the nodes."""
        revision, evaluation = self.facts.revision, self.facts.evaluate(request)
        while not evaluation.prepare(names.rows(self.facts.inventory), CLASSES):
            yield
            if self.facts.revision != revision:
                revision = self.facts.revision
                evaluation = self.facts.evaluate(request).continued(evaluation)
        return evaluation

    def _read_devices(self) -> Generator[None, None, None]:
        if self._are_devices_read:
            return
        devices = PluginDevices()
        for number, node in enumerate(self._nodes.values(), start=1):
            name = node.metadata.name
            ledger, pods = self.facts.inventory.get(name), partial(self.facts.pods_on, name)
            if ledger is None:
                devices.add(node, (), pods, is_undescribed=name not in self.facts.unreadable())
            else:
                devices.add(node, ledger.node.cards, pods, is_undescribed=is_not_ours(ledger))
            if number % DEVICES == 0:
                yield
        self.devices, self._are_devices_read = devices, True

    def _readable(self, names: NodeNames) -> tuple[NodeNames, NodeReasons]:
        """Return the nodes whose ledgers can be read, and why the others' cannot."""
        problems = self.facts.unreadable()
        broken = [name for name in names.names if name in problems] if problems else []
        if not broken:
            return names, NO_REASONS
        reasons = {
            name: Reason("", 0, cause=Cause.BLOCKED, detail=problems[name]) for name in broken
        }
        return NodeNames(n for n in names.names if n not in reasons), NodeReasons.of(reasons)


def finished(steps: Generator[None, None, T]) -> T:
    """Return the result of work in steps, done at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _with_cards(devices: PluginDevices, names: NodeNames, fit: DeviceFit | None) -> NodeNames:
    return names if fit is None else NodeNames(devices.with_cards(names.names, fit))


def _others(names: tuple[str, ...], reasons: NodeReasons) -> tuple[str, ...]:
    if len(names) == len(reasons):
        return ()
    rejected = frozenset(reasons.names)
    return tuple(name for name in names if name not in rejected)
