"""Asks the API server which user a token is of, and whether that user may list pods.

Source: k8s.io/api/authentication/v1/types.go, TokenReview; authorization/v1/types.go,
SubjectAccessReview. A review without audiences is for the API server's own: a token that was made
for another program is not authenticated.
"""

from collections.abc import Mapping

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import read
from adapters.cluster.api.paths import Resource
from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import Wire

_TOKENS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)


class _User(Wire, frozen=True, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: Mapping[str, tuple[str, ...]] | None = None


class _Status(Wire, frozen=True, gc=False):
    authenticated: bool = False
    user: _User = _User()
    allowed: bool = False


class _Review(Wire, frozen=True, gc=False):
    status: _Status = _Status()


REVIEW = Decoder(_Review)


class AccessClient:
    """Reviews of tokens, none of which is kept."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def may_list_pods(self, token: str, namespace: str) -> bool | None:
        """Return whether the owner of a token may list the pods of a namespace; empty for all.

        None where the API server knows no such token.

        Raises:
            ClusterError: the API server did not answer, or permits no review.
        """
        found = await self._review(_TOKENS, {"token": token})
        user = found.user
        if not found.authenticated or not user.username:
            return None
        asked = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or (),
            "extra": user.extra or {},
            "resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "pods"},
        }
        return (await self._review(ACCESS, asked)).allowed

    async def _review(self, resource: Resource, spec: Mapping[str, object]) -> _Status:
        path = resource.collection()
        body = {"spec": spec}  # of the kind that the path says
        return read(REVIEW, await self._client.create(path, body, repeat_refused=False)).status
