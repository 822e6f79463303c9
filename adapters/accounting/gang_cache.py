"""The gangs of a cluster: which pods there are of each, and how many are bound together."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from adapters.dialects.adoption import FINISHED
from adapters.dialects.containers import names_extended_resource
from adapters.dialects.gangs import TASK, any_gang_of, others, rule_of, task_of
from adapters.dialects.volcano.keys import GROUP_NAMES
from adapters.wire.kube import Metadata, Pod, PodSpec, PodStatus, UnreadPod, annotations
from adapters.wire.kube_policy import PodGroupObject
from core.requests.gang import GangApi, GangRef, GangRule

NO_POD: Mapping[str, Pod] = {}


@dataclass(frozen=True, slots=True)
class GangPart:
    """One of the gangs that are bound together; most are alone.

    Attributes:
        ref: its name.
        minimum: pods that are bound together, or none.
        pods: those that exist, are not being deleted and have no scheduling gate. Those that have
            ended are among them only while another one that is bound goes on: pods that are made
            again after all have ended are bound together again.
        tasks: pods of each of Volcano's tasks that are among the minimum, by name of the task.
    """

    ref: GangRef
    minimum: int
    pods: tuple[Pod, ...]
    tasks: Mapping[str, int] = field(default_factory=dict[str, int])

    def lacks(self, uids: frozenset[str]) -> int:
        """Return how many pods more than some must be placed before one may be bound."""
        placed = [pod for pod in self.pods if pod.metadata.uid in uids]
        of_tasks = 0
        if self.tasks:
            found = Counter(map(task_of, placed))
            of_tasks = sum(max(0, least - found[task]) for task, least in self.tasks.items())
        return max(0, self.minimum - len(placed), of_tasks)


@dataclass(frozen=True, slots=True)
class Gang:
    """Gangs that are bound together.

    Attributes:
        ref: the one that was asked for.
        parts: all of them, in the order of their names.
    """

    ref: GangRef
    parts: tuple[GangPart, ...]

    @property
    def key(self) -> GangRef:
        """A name that gangs have in common that are bound together."""
        return self.parts[0].ref

    @property
    def minimum(self) -> int:
        """The pods that are bound together, of all parts."""
        return sum(part.minimum for part in self.parts)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of all parts."""
        return tuple(pod for part in self.parts for pod in part.pods)

    def lacks(self, uids: frozenset[str]) -> int:
        """Return how many pods more than some must be placed before one may be bound."""
        return sum(part.lacks(uids) for part in self.parts)


@dataclass(frozen=True, slots=True)
class DisruptedTogether:
    """Pods of a group that may only be evicted all or not at all.

    Attributes:
        priority: of the group, or of the pod with the highest one.
        pods: those that are bound, of all nodes, and are not being deleted.
    """

    priority: int
    pods: tuple[Pod, ...]


class GangCache:
    """Pods that name a gang, and the objects that describe gangs, as the watches report them.

    Attributes:
        revision: number of changes to any gang.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._rules: dict[GangRef, GangRule] = {}
        self._together: dict[GangRef, int] = {}
        self._pods: dict[GangRef, dict[str, Pod]] = {}
        self._ref_of: dict[str, GangRef] = {}
        self._rule_of: dict[str, GangRule] = {}
        self._gangs: dict[GangRef, Gang | None] = {}

    def put(self, pod: Pod) -> None:
        """Add or replace a pod."""
        uid, ref = pod.metadata.uid, any_gang_of(pod)
        if ref is None or not _counts(pod):
            self.drop(uid)
            return
        # Others need no cards any more, or none at all.
        may_wait = not pod.spec.node_name and (
            isinstance(pod, UnreadPod) or names_extended_resource(pod)
        )
        kept = pod if may_wait else _bare(pod, ref)
        if self._ref_of.get(uid) == ref and self._pods[ref][uid] == kept:
            return
        self.drop(uid)
        self._change(ref)
        self._ref_of[uid] = ref
        rule = rule_of(pod) if ref.api is GangApi.KOORDINATOR else None
        if rule is not None:
            self._rule_of[uid] = rule
        self._pods.setdefault(ref, {})[uid] = kept

    def drop(self, uid: str) -> None:
        """Remove a deleted pod."""
        self._rule_of.pop(uid, None)
        ref = self._ref_of.pop(uid, None)
        if ref is not None:
            self._change(ref)
            pods = self._pods[ref]
            del pods[uid]
            if not pods:
                del self._pods[ref]

    def put_group(self, api: GangApi, group: PodGroupObject) -> None:
        """Add or replace the object of a gang; one without a number of pods describes none."""
        ref = GangRef(api, group.metadata.namespace, group.metadata.name)
        self._change(ref)
        if group.minimum:
            others_of = others(group.metadata.annotations or {})
            self._rules[ref] = GangRule(group.minimum, others_of, group.tasks)
        else:
            self._rules.pop(ref, None)
        if group.disrupted_together:
            self._together[ref] = group.spec.priority or 0
        else:
            self._together.pop(ref, None)

    def drop_group(self, ref: GangRef) -> None:
        """Remove a deleted object."""
        self._change(ref)
        self._rules.pop(ref, None)
        self._together.pop(ref, None)

    def gang(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod, None also for Volcano's, which vc-scheduler binds itself."""
        found = self.any_gang(pod)
        return None if found is None or found.ref.api is GangApi.VOLCANO else found

    def any_gang(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod with all its pods; None where it may be bound alone.

        Gangs are bound together where each names the other: no one can add the pods of another
        namespace to a gang without its consent.

        Args:
            pod: counts as one of them also where no watch has reported it yet.
        """
        ref = any_gang_of(pod)
        if ref is None:
            return None
        if self._ref_of.get(pod.metadata.uid) != ref:
            return self._gang(ref, {pod.metadata.uid: pod, **self._pods.get(ref, NO_POD)})
        if ref not in self._gangs:
            self._gangs[ref] = self._gang(ref, self._pods[ref])
        return self._gangs[ref]

    def _change(self, ref: GangRef) -> None:
        self.revision += 1
        if (
            ref.api is GangApi.VOLCANO
        ):  # bound together with no other, and of most pods of a cluster
            self._gangs.pop(ref, None)
        else:
            self._gangs.clear()

    def bound_in_part(self) -> Iterator[Gang]:
        """Return the gangs of which pods are bound, and fewer than are bound together.

        Those that are bound together are one.
        """
        known: set[GangRef] = set()
        for ref, pods in [*self._pods.items()]:
            if min(self._rules_of(ref, pods), key=str, default=ref) in known:
                continue
            gang = self.gang(next(iter(pods.values())))
            if gang is not None:
                known.add(gang.key)
                bound = frozenset(pod.metadata.uid for pod in gang.pods if pod.spec.node_name)
                if bound and gang.lacks(bound):
                    yield gang

    def disrupted_with(self, uid: str) -> DisruptedTogether | None:
        """Return the pods that are evicted with a pod, itself included; None where it goes alone.

        Source: kubernetes 1.37.1 pkg/scheduler/framework/preemption/types.go; the mode of a
        CompositePodGroup, which is alpha, is not read.
        """
        ref = self._ref_of.get(uid)
        priority = None if ref is None else self._together.get(ref)
        if ref is None or priority is None:
            return None
        bound = tuple(
            pod for pod in self._pods[ref].values() if pod.spec.node_name and not _ended(pod)
        )
        highest = max((pod.spec.priority or 0 for pod in bound), default=priority)
        return DisruptedTogether(max(priority, highest), bound)

    def unbound(self, namespace: str) -> Iterator[Pod]:
        """Return the pods of a namespace that name a gang, none of Volcano, and are not bound."""
        for ref, pods in self._pods.items():
            if ref.namespace == namespace and ref.api is not GangApi.VOLCANO:
                yield from (pod for pod in pods.values() if not pod.spec.node_name)

    def _gang(self, ref: GangRef, pods: Mapping[str, Pod]) -> Gang | None:
        """Return the gang of a name, with its pods."""
        rules = self._rules_of(ref, pods)
        if not rules:
            return None
        all_pods = {each: self._pods.get(each, NO_POD) for each in rules} | {ref: pods}
        parts = tuple(
            GangPart(each, rule.minimum, _going_on(all_pods[each].values()), rule.tasks)
            for each, rule in sorted(rules.items(), key=lambda item: str(item[0]))
        )
        gang = Gang(ref, parts)
        return gang if gang.minimum > 1 else None

    def _rules_of(self, ref: GangRef, pods: Mapping[str, Pod]) -> Mapping[GangRef, GangRule]:
        """Return the rules of all gangs that are bound together with one; none where it is none."""
        rule = self._rule(ref, pods)
        if rule is None:
            return {}
        found = {ref: rule}
        for other in rule.others - {ref}:
            mutual = self._rule(other, self._pods.get(other, NO_POD))
            if mutual is not None and ref in mutual.others:
                found[other] = mutual
        return found

    def _rule(self, ref: GangRef, pods: Mapping[str, Pod]) -> GangRule | None:
        """Return what the object of a gang says, or else one of its pods."""
        rule = self._rules.get(ref)
        if rule is not None or ref.api is not GangApi.KOORDINATOR:
            return rule
        known = (self._rule_of.get(uid) for uid in pods)
        rule = next((each for each in known if each is not None), None)
        if rule is not None or pods.keys() <= self._ref_of.keys():
            return rule
        return next(filter(None, map(rule_of, pods.values())), None)  # of a pod not reported yet


def _counts(pod: Pod) -> bool:
    """Whether a pod is one of its gang."""
    if pod.metadata.deletion_timestamp:
        return False
    return bool(pod.spec.node_name) or not (pod.spec.scheduling_gates or _ended(pod))


def _ended(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def _going_on(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    counted = tuple(filter(_counts, pods))
    going_on = tuple(pod for pod in counted if not _ended(pod))
    return counted if any(pod.spec.node_name for pod in going_on) else going_on


def _bare(pod: Pod, ref: GangRef) -> Pod:
    """Return what is read of a pod that needs no cards any more, or none at all."""
    meta, texts = pod.metadata, annotations(pod)
    if ref.api is GangApi.VOLCANO:  # no other text is read of what may be 20,000 pods
        texts = {key: texts[key] for key in (*GROUP_NAMES, TASK) if key in texts}
    metadata = Metadata(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels,
        annotations=texts,
    )
    spec = PodSpec(
        node_name=pod.spec.node_name,
        scheduler_name=pod.spec.scheduler_name,
        scheduling_group=pod.spec.scheduling_group,
        priority=pod.spec.priority,
        termination_grace_period_seconds=pod.spec.termination_grace_period_seconds,
    )
    return Pod(metadata, spec, PodStatus(phase=pod.status.phase))
