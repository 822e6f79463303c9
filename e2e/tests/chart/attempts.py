"""What each identity of a cluster tries to do with the objects that Dragoman reads and writes."""

from dataclasses import dataclass
from typing import Any

from e2e.harness.cluster import chart
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import pod
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import LEASES, LEDGERS, NAMESPACE

SPACE = "/api/v1/namespaces/tenant"
PODS = f"{SPACE}/pods"
OWN = f"/api/v1/namespaces/{NAMESPACE}"
QUOTAS = "/apis/dragoman.dev/v1alpha1/namespaces/tenant/sharequotas"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/tenant/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
NODES = "/api/v1/nodes"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
FILES = chart.CHART / "files"
RESULT_KEYS = (FILES / "result-keys.txt").read_text().split()
REQUEST_KEYS = (FILES / "request-keys.txt").read_text().split()

MERGE, JSON, STRATEGIC, APPLY = (
    f"application/{kind}"
    for kind in (
        "merge-patch+json",
        "json-patch+json",
        "strategic-merge-patch+json",
        "apply-patch+yaml",
    )
)
KEY = "hami.io/vgpu-node"
UNTRUSTED = f"{KEY}: only schedulers, device plugins and Dragoman"
NO_RIGHT = "cannot {} resource"
GPU = {"volcano.sh/vgpu-number": "1"}
BOUND = "with-results"
"""A pod with the result key as annotation and label."""
MARK = [{"name": "DRAGOMAN_SHARE", "value": "1"}]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request.

    Attributes:
        who: the identity.
        what: for people, and unique.
        verb: the HTTP method.
        path: with the query.
        body: of the request; none for an empty one.
        refusal: a part of the expected text; empty where the request is accepted.
        kind: of the body.
    """

    who: str
    what: str
    verb: str
    path: str
    body: Any
    refusal: str
    kind: str = "application/json"


def annotated(key: str = KEY, value: str | None = "n22", part: str = "annotations") -> Object:
    return {"metadata": {part: {key: value}}}


def a_pod(name: str, **spec: object) -> Object:
    made = pod(name, "x", {"cpu": "1"})
    return {**made, "spec": {**made["spec"], **spec}}


def container(resources: Object | None = None, **fields: object) -> Object:
    return {"name": "c", "image": "localhost/none", "resources": resources or {}, **fields}


def a_ledger(name: str, meta: Object | None = None, **spec: object) -> Object:
    head = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeLedger"}
    return {**head, "metadata": {"name": name, **(meta or {})}, "spec": {"node": name, **spec}}


def a_slice(name: str, pool: str, node: str = "n21", driver: str = "gpu.nvidia.com") -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool, "generation": 99, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }


def binding(path: str) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n21"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": path}, "target": target}


def writes(who: str, path: str, refusal: str) -> list[Attempt]:
    """Every kind of write by which a result key can be changed."""
    applied = {"apiVersion": "v1", "kind": "Pod", **annotated()}
    applied["metadata"]["name"] = path.rpartition("/")[2]
    add = [{"op": "add", "path": "/metadata/labels", "value": {KEY: "n22"}}]
    return [
        Attempt(who, "a result by a merge patch", "PATCH", path, annotated(), refusal, MERGE),
        Attempt(who, "a result by a JSON patch", "PATCH", path, add, refusal, JSON),
        Attempt(
            who, "a result by a strategic patch", "PATCH", path, annotated(), refusal, STRATEGIC
        ),
        Attempt(
            who,
            "a result by a server-side apply",
            "PATCH",
            f"{path}?fieldManager=x&force=true",
            applied,
            refusal,
            APPLY,
        ),
        Attempt(
            who,
            "a result as a label",
            "PATCH",
            path,
            annotated(part="labels"),
            refusal,
            MERGE,
        ),
        Attempt(
            who,
            "a result in a dry run",
            "PATCH",
            f"{path}?dryRun=All",
            annotated(),
            refusal,
            MERGE,
        ),
    ]


def denied(who: str, verb: str, path: str, body: Any = None, kind: str = MERGE) -> Attempt:
    """A request for which the identity has no right."""
    words = {"POST": "create", "PATCH": "patch", "GET": "get", "DELETE": "delete", "PUT": "update"}
    kind = kind if verb == "PATCH" else "application/json"
    return Attempt(who, f"{verb} {path}", verb, path, body, NO_RIGHT.format(words[verb]), kind)


def create(who: str, what: str, path: str, body: Object, refusal: str) -> Attempt:
    return Attempt(who, what, "POST", path, body, refusal)


FORGED = a_pod("forged")
FORGED["metadata"]["annotations"] = {KEY: "n22"}
GENERATED = {**FORGED, "metadata": {"generateName": "forged-", "labels": {KEY: "n22"}}}

EDITOR = [
    *writes("editor", f"{PODS}/waiting", UNTRUSTED),
    *(
        Attempt(
            "editor", f"{part} {key}", "PATCH", f"{PODS}/waiting",
            annotated(key, "x", part), f"{key}: only schedulers", MERGE,
        )
        for key in RESULT_KEYS
        for part in ("annotations", "labels")
    ),
    *(
        Attempt(
            "editor", f"request {key}", "PATCH", f"{PODS}/waiting",
            annotated(key, "x"), "create the pod again", MERGE,
        )
        for key in REQUEST_KEYS
    ),
    *(
        Attempt(
            "editor", f"{what} of a bound pod: {part}", "PATCH", f"{PODS}/{BOUND}",
            annotated(value=value, part=part), UNTRUSTED, MERGE,
        )
        for part in ("annotations", "labels")
        for what, value in (("another result", "n22"), ("the end of a result", None))
    ),
    create("editor", "a pod with a result", PODS, FORGED, "pods.dragoman.dev"),
    create("editor", "a generated pod with a result", PODS, GENERATED, "pods.dragoman.dev"),
    create(
        "editor", "a share of an init container alone", PODS,
        a_pod("p", initContainers=[container({"limits": GPU})]), "pods.dragoman.dev",
    ),
    create(
        "editor", "a share in requests alone", PODS,
        a_pod("p", containers=[container({"requests": GPU})]), "pods.dragoman.dev",
    ),
    create(
        "editor", "a share of the pod as a whole", PODS,
        a_pod("p", resources={"limits": GPU}), "Unsupported value",
    ),
    create(
        "editor", "an ephemeral container at creation", PODS,
        a_pod("p", ephemeralContainers=[{"name": "e", "image": "x"}]), "cannot be set on create",
    ),
    create(
        "editor", "a mark of an init container", PODS,
        a_pod("p", initContainers=[container(env=MARK)]), "NVIDIA_VISIBLE_DEVICES must be void",
    ),
    Attempt(
        "editor", "resources of an existing pod", "PATCH", f"{PODS}/waiting",
        {"spec": {"containers": [{"name": "main", "resources": {"limits": GPU}}]}},
        "pod updates may not change fields", STRATEGIC,
    ),
    Attempt(
        "editor", "a variable of an existing pod", "PATCH", f"{PODS}/waiting",
        {"spec": {"containers": [{"name": "main", "env": MARK}]}},
        "pod updates may not change fields", STRATEGIC,
    ),
    Attempt(
        "editor", "a scheduling gate back on a pod", "PATCH", f"{PODS}/waiting",
        {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}},
        "only deletion is allowed", STRATEGIC,
    ),
    create("editor", "an eviction with a result", f"{PODS}/waiting/eviction", {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "waiting", "annotations": {KEY: "n22"}},
        "deleteOptions": {"dryRun": ["All"]},
    }, ""),
    denied("editor", "POST", f"{PODS}/waiting/binding", binding("waiting")),
    denied("editor", "POST", f"{SPACE}/bindings", binding("waiting")),
    denied("editor", "PATCH", f"{PODS}/waiting/status", {"status": {"phase": "Failed"}}),
    denied("editor", "PATCH", f"{PODS}/waiting/resize", {}),
    denied("editor", "PATCH", f"{PODS}/waiting/ephemeralcontainers", {}),
    denied("editor", "POST", QUOTAS, {"metadata": {"name": "quota"}, "spec": {"limits": {}}}),
    denied("editor", "PATCH", f"{QUOTAS}/quota/status", {"status": {}}),
    denied("editor", "DELETE", f"{QUOTAS}/quota"),
    denied("editor", "POST", f"{SPACE}/resourcequotas", {"metadata": {"name": "q"}}),
    denied("editor", "PATCH", SPACE, annotated("a", "b", "labels")),
    denied("editor", "PATCH", f"{CLAIMS}/c/status", {"status": {}}),
    denied("editor", "POST", SLICES, a_slice("s", "n21")),
    denied("editor", "GET", f"{LEDGERS}/n21"),
    denied("editor", "PATCH", f"{NODES}/n21", annotated()),
    denied("editor", "PATCH", f"{NODES}/n21/status", annotated()),
    denied("editor", "PATCH", f"{DEVICES}/n21", {}),
    denied("editor", "GET", f"{OWN}/secrets/dragoman-tls"),
    denied("editor", "GET", f"{OWN}/configmaps/dragoman"),
    denied("editor", "PATCH", f"{LEASES}/dragoman-reconciler", {}),
    denied("editor", "GET", f"{CONFIGURATIONS}/dragoman"),
    denied("editor", "POST", f"{OWN}/serviceaccounts/dragoman/token", {"spec": {}}),
]  # fmt: skip

OPERATOR = [
    Attempt(
        "operator", "a share by a resize", "PATCH", f"{PODS}/waiting/resize",
        {"spec": {"containers": [{"name": "main", "resources": {"limits": GPU, "requests": GPU}}]}},
        "only cpu and memory resources are mutable", STRATEGIC,
    ),
    Attempt(
        "operator", "a marked ephemeral container", "PATCH", f"{PODS}/waiting/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "e", "image": "x", "env": MARK}]}},
        "ephemeral container e: can have no share", STRATEGIC,
    ),
    Attempt(
        "operator", "an ephemeral container", "PATCH", f"{PODS}/waiting/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "f", "image": "x"}]}}, "", STRATEGIC,
    ),
]  # fmt: skip
"""With the rights of `kubectl debug` and of a vertical autoscaler."""

KUBELET = [
    Attempt(
        "kubelet", "a result by the status", "PATCH", f"{PODS}/on-n21/status",
        annotated(), UNTRUSTED, MERGE,
    ),
    Attempt(
        "kubelet", "a pod of another node", "PATCH", f"{PODS}/on-n22/status",
        {"status": {"phase": "Failed"}}, "only update pod status for pods", MERGE,
    ),
    Attempt(
        "kubelet", "the end of a pod of another node", "DELETE", f"{PODS}/on-n22", None,
        "only delete pods with",
    ),
    Attempt(
        "kubelet", "another node", "PATCH", f"{NODES}/n22", annotated(),
        "not allowed to modify", MERGE,
    ),
    Attempt(
        "kubelet", "another node's status", "PATCH", f"{NODES}/n22/status", annotated(),
        "not allowed to modify", MERGE,
    ),
    create(
        "kubelet", "a slice of another node", SLICES, a_slice("s", "n22", "n22"),
        "same NodeName as the requesting node",
    ),
    create(
        "kubelet", "a slice of another driver", f"{SLICES}?dryRun=All",
        a_slice("s", "n21", driver="gpu.example.com"), "",
    ),
    denied("kubelet", "GET", f"{LEDGERS}/n21"),
    denied("kubelet", "PATCH", f"{LEDGERS}/n21/status", {"status": {}}),
    denied("kubelet", "PATCH", f"{PODS}/on-n21", annotated()),
    denied("kubelet", "PATCH", f"{QUOTAS}/quota/status", {"status": {}}),
    denied("kubelet", "GET", f"{OWN}/secrets/dragoman-tls"),
    denied("kubelet", "GET", f"{LEASES}/dragoman-reconciler"),
    denied("kubelet", "POST", f"{OWN}/serviceaccounts/dragoman/token", {"spec": {}}),
]  # fmt: skip

ALIEN, NOTHING_ELSE = "ledger of its own node only", "nor anything else into a ledger"
FENCES = {"tenant": (1 << 63) - 1}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}
AGENT = [
    create("agent", "a ledger of another node", LEDGERS, a_ledger("n23"), ALIEN),
    create("agent", "a generated ledger", LEDGERS, {
        **a_ledger("n21"), "metadata": {"generateName": "n21"},
    }, ALIEN),
    create("agent", "a ledger that names another node", LEDGERS, {
        **a_ledger("n21"), "spec": {"node": "n22"},
    }, NOTHING_ELSE),
    create("agent", "a ledger with fences", LEDGERS, a_ledger("n21", fences=FENCES), NOTHING_ELSE),
    create(
        "agent", "a ledger with a meter", LEDGERS,
        a_ledger("n21", meter={"until": 1}), NOTHING_ELSE,
    ),
    create("agent", "a ledger with changes", LEDGERS, a_ledger("n21", changes=7), NOTHING_ELSE),
    create(
        "agent", "a ledger with an allocation", LEDGERS,
        a_ledger("n21", allocations=[]), NOTHING_ELSE,
    ),
    create("agent", "a ledger with a finalizer", LEDGERS, a_ledger("n21", {
        "finalizers": ["example.com/a"],
    }), "finalizers or owners"),
    create("agent", "a ledger with an owner", LEDGERS, a_ledger("n21", {
        "ownerReferences": [OWNER],
    }), "finalizers or owners"),
    Attempt(
        "agent", "the status of another node", "PATCH", f"{LEDGERS}/n22/status",
        {"status": {}}, ALIEN, MERGE,
    ),
    Attempt(
        "agent", "another node's status by an apply", "PATCH",
        f"{LEDGERS}/n22/status?fieldManager=x&force=true", a_ledger("n22"), ALIEN, APPLY,
    ),
    Attempt(
        "agent", "another node's ledger", "PATCH", f"{LEDGERS}/n22",
        {"spec": {"allocations": []}}, "forbidden", MERGE,
    ),
    denied("agent", "DELETE", f"{LEDGERS}/n22"),
    denied("agent", "GET", f"{OWN}/secrets/dragoman-tls"),
    denied("agent", "PATCH", f"{LEASES}/dragoman-reconciler", {}),
    denied("agent", "PATCH", f"{PODS}/on-n21", annotated()),
    denied("agent", "PATCH", f"{PODS}/on-n21/status", annotated()),
    denied("agent", "PATCH", f"{NODES}/n21", annotated()),
    denied("agent", "PATCH", f"{QUOTAS}/quota/status", {"status": {}}),
    denied("agent", "PATCH", f"{CLAIMS}/c/status", {"status": {}}),
]  # fmt: skip

SCHEDULER = [
    *writes("scheduler", f"{PODS}/placed", ""),
    *writes("scheduler", "/api/v1/namespaces/default/pods/elsewhere", UNTRUSTED),
]
"""It may patch pods everywhere, and bind those of the tenant."""

PLUGIN = [
    *writes("plugin", f"{PODS}/placed", ""),
    denied("plugin", "POST", f"{PODS}/placed/binding", binding("placed")),
    denied("plugin", "GET", f"{LEDGERS}/n21"),
]

OF_A_POD = "may change of a pod or ResourceClaim only annotations and labels"
SERVICE = [
    *writes("service", f"{PODS}/placed", ""),
    Attempt(
        "service", "an image", "PATCH", f"{PODS}/placed",
        {"spec": {"containers": [{"name": "main", "image": "evil"}]}}, OF_A_POD, STRATEGIC,
    ),
    Attempt(
        "service", "a finalizer", "PATCH", f"{PODS}/placed",
        {"metadata": {"finalizers": ["example.com/a"]}}, OF_A_POD, MERGE,
    ),
    Attempt(
        "service", "an owner", "PATCH", f"{PODS}/placed",
        {"metadata": {"ownerReferences": [OWNER]}}, OF_A_POD, MERGE,
    ),
    Attempt(
        "service", "a node's annotation", "PATCH", f"{NODES}/n22", annotated("a", "b"), "", MERGE,
    ),
    Attempt(
        "service", "a node's label", "PATCH", f"{NODES}/n22", annotated("a", "b", "labels"),
        OF_A_POD, MERGE,
    ),
    Attempt(
        "service", "a taint", "PATCH", f"{NODES}/n22",
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, OF_A_POD, MERGE,
    ),
    Attempt("service", "a claim's annotation", "PATCH", f"{CLAIMS}/c", annotated(), "", MERGE),
    Attempt(
        "service", "a claim's finalizer", "PATCH", f"{CLAIMS}/c",
        {"metadata": {"finalizers": ["example.com/a"]}}, OF_A_POD, MERGE,
    ),
    denied("service", "PATCH", f"{CLAIMS}/c/status", {"status": {}}),
    denied("service", "PATCH", f"{NODES}/n22/status", annotated()),
    denied("service", "PATCH", f"{PODS}/placed/status", {"status": {"phase": "Failed"}}),
    denied("service", "DELETE", f"{PODS}/placed"),
    denied("service", "POST", f"{PODS}/placed/eviction", {"metadata": {"name": "placed"}}),
    denied("service", "GET", f"{OWN}/secrets/another"),
    denied("service", "PUT", f"{QUOTAS}/quota", {
        "apiVersion": "dragoman.dev/v1alpha1", "kind": "ShareQuota",
        "metadata": {"name": "quota"}, "spec": {"limits": {}},
    }),
]  # fmt: skip

ATTEMPTS = [*EDITOR, *OPERATOR, *KUBELET, *AGENT, *SCHEDULER, *PLUGIN, *SERVICE]
