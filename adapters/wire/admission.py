"""AdmissionReview, version v1: what the API server sends before it writes a pod or a Binding.

Source: k8s.io/api/admission/v1/types.go; Binding: k8s.io/api/core/v1/types.go.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import msgspec
import orjson

from adapters.wire import body
from adapters.wire.body import BodyError
from adapters.wire.decode.decoder import Decoder
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.dra import RequestedClaim, ResourceClaim
from adapters.wire.kube import EnvVar, Metadata, Wire

VERSION = "admission.k8s.io/v1"

Patch = list[dict[str, object]]
"""Operations of a JSON patch, RFC 6902."""


class AdmissionRequest(Wire, frozen=True, gc=False):
    """The object that the API server is about to write."""

    uid: str = ""
    operation: str = ""
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool = False
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class AdmissionReview(Wire, frozen=True, gc=False):
    """The envelope."""

    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class Target(Wire, frozen=True, gc=False):
    """The node of a Binding."""

    kind: str = ""
    name: str = ""


class Binding(Wire, frozen=True, gc=False):
    """The assignment of a pod to a node; its name is the pod's."""

    metadata: Metadata = Metadata()
    target: Target = Target()


class ContainerEnv(Wire, frozen=True, gc=False):
    """A container's environment."""

    name: str = ""
    env: list[EnvVar] | None = None


class SpecEnv(Wire, frozen=True, gc=False):
    """The containers of a pod."""

    containers: tuple[ContainerEnv, ...] = ()
    init_containers: tuple[ContainerEnv, ...] | None = None


class PodEnv(Wire, frozen=True, gc=False):
    """A pod of which only the environments are read."""

    spec: SpecEnv = SpecEnv()


# Of a claim, with the parameters of drivers as their author wrote them.
_REVIEW = PartialDecoder(AdmissionReview)
_BINDING = Decoder(Binding)
_CLAIM = Decoder(RequestedClaim)
_OLD_CLAIM = Decoder(ResourceClaim)
_POD_ENV = Decoder(PodEnv)


def read_review(content: bytes) -> AdmissionRequest:
    """Return the request of a review.

    Raises:
        BodyError: it cannot be read, or is no AdmissionReview of this version.
    """
    review = body.read(content, _REVIEW)
    if review.kind != "AdmissionReview" or review.api_version != VERSION:
        raise BodyError(
            f"is {review.kind or 'nothing'} of {review.api_version or 'no version'}, "
            f"not AdmissionReview of {VERSION}"
        )
    if review.request is None or not review.request.uid:
        raise BodyError("request, or its uid, is missing")
    return review.request


def object_of(request: AdmissionRequest) -> bytes:
    """Return the object that the API server is about to write, as JSON.

    Raises:
        BodyError: it is missing.
    """
    found = bytes(request.object)
    if found in (b"", b"null"):
        raise BodyError("request.object is missing")
    return found


def read_binding(request: AdmissionRequest) -> Binding:
    """Return the Binding of a request.

    Raises:
        BodyError: it is missing, cannot be read, or names no node.
    """
    binding = body.read(object_of(request), _BINDING)
    if not binding.target.name or binding.target.kind not in ("", "Node"):
        raise BodyError("request.object.target names no node")
    return binding


def read_claims(request: AdmissionRequest) -> tuple[RequestedClaim, ResourceClaim | None]:
    """Return the ResourceClaim of a request as it would be written, and as it is.

    None where it is new.

    Raises:
        BodyError: it is missing, or one of the two cannot be read.
    """
    old = bytes(request.old_object)
    is_new = old in (b"", b"null")
    new = body.read(object_of(request), _CLAIM)
    return new, None if is_new else body.read(old, _OLD_CLAIM)


def read_environments(pod: bytes) -> PodEnv:
    """Return the environments of a pod's containers.

    Raises:
        BodyError: the pod cannot be read.
    """
    return body.read(pod, _POD_ENV)


def allowed(uid: str, patch: Patch | None = None, warnings: Sequence[str] = ()) -> bytes:
    """Return the review that allows the object, with changes."""
    response: dict[str, object] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(orjson.dumps(patch)).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return _answer(response)


def denied(uid: str, code: int, message: str) -> bytes:
    """Return the review that denies the object; the author reads the message."""
    return _answer({"uid": uid, "allowed": False, "status": {"code": code, "message": message}})


def escaped(key: str) -> str:
    """Return a key as a step of a JSON pointer, RFC 6901."""
    return key.replace("~", "~0").replace("/", "~1")


def add_entries(field: str, present: Mapping[str, str] | None, wanted: Mapping[str, str]) -> Patch:
    """Return the patch after which a map of an object's metadata has some entries.

    Args:
        field: ``annotations`` or ``labels``.
        present: the entries that it has; None where the map is missing.
        wanted: the entries that it must have.
    """
    missing = {key: value for key, value in wanted.items() if (present or {}).get(key) != value}
    if not missing:
        return []
    if present is None:
        return [{"op": "add", "path": f"/metadata/{field}", "value": missing}]
    return [
        {"op": "add", "path": f"/metadata/{field}/{escaped(key)}", "value": value}
        for key, value in missing.items()
    ]


def _answer(response: Mapping[str, object]) -> bytes:
    return orjson.dumps({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})
