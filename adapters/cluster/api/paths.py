"""Where things are in the API: paths from group, version, plural and names.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object.

    Attributes:
        group: API group; empty for the core group.
        plural: the name in paths.
        namespaced: whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def collection(self, namespace: str | None = None) -> str:
        """Return the path of all objects, of one namespace where one is given."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = "" if namespace is None else f"/namespaces/{segment(namespace)}"
        return f"{root}{within}/{self.plural}"

    def path(self, name: str, namespace: str | None = None, part: str = "") -> str:
        """Return the path of one object, or of a subresource of it.

        Raises:
            ValueError: the name or namespace cannot be part of a path, or the namespace is missing.
        """
        if self.namespaced and namespace is None:
            raise ValueError(f"{self.plural} live in a namespace and none is given")
        own = f"{self.collection(namespace)}/{segment(name)}"
        return f"{own}/{part}" if part else own


def segment(name: str) -> str:
    """Return a name as a part of a path.

    Raises:
        ValueError: it is empty or a dot, so that the path would lead somewhere else.
    """
    if name in {"", ".", ".."}:
        raise ValueError(f"{name!r} names no object")
    return quote(name, safe="")


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list or watch.

    Attributes:
        namespace: None for all.
        fields: field selector, such as ``metadata.name=x``.
        optional: whether the kind may be unknown to the server, as of a CRD that is not installed:
            it counts as empty then, and is looked for again without an error.
    """

    resource: Resource
    namespace: str | None = None
    fields: str = ""
    labels: str = ""
    optional: bool = False

    @property
    def path(self) -> str:
        """The path of the collection."""
        return self.resource.collection(self.namespace)

    @property
    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        given = {"fieldSelector": self.fields, "labelSelector": self.labels}
        return {name: value for name, value in given.items() if value}


PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas")
SECRETS = Resource("", "v1", "secrets")
EVENTS = Resource("events.k8s.io", "v1", "events")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
DEVICES = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", namespaced=False)
NODE_LEDGERS = Resource("dragoman.dev", "v1alpha1", "nodeledgers", namespaced=False)
SHARE_QUOTAS = Resource("dragoman.dev", "v1alpha1", "sharequotas")
MOVE_PLANS = Resource("dragoman.dev", "v1alpha1", "moveplans", namespaced=False)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False
)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims")
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False)
DEVICE_TAINT_RULES = Resource("resource.k8s.io", "v1", "devicetaintrules", namespaced=False)
JOBS = Resource("batch", "v1", "jobs")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups")
KOORDINATOR_POD_GROUPS = Resource("scheduling.sigs.k8s.io", "v1alpha1", "podgroups")
PLUGINS_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups")
VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")
