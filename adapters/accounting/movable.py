"""Why a pod with cards stays where it is, as far as the pod alone says."""

from adapters.dialects.gangs import gang_of
from adapters.wire.kube import OwnerReference, Pod, annotations

STAYS = {
    "dragoman.dev/move": "false",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations that keep a pod where it is. Source of the second: kubernetes/autoscaler
cluster-autoscaler/FAQ.md."""

KARPENTER = "karpenter.sh/do-not-disrupt"
"""Annotation that keeps a pod where it is: ``true``, or for a duration from its start, which is not
compared with the time here.
Source: kubernetes-sigs/karpenter pkg/utils/pod/scheduling.go, IsDoNotDisruptActive."""

DESCHEDULER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""Annotation that keeps a pod where it is, whatever its value. The descheduler leaves such a pod
alone with ``noEvictionPolicy: Mandatory``, and evicts it after the others without.
Source: kubernetes-sigs/descheduler pkg/descheduler/evictions/utils/utils.go,
HaveNoEvictionAnnotation; pkg/framework/plugins/defaultevictor/types.go, NoEvictionPolicy."""

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod, which is its kubelet's own."""

VOLCANO_JOB = "volcano.sh/job-name"
"""Annotation of the pods of Volcano's Job, which are bound together.
Source: volcano.sh/apis pkg/apis/batch/v1alpha1/labels.go, JobNameKey."""

GROUP_SIZE = "leaderworkerset.sigs.k8s.io/size"
"""Annotation of the pods of a LeaderWorkerSet: how many a group has, all of which are created again
when one is deleted.
Source: kubernetes-sigs/lws api/leaderworkerset/v1/leaderworkerset_types.go, SizeAnnotationKey;
pkg/controllers/pod_controller.go, handleRestartPolicy."""

IN_GANG = "is in a gang, which would lose a member"

BY_CLAIM = "a ResourceClaim has the cards"
"""Why a claim stays, and the pod that uses it."""


def controller(pod: Pod) -> OwnerReference | None:
    """Return what creates the pod again after it was deleted; None where nothing does."""
    owners = pod.metadata.owner_references or ()
    return next((owner for owner in owners if owner.controller), None)


def hindrance(pod: Pod) -> str:
    """Why the pod is not moved, whatever it requests; empty where nothing on it is against it."""
    texts, owner = annotations(pod), controller(pod)
    if MIRROR in texts or (owner is not None and owner.kind == "Node"):
        return "a static pod is its kubelet's own"
    if owner is None:
        return "no controller would create it again"
    if owner.kind == "DaemonSet":
        return "a DaemonSet's pod belongs to its node"
    kept = next((key for key, value in STAYS.items() if texts.get(key) == value), None)
    if kept is None and texts.get(KARPENTER, "false") != "false":
        kept = KARPENTER
    if kept is None and DESCHEDULER in texts:
        kept = DESCHEDULER
    if kept is not None:
        return f"its annotation {kept} keeps it"
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if gang_of(pod) is not None or VOLCANO_JOB in texts or texts.get(GROUP_SIZE, "1") != "1":
        return IN_GANG
    return ""
