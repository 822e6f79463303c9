"""Annotates objects of any kind."""

from http import HTTPStatus

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, ClusterError
from adapters.wire.kube import Changes


async def annotate(
    client: KubeClient,
    path: str,
    uid: str,
    annotations: Changes,
    labels: Changes | None = None,
    version: str = "",
) -> bytes:
    """Set annotations and labels of the object with this uid, and return it; None removes one.

    The object must still have the resourceVersion ``version``, where that is not empty.

    Raises:
        ClusterError: status 409 where the object at this path has another uid or version, 404
            where there is none.
    """
    metadata = {
        "uid": uid,
        **({"resourceVersion": version} if version else {}),
        "annotations": dict(annotations),
        "labels": dict(labels or {}),
    }
    try:
        return await client.patch(path, {"metadata": metadata})
    except ClusterError as error:
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "metadata.uid" in error.message:
            raise ClusterError(CONFLICT, "Conflict", error.message) from error
        raise
