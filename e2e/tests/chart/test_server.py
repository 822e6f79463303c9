"""A real API server accepts the chart, and the rules of the chart work."""

import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.ready_cluster import PODS, bind, pod
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import LEDGERS, NAMESPACE, RELEASE
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.manifests import volcano_scheduler
from e2e.testbed import cache
from e2e.tests.chart.installed import answers

pytestmark = [pytest.mark.local, pytest.mark.refusals]

GOLDEN = Path(__file__).parent / "golden"
SETS = sorted(path.name.removesuffix(".values.yaml") for path in GOLDEN.glob("*.values.yaml"))
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
ALIEN = "a node agent may write the ledger of its own node only"
SHARE = {"volcano.sh/vgpu-number": "1"}


@pytest.mark.parametrize("name", SETS)
def test_the_api_server_takes_every_object(plane: ControlPlane, name: str) -> None:
    objects = chart.render(GOLDEN / f"{name}.values.yaml")

    chart.apply(plane, objects, "--dry-run=server")

    assert objects


def test_helm_installs_upgrades_and_uninstalls_and_leaves_keys_and_ledgers() -> None:
    with run() as this:
        plane = start_control_plane(this)
        config = f"--kubeconfig={plane.kubeconfig('admin', 'system:masters')}"
        words = (RELEASE, chart.CHART, f"--namespace={NAMESPACE}", config)

        notes = chart.helm("install", *words, "--create-namespace")
        secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/dragoman-tls"
        plane.api.merge(secret, {"data": {"tls.crt": "eA=="}})
        hooks = f"{CONFIGURATIONS}/dragoman"
        found = plane.api.get(hooks)
        for hook in found["webhooks"]:
            hook["clientConfig"]["caBundle"] = AUTHORITY
        plane.api.replace(hooks, found)
        warned = chart.helm(
            "upgrade",
            *words,
            "--set=webhooks.failurePolicy=Ignore,webhooks.timeoutSeconds=7",
            "--set=imageRegistry=registry.example.com",
        )

        assert "--url http://dragoman.dragoman-system.svc:9595 -f FILE" in notes
        assert "dragoman doctor" in notes
        assert "WARNING" not in notes
        assert "No image is published under the names" in notes
        assert "No image is published under the names" not in warned
        assert "WARNING: with failurePolicy Ignore" in warned
        assert plane.api.get(secret)["data"] == {"tls.crt": "eA=="}
        after = plane.api.get(hooks)["webhooks"]
        assert [hook["timeoutSeconds"] for hook in after] == [7, 5]
        assert [hook["clientConfig"]["caBundle"] for hook in after] == [AUTHORITY] * 2
        chart.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", config)
        within(30, lambda: answers(plane.api, LEDGERS))
        for gone in (hooks, secret, f"{RIGHTS}/clusterroles/dragoman-service"):
            with pytest.raises(ApiError, match="not found"):
                plane.api.get(gone)


AUTHORITY = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"


def test_without_the_service_pods_with_shares_wait_and_the_rest_of_the_cluster_goes_on(
    plane: ControlPlane,
) -> None:
    system = "/api/v1/namespaces/kube-system/pods"
    forged = pod("forged", "x", {"cpu": "1"})
    forged["metadata"]["annotations"] = {"volcano.sh/vgpu-ids-new": "GPU-0"}

    plane.api.create(PODS, pod("plain", "x", {"cpu": "1", "memory": "1Gi"}))
    plane.api.create(PODS, pod("other-device", "x", {"example.com/fpga": "1"}))
    for refused in (pod("share", "x", SHARE), pod("init", "x", {}, initContainers=[INIT]), forged):
        with pytest.raises(ApiError, match=r"pods\.dragoman\.dev"):
            plane.api.create(PODS, refused)
    within(20, lambda: answers(plane.api, "/api/v1/namespaces/kube-system/serviceaccounts/default"))
    plane.api.create(system, pod("system", "x", SHARE))


def test_the_api_server_itself_rejects_a_mark_of_the_author_or_one_that_sees_all_cards(
    plane: ControlPlane,
) -> None:
    def marked(name: str, *values: str) -> Object:
        env = [{"name": "DRAGOMAN_SHARE", "value": "1"}]
        env += [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value} for value in values]
        made = pod(name, "x", {"cpu": "1"})
        made["spec"]["containers"][0]["env"] = env
        return made

    def said(*values: str) -> str:
        try:
            plane.api.create(f"{PODS}?dryRun=All", marked("marked", *values))
        except ApiError as error:
            return str(error)
        return ""

    wanted = "container main: with DRAGOMAN_SHARE"
    within(20, lambda: wanted in said("all"))  # a policy is known a moment after it was made
    assert wanted in said("void", "all")
    assert wanted in said()
    assert "container main: admission writes DRAGOMAN_SHARE" in said("void")


INIT = {"name": "init", "image": "localhost/none", "resources": {"limits": SHARE}}


def test_without_the_service_pods_are_bound_by_every_account_that_may(plane: ControlPlane) -> None:
    for name in ("bound", "side-door", "by-us"):
        plane.api.create(PODS, pod(name, "x", {"cpu": "1"}))

    bind(plane.api, "bound", "n1")
    plane.api.create("/api/v1/namespaces/default/bindings", binding("side-door", "n1"))
    bind(as_account(plane, "dragoman"), "by-us", "n1")

    for name in ("bound", "side-door", "by-us"):
        assert plane.api.get(f"{PODS}/{name}")["spec"]["nodeName"] == "n1"


HOOKS = f"{CONFIGURATIONS}/dragoman"
SELECTOR = {"matchLabels": {"a": "b"}}
OTHER_FIELDS: dict[str, object] = {
    "admissionReviewVersions": ["v1", "v1beta1"],
    "clientConfig": {"url": "https://example.com"},
    "failurePolicy": "Fail",
    "matchConditions": [],
    "matchPolicy": "Exact",
    "name": "other.dragoman.dev",
    "namespaceSelector": {},
    "objectSelector": SELECTOR,
    "reinvocationPolicy": "IfNeeded",
    "rules": [],
    "sideEffects": "None",
    "timeoutSeconds": 1,
}


def test_the_list_of_a_webhooks_fields_is_whole(plane: ControlPlane) -> None:
    schemas = plane.api.get("/openapi/v3/apis/admissionregistration.k8s.io/v1")["components"]
    of_api = schemas["schemas"]["io.k8s.api.admissionregistration.v1.MutatingWebhook"]["properties"]
    of_client = schemas["schemas"]["io.k8s.api.admissionregistration.v1.WebhookClientConfig"][
        "properties"
    ]
    listed = (chart.CHART / "files" / "webhook-fields.txt").read_text().split()

    assert {*listed, "name", "clientConfig"} == set(of_api) == set(OTHER_FIELDS)
    assert set(of_client) == {"caBundle", "service", "url"}


def test_the_service_may_change_the_authorities_of_its_webhooks_and_nothing_else(
    plane: ControlPlane,
) -> None:
    own = as_account(plane, "dragoman")

    def replaced(api: Api, change: Callable[[Object], object]) -> str:
        found = plane.api.get(HOOKS)
        change(found)
        try:
            api.replace(f"{HOOKS}?dryRun=All", found)
        except ApiError as error:
            return str(error)
        return ""

    def field(key: str, value: object) -> Callable[[Object], object]:
        return lambda found: found["webhooks"][1].update({key: value})

    def service(key: str, value: object) -> Callable[[Object], object]:
        return lambda found: found["webhooks"][1]["clientConfig"]["service"].update({key: value})

    def authorities(found: Object) -> None:
        for hook in found["webhooks"]:
            hook["clientConfig"]["caBundle"] = AUTHORITY

    forbidden = "may change nothing but caBundle"
    within(20, lambda: forbidden in replaced(own, field("timeoutSeconds", 1)))
    for key, value in OTHER_FIELDS.items():
        assert forbidden in replaced(own, field(key, value)), key
    for key, value in (("name", "other"), ("namespace", "default"), ("path", "/"), ("port", 444)):
        assert forbidden in replaced(own, service(key, value)), key
    for part in ("labels", "annotations"):
        said = replaced(own, lambda found, part=part: found["metadata"].update({part: {"a": "b"}}))  # type: ignore[misc]
        assert forbidden in said, part
    assert forbidden in replaced(own, lambda found: found["webhooks"].pop())
    more = {"name": "more.dragoman.dev"}
    assert forbidden in replaced(
        own, lambda found: found["webhooks"].append({**found["webhooks"][0], **more})
    )

    assert replaced(own, authorities) == ""
    assert replaced(plane.api, field("timeoutSeconds", 1)) == ""


def annotate(api: Api, name: str, key: str, text: str | None, part: str = "") -> None:
    api.merge(f"{PODS}/{name}{part}", {"metadata": {"annotations": {key: text}}})


def with_rights(plane: ControlPlane, namespace: str, name: str, *resources: str) -> Api:
    """The server as a new account sees it that may patch pods, and create these resources."""
    api = plane.api
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": list(resources), "verbs": ["create"]},
    ]
    api.create(
        f"{RIGHTS}/clusterroles",
        {"metadata": {"name": name}, "rules": rules[: 1 + bool(resources)]},
    )
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    api.create(f"{RIGHTS}/clusterrolebindings", body)
    return connect(account(plane, namespace, name))


def succeeds(act: Callable[[], object]) -> bool:
    """Whether a request is accepted; a role takes effect a moment after it is written."""
    try:
        act()
    except ApiError:
        return False
    return True


def wait_for_the_policy(author: Api, name: str) -> None:
    """A policy is known a moment after it was made; until then an author may write a result."""
    texts = map(str, count())
    within(
        20,
        lambda: (
            not succeeds(lambda: annotate(author, name, "dragoman.dev/allocation", next(texts)))
        ),
    )


def test_an_author_cannot_write_a_result_key_of_an_existing_pod(plane: ControlPlane) -> None:
    plane.api.create(PODS, pod("of-author", "default-scheduler", {}))
    annotate(plane.api, "of-author", "dragoman.dev/allocation", "[]")
    author = with_rights(plane, "default", "author")

    within(15, lambda: succeeds(lambda: annotate(author, "of-author", "a", "b")))
    wait_for_the_policy(author, "of-author")
    annotate(plane.api, "of-author", "dragoman.dev/allocation", "[]")
    for part in ("", "/status"):
        for key, text in (
            ("dragoman.dev/allocation", "[1]"),
            ("dragoman.dev/allocation", None),
            ("volcano.sh/vgpu-ids-new", "u,NVIDIA,1,0:"),
        ):
            with pytest.raises(ApiError, match=f"{key}: only schedulers, device plugins"):
                annotate(author, "of-author", key, text, part)
        labels = {"metadata": {"labels": {"hami.io/vgpu-node": "n"}}}
        with pytest.raises(ApiError, match=r"hami\.io/vgpu-node: only schedulers"):
            author.merge(f"{PODS}/of-author{part}", labels)

    found = plane.api.get(f"{PODS}/of-author")["metadata"]
    assert found["annotations"] == {"a": "b", "dragoman.dev/allocation": "[]"}
    plane.api.delete(f"{PODS}/of-author")

    plane.api.create(PODS, pod("without-annotations", "default-scheduler", {}))
    with pytest.raises(ApiError, match=r"dragoman\.dev/allocation: only schedulers"):
        annotate(author, "without-annotations", "dragoman.dev/allocation", "[]")
    plane.api.delete(f"{PODS}/without-annotations")


@pytest.mark.parametrize("key", ["metax-tech.com/sgpu-qos-policy", "metax-tech.com/sgpu-app-class"])
def test_an_author_cannot_change_by_what_policy_an_existing_pod_shares_its_card(
    plane: ControlPlane, key: str
) -> None:
    name = key.partition("/")[2]
    plane.api.create(PODS, pod(name, "default-scheduler", {}))
    annotate(plane.api, name, key, "fixed-share")
    author = with_rights(plane, "default", f"author-of-{name}")

    within(15, lambda: succeeds(lambda: annotate(author, name, "a", "b")))
    wait_for_the_policy(author, name)
    for text in ("burst-share", None):
        with pytest.raises(ApiError, match=f"{key}.*create the pod again"):
            annotate(author, name, key, text)

    annotate(author, name, key, "fixed-share")
    plane.api.delete(f"{PODS}/{name}")


@pytest.mark.parametrize(
    ("namespace", "name", "resources"),
    [("default", "a-scheduler", ["pods/binding"]), ("kube-system", "hami-device-plugin", [])],
)
def test_schedulers_and_known_device_plugins_write_results(
    plane: ControlPlane, namespace: str, name: str, resources: list[str]
) -> None:
    plane.api.create(PODS, pod(f"of-{name}", "default-scheduler", {}))
    writer = with_rights(plane, namespace, name, *resources)

    def write() -> None:
        annotate(writer, f"of-{name}", "hami.io/bind-phase", "success")

    within(15, lambda: succeeds(write))

    plane.api.delete(f"{PODS}/of-{name}")


def binding(name: str, node: str) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def as_account(plane: ControlPlane, name: str, on: str = "") -> Api:
    """The server as an account of the release sees it."""
    return connect(account(plane, NAMESPACE, name, on))


def test_an_agent_writes_the_record_of_its_own_node_and_of_no_other(plane: ControlPlane) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    for node in ("n1", "n2"):
        plane.api.create("/api/v1/nodes", {"metadata": {"name": node}})
        record = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeLedger"}
        plane.api.create(LEDGERS, {**record, "metadata": {"name": node}, "spec": {"node": node}})
    agent = pod("agent", "x", {}, serviceAccountName="dragoman-node", nodeName="n1")
    plane.api.create(pods, agent)
    # Its role lets it write the status of all; here the whole, which shows the same policy.
    grant(plane.api, "dragoman-node", "nodeledgers", "patch")
    own, stray = as_account(plane, "dragoman-node", "agent"), as_account(plane, "dragoman-node")
    mark = {"metadata": {"labels": {"seen": "yes"}}}

    def may(api: Api, node: str) -> str:
        try:
            api.merge(f"{LEDGERS}/{node}", mark)
        except ApiError as error:
            return str(error)
        return ""

    within(20, lambda: ALIEN in may(own, "n2"))
    assert may(own, "n1") == ""
    assert ALIEN in may(stray, "n1")
    with pytest.raises(ApiError, match=ALIEN):
        own.create(LEDGERS, {**record, "metadata": {"name": "n3"}, "spec": {"node": "n3"}})
    with pytest.raises(ApiError, match="may not write allocations"):
        own.merge(f"{LEDGERS}/n1", {"spec": {"cards": []}})
    with pytest.raises(ApiError, match="cannot list"):
        own.get(PODS)


def grant(api: Api, account_name: str, resource: str, verb: str) -> None:
    """Give an account of the release one more right."""
    name = f"more-{account_name}"
    rule = {"apiGroups": ["dragoman.dev"], "resources": [resource], "verbs": [verb]}
    api.create(f"{RIGHTS}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    who = {"kind": "ServiceAccount", "name": account_name, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": [who]}
    api.create(f"{RIGHTS}/clusterrolebindings", body)


@pytest.mark.parametrize("scheduler", ["volcano", "koordinator"])
def test_the_sidecars_patch_makes_a_pod_of_a_scheduler_that_the_api_server_takes(
    plane: ControlPlane, tmp_path: Path, scheduler: str
) -> None:
    source = volcano_scheduler() if scheduler == "volcano" else yaml.safe_dump(KOORD_SCHEDULER)
    (tmp_path / "scheduler.yaml").write_text(source)
    (tmp_path / "component").symlink_to(REPOSITORY / "configs" / "kustomize" / "sidecar")
    wanted = {"resources": ["scheduler.yaml"], "components": ["component"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(wanted))

    made = subprocess.run(
        [cache.binary("kubernetes", "kubectl"), "kustomize", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    objects = [each for each in yaml.safe_load_all(made.stdout) if each["kind"] == "Deployment"]
    chart.apply(plane, objects, "--dry-run=server")

    (deployment,) = objects
    spec = deployment["spec"]["template"]["spec"]
    (before,) = [
        each for each in yaml.safe_load_all(source) if each and each["kind"] == "Deployment"
    ]
    original = before["spec"]["template"]["spec"]
    names = [container["name"] for container in spec["containers"]]
    assert sorted(names) == sorted(
        ["dragoman", *(container["name"] for container in original["containers"])]
    )
    assert len(spec["volumes"]) == len(original.get("volumes", ())) + 1


# Its chart is not at hand: what its Deployment is called, and what the patch could disturb.
# Source: koordinator-sh/charts, versions/v0.5.0/templates/koord-scheduler.yaml.
KOORD_SCHEDULER: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "koord-scheduler", "namespace": "koordinator-system"},
    "spec": {
        "selector": {"matchLabels": {"koord-app": "koord-scheduler"}},
        "template": {
            "metadata": {"labels": {"koord-app": "koord-scheduler"}},
            "spec": {
                "serviceAccountName": "koord-scheduler",
                "containers": [
                    {
                        "name": "scheduler",
                        "image": "koordinator-sh/koord-scheduler:v1.8.0",
                        "args": ["--config=/config/koord-scheduler.config"],
                        "volumeMounts": [
                            {"name": "koord-scheduler-config", "mountPath": "/config"}
                        ],
                    }
                ],
                "volumes": [
                    {
                        "name": "koord-scheduler-config",
                        "configMap": {"name": "koord-scheduler-config"},
                    }
                ],
            },
        },
    },
}
