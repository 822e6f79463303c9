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
_ACCESS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)


class _User(Wire, frozen=True, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: Mapping[str, tuple[str, ...]] | None = None


class _TokenStatus(Wire, frozen=True, gc=False):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(Wire, frozen=True, gc=False):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Wire, frozen=True, gc=False):
    allowed: bool = False


class _AccessReview(Wire, frozen=True, gc=False):
    status: _AccessStatus = _AccessStatus()


_TOKEN_REVIEW = Decoder(_TokenReview)
_ACCESS_REVIEW = Decoder(_AccessReview)


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
        body: dict[str, object] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        answer = await self._client.create(_TOKENS.collection(), body, repeat_refused=False)
        found = read(_TOKEN_REVIEW, answer).status
        user = found.user
        if not found.authenticated or not user.username:
            return None
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups or (),
                "extra": user.extra or {},
                "resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "pods"},
            },
        }
        answer = await self._client.create(_ACCESS.collection(), body, repeat_refused=False)
        return read(_ACCESS_REVIEW, answer).status.allowed
