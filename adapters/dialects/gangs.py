"""Which gang a pod is in, in the words of Kubernetes, Koordinator, scheduler-plugins and Volcano.

The service decides nothing about Volcano's gangs: vc-scheduler reserves the cards of each member,
by its own plugin or by ``allocate``. It answers about them, as the command does.
"""

import msgspec

from adapters.dialects.volcano.keys import GROUP_NAMES
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Pod, Text, annotations, labels
from core.requests.gang import GangApi, GangRef, GangRule

KOORDINATOR = "gang.scheduling.koordinator.sh"
"""Prefix of Koordinator's annotations. Source: koordinator 1.8.0 apis/extension/coscheduling.go."""

GROUPS = f"{KOORDINATOR}/groups"
"""Annotation of a pod or a PodGroup: the gangs that are bound together, as a JSON list."""

MIN_AVAILABLE = f"{KOORDINATOR}/min-available"

LIGHTWEIGHT = "pod-group.scheduling.sigs.k8s.io"
"""Label of scheduler-plugins before its group was renamed; koord-scheduler reads it first."""

MOST_GROUPS = 64
"""Gangs that are bound together, at most: a service reads them at each question about a pod."""

PLUGINS = "scheduling.x-k8s.io/pod-group"
"""Label. Source: sigs.k8s.io/scheduler-plugins 0.33.5 apis/scheduling/v1alpha1/types.go."""

TASK = "volcano.sh/task-spec"
"""Annotation: the task of a pod. Source: volcano.sh/apis pkg/apis/batch/v1alpha1/labels.go."""

NOT_VOLCANO = frozenset({"", "default-scheduler", "koord-scheduler"})
"""Names of schedulers for which Volcano's annotations say nothing."""

_names = Decoder(list[str])


def gang_of(pod: Pod) -> GangRef | None:
    """Return the gang of a pod, None where it names none; whether there is one, its API says."""
    namespace = pod.metadata.namespace or "default"
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GangRef(GangApi.KUBERNETES, namespace, group.pod_group_name)
    marked, texts = labels(pod), annotations(pod)
    for api, name in (
        (GangApi.KOORDINATOR, marked.get(LIGHTWEIGHT)),
        (GangApi.KOORDINATOR, marked.get(f"{LIGHTWEIGHT}/name")),
        (GangApi.KOORDINATOR, texts.get(f"{KOORDINATOR}/name")),
        (GangApi.SCHEDULER_PLUGINS, marked.get(PLUGINS)),
    ):
        if name:
            return GangRef(api, namespace, name)
    return None


def any_gang_of(pod: Pod) -> GangRef | None:
    """Return the gang of a pod, one of Volcano too where vc-scheduler may place the pod."""
    known = gang_of(pod)
    if known is not None or (pod.spec.scheduler_name or "") in NOT_VOLCANO:
        return known
    texts = annotations(pod)
    name = next((texts[key] for key in GROUP_NAMES if texts.get(key)), None)
    if name is None:
        return None
    return GangRef(GangApi.VOLCANO, pod.metadata.namespace or "default", name)


def task_of(pod: Pod) -> str:
    """Return Volcano's task of a pod; empty where it has none."""
    return annotations(pod).get(TASK, "")


def rule_of(pod: Pod) -> GangRule | None:
    """Return what a pod itself says of its gang; None where it says no number of pods.

    Source: koordinator 1.8.0 pkg/scheduler/plugins/coscheduling/util/gang_helper.go,
    ``GetGangMinNumFromPod``.
    """
    text = labels(pod).get(f"{LIGHTWEIGHT}/min-available") or annotations(pod).get(MIN_AVAILABLE)
    if not text or not text.isdecimal() or len(text) > len("2147483647") or int(text) < 1:
        return None
    return GangRule(int(text), others(annotations(pod)))


def others(texts: Text) -> frozenset[GangRef]:
    """Return the gangs that Koordinator binds together.

    None where the text is not readable, or names more than ``MOST_GROUPS``.
    """
    text = texts.get(GROUPS)
    if not text:
        return frozenset()
    try:
        named = _names.decode(msgspec.Raw(text.encode()))
    except UnreadableError:
        return frozenset()
    if len(named) > MOST_GROUPS:
        return frozenset()
    parts = (each.partition("/") for each in named)
    return frozenset(
        GangRef(GangApi.KOORDINATOR, namespace, name) for namespace, _, name in parts if name
    )
