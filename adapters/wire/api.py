"""What the API server wraps around objects: list pages, watch events, errors.

Source: k8s.io/apimachinery/pkg/apis/meta/v1/types.go (ListMeta, Status, WatchEvent).
"""

import msgspec

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Metadata, Wire

# Source: k8s.io/apimachinery/pkg/apis/meta/v1/types.go, InitialEventsAnnotationKey.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ListMetadata(Wire, frozen=True, gc=False):
    """Metadata of a list; ``token`` fetches the next page and is empty on the last one."""

    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")


class Page(Wire, frozen=True, gc=False):
    """A page of a list; its objects stay encoded."""

    metadata: ListMetadata = ListMetadata()
    items: tuple[msgspec.Raw, ...] | None = None


class WatchEvent(Wire, frozen=True, gc=False):
    """One line of a watch; its object stays encoded."""

    type: str
    object: msgspec.Raw


class ObjectIdentity(Wire, frozen=True, gc=False):
    """The part of any object's metadata that the API server has checked."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class IdentifiedObject(Wire, frozen=True, gc=False):
    """Any object, with only its identity read."""

    metadata: ObjectIdentity


class TypeMeta(Wire, frozen=True, gc=False):
    """Any object, with only its metadata read."""

    metadata: Metadata = Metadata()


class StatusCause(Wire, frozen=True, gc=False):
    """One of several reasons of an error."""

    reason: str = ""


class StatusDetails(Wire, frozen=True, gc=False):
    """Details of an error."""

    retry_after_seconds: float | None = None
    causes: tuple[StatusCause, ...] | None = None


class ApiStatus(Wire, frozen=True, gc=False):
    """An error (``Status`` of kind Failure)."""

    code: Int64 | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None
