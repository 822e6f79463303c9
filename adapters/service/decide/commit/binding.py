"""Sends the Binding of a pod, and finds out what became of it when the answer does not say so."""

from adapters.dialects.dialect import Result
from adapters.service.decide.ports import Binder, BindError, PodChangedError, PodReader
from core.requests.request import PodRef

CONFLICT = 409
NOT_FOUND = 404


async def bind(
    binder: Binder,
    pods: PodReader,
    pod: PodRef,
    node: str,
    result: Result,
    version: str = "",
) -> None:
    """Bind a pod to a node, with annotations and labels in the same write.

    With a version, the API server binds the pod only if it was not changed after it was read. A
    reconciler that releases the cards of a pod changes the pod first, so that a Binding that was
    sent late binds nothing.

    After a 409, and after an answer that was lost, the pod itself is read. If it is bound to this
    node it counts as bound by us: an earlier attempt of ours, here or in another replica, whose
    answer was lost has done it. Its annotations are not compared, because they carry the time of
    that attempt. If another scheduler bound the pod to this node, the cards are still allocated in
    the ledger, and the reconciler writes them on the pod.

    Args:
        binder: sends the Binding.
        pods: that are read after it.
        pod: the pod.
        node: the name of the node.
        result: annotations and labels to add.
        version: the resourceVersion of the pod for which the cards are committed; empty for any.

    Raises:
        PodChangedError: the pod is not bound, and has another version now.
        BindError: the pod is not bound to the node. ``definite``: it never will be by this Binding;
            else it may be.
    """
    try:
        await binder.bind(pod, node, result.annotations, result.labels, version)
    except BindError as error:
        if error.definite and error.status != CONFLICT:
            raise
        await _check_bound(pods, pod, node, error, version)


async def _check_bound(
    pods: PodReader, pod: PodRef, node: str, error: BindError, version: str
) -> None:
    """Read a pod after a Binding; return if it is bound to the node.

    Raises:
        PodChangedError: the Binding was refused, and the pod has another version than it had.
        BindError: it is not, or the pod could not be read.
    """
    try:
        found = await pods.newest(pod)
    except OSError:
        # Even after a 409: an earlier Binding of ours may be what it conflicts with.
        raise BindError(0, str(error)) from error
    if found is None or found.metadata.uid != pod.uid:
        raise BindError(NOT_FOUND, "the pod is gone") from error
    if not found.spec.node_name:
        if error.status == CONFLICT and version not in ("", found.metadata.resource_version):
            raise PodChangedError(error, found) from error
        raise error
    if found.spec.node_name != node:
        raise BindError(CONFLICT, f"the pod is bound to {found.spec.node_name}") from error
