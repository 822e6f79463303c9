"""The chart, as helm renders it: no cluster is needed."""

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from adapters.agent import config as node_config
from adapters.service.settings import settings as service_settings
from adapters.wire.agent_report import COMPONENT, LABELS
from e2e.harness.cluster import chart
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.chart import CHART, ChartError
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.run import REPOSITORY
from e2e.kind.documentation import blocks

pytestmark = pytest.mark.local

GOLDEN = Path(__file__).parent / "golden"
SETS = sorted(path.name.removesuffix(".values.yaml") for path in GOLDEN.glob("*.values.yaml"))


def values(name: str) -> Path:
    return GOLDEN / f"{name}.values.yaml"


def find(objects: list[Object], kind: str, name: str, namespace: str = "") -> Object:
    """The one object of a kind and a name."""
    (found,) = [
        each
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
        and namespace in ("", each["metadata"].get("namespace"))
    ]
    return found


@pytest.mark.parametrize("name", SETS)
def test_helm_lint_reports_nothing(name: str) -> None:
    said = chart.helm("lint", "--strict", CHART, "--values", values(name))

    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("name", SETS)
def test_the_chart_renders_as_the_golden_files(name: str, rewrite_golden: bool) -> None:
    golden = GOLDEN / f"{name}.golden.yaml"
    # The definition of ledgers is long, and is compared with its source elsewhere.
    parts = re.split(r"^---\n", chart.template(values(name)), flags=re.MULTILINE)
    text = "---\n".join(part for part in parts if "templates/crd.yaml" not in part)

    if rewrite_golden:
        golden.write_text(text)

    assert text == golden.read_text()


@pytest.mark.parametrize("name", SETS)
def test_the_settings_that_are_rendered_are_read_by_the_programs(name: str, tmp_path: Path) -> None:
    read = []
    for each in chart.render(values(name)):
        for key, text in (each.get("data") or {}).items() if each["kind"] == "ConfigMap" else ():
            file = tmp_path / key
            file.write_text(text)
            if key == "sidecar.yaml":
                read.append(service_settings.read(file, {}).store)
            elif key == "node.yaml":
                read.append(node_config.read(file).socket)

    assert read
    assert set(read) <= {"kubernetes", "/var/run/nri/nri.sock"}


@pytest.mark.parametrize("changed", [{}, {"nameOverride": "gpus"}, {"fullnameOverride": "gpus"}])
def test_the_agents_have_the_labels_by_which_they_are_found(changed: Object) -> None:
    (agents,) = [each for each in chart.render(changed) if each["kind"] == "DaemonSet"]
    template = agents["spec"]["template"]["metadata"]["labels"]

    assert LABELS.items() <= template.items()
    assert agents["metadata"]["labels"][COMPONENT] == "node"


@pytest.mark.parametrize("kind", ["nodeledgers", "sharequotas", "moveplans"])
def test_the_definition_of_a_kind_is_whole_and_kept(kind: str) -> None:
    rendered = find(chart.render({}), "CustomResourceDefinition", f"{kind}.dragoman.dev")
    wanted = yaml.safe_load((CHART / "files" / f"{kind}.yaml").read_text())

    assert rendered["spec"] == wanted["spec"]
    assert rendered["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_service_may_read_the_settings_of_the_schedulers_and_no_other_config_map() -> None:
    names = (CHART / "files" / "settings-names.txt").read_text().split()
    role = find(chart.render({}), "ClusterRole", "dragoman-service")
    rules = [rule for rule in role["rules"] if "configmaps" in rule["resources"]]

    assert [rule["resourceNames"] for rule in rules] == [names]


def test_no_account_may_write_where_it_need_not() -> None:
    writes = {"create", "update", "patch", "delete", "deletecollection", "*"}
    found: dict[str, set[str]] = {}
    for each in chart.render(values("everything")):
        for rule in each.get("rules") or () if each["kind"] == "ClusterRole" else ():
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
            assert "secrets" not in rule["resources"]
            if writes & set(rule["verbs"]) and "resourceNames" not in rule:
                found.setdefault(each["metadata"]["name"], set()).update(rule["resources"])

    assert found == {
        "dragoman-claim-scheduler": {
            "resourceclaims", "resourceclaims/binding", "resourceclaims/status",
        },
        "dragoman-mover": {"events", "moveplans/status", "pods/eviction"},
        "dragoman-node": {"events", "nodeledgers", "nodeledgers/status"},
        "dragoman-service": {
            "events", "moveplans/status", "nodeledgers", "nodes", "nodes/status", "pods",
            "pods/binding", "pods/eviction", "resourceclaims", "resourceclaims/binding",
            "sharequotas", "sharequotas/status", "subjectaccessreviews", "tokenreviews",
        },
    }  # fmt: skip


def test_the_agents_rights_are_the_ones_in_configs() -> None:
    access = list(yaml.safe_load_all((REPOSITORY / "configs/node-access.yaml").read_text()))
    rendered = chart.render({})

    for each in access:
        ours = find(rendered, each["kind"], "dragoman-node")
        for part in ("rules", "spec", "roleRef", "subjects"):
            assert ours.get(part) == each.get(part), each["kind"]


def test_rights_that_a_setting_needs_are_there_only_with_it() -> None:
    plain = chart.render({"service": {"settings": {"nodeLock": "never", "publish": []}}})
    role = find(plain, "ClusterRole", "dragoman-service")

    writable = [rule["resources"] for rule in role["rules"] if "patch" in rule["verbs"]]

    assert writable == [["pods"], ["events"]]
    assert not any(
        {"pods/eviction", "tokenreviews", "subjectaccessreviews"} & {*rule["resources"]}
        for rule in role["rules"]
    )


def test_plans_of_moves_need_rights_that_are_there_only_with_defrag() -> None:
    plain, moving = (chart.render({"defrag": {"enabled": enabled}}) for enabled in (False, True))
    of_plans = [
        {
            "apiGroups": ["dragoman.dev"],
            "resources": ["moveplans"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": ["dragoman.dev"], "resources": ["moveplans/status"], "verbs": ["patch"]},
    ]
    evicts = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    writes = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}

    before = find(plain, "ClusterRole", "dragoman-service")["rules"]
    after = find(moving, "ClusterRole", "dragoman-service")["rules"]

    assert find(moving, "ClusterRole", "dragoman-mover")["rules"] == [*of_plans, evicts, writes]
    assert [rule for rule in after if rule not in before] == of_plans
    assert [rule for rule in before if rule not in after] == []
    assert not [each for each in plain if each["metadata"]["name"] == "dragoman-mover"]
    settings = find(moving, "ConfigMap", "dragoman")["data"]["sidecar.yaml"]
    assert yaml.safe_load(settings)["moves"] == {"enabled": True}


def test_the_mover_has_the_bounds_of_the_values_and_the_confinement_of_the_service() -> None:
    rendered = chart.render({"defrag": {"enabled": True, "perHour": 7, "perNamespacePerHour": 3}})
    (container,) = find(rendered, "Deployment", "dragoman-mover")["spec"]["template"]["spec"][
        "containers"
    ]
    (service,) = find(rendered, "Deployment", "dragoman")["spec"]["template"]["spec"]["containers"]

    assert container["args"] == ["mover", "--per-hour", "7", "--per-namespace-per-hour", "3"]
    for part in ("image", "imagePullPolicy", "securityContext"):
        assert container[part] == service[part]


def test_images_come_from_the_mirror_and_nowhere_else() -> None:
    images = re.findall(r"image: (\S+)", chart.template(values("everything")))

    assert len(images) == 9
    assert {image.split("/")[0] for image in images} == {"registry.example.com"}


def test_the_network_policy_admits_the_pod_of_helm_test_which_asks_the_services_port() -> None:
    rendered = chart.render({"service": {"port": 9596}})
    pod = find(rendered, "Pod", "dragoman-readiness")
    labels = pod["metadata"]["labels"]
    rules = find(rendered, "NetworkPolicy", "dragoman")["spec"]["ingress"]
    service = find(rendered, "Service", "dragoman")

    (http,) = [rule for rule in rules if rule["ports"] == [{"port": "http"}]]
    (admitted,) = [peer["podSelector"] for peer in http["from"] if "podSelector" in peer]
    (container,) = pod["spec"]["containers"]

    assert admitted["matchLabels"].items() <= labels.items()
    assert not service["spec"]["selector"].items() <= labels.items()
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "http://dragoman.dragoman-system.svc:9596/readyz" in container["command"][-1]


def test_the_ingress_has_no_route_that_binds_or_admits() -> None:
    (rule,) = find(chart.render(values("everything")), "Ingress", "dragoman")["spec"]["rules"]

    paths = [(each["path"], each["pathType"]) for each in rule["http"]["paths"]]

    assert paths == [("/", "Exact"), ("/api", "Prefix"), ("/static", "Prefix")]


def test_labels_and_spreading_of_the_user_are_added_and_the_selectors_stay() -> None:
    rendered = chart.render(values("everything"))
    deployment = find(rendered, "Deployment", "dragoman")["spec"]
    daemon_set = find(rendered, "DaemonSet", "dragoman-node")["spec"]
    pod = deployment["template"]["spec"]

    for spec in (deployment, daemon_set):
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert labels["cost-center"] == "gpu"
    assert [each["labelSelector"] for each in pod["topologySpreadConstraints"]] == [
        deployment["selector"]
    ]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert {"name": "DRAGOMAN_LOG_LEVEL", "value": "debug"} in pod["containers"][0]["env"]


def test_the_release_and_kube_system_are_never_asked_about() -> None:
    for name in ("defaults", "everything"):
        hooks = find(chart.render(values(name)), "MutatingWebhookConfiguration", "dragoman")
        for hook in hooks["webhooks"]:
            first = hook["namespaceSelector"]["matchExpressions"][0]
            assert first["operator"] == "NotIn"
            assert {"kube-system", NAMESPACE} <= set(first["values"])


@pytest.mark.parametrize("namespace", ["kube-system", "monitoring"])
def test_a_release_in_a_namespace_that_the_webhooks_exclude_is_refused(namespace: str) -> None:
    words = ("template", RELEASE, CHART, "--kube-version=1.37.1", f"--namespace={namespace}")
    excluded = "--set=webhooks.excludedNamespaces={kube-system,monitoring}"

    with pytest.raises(ChartError, match=f"{namespace} is in webhooks.excludedNamespaces"):
        chart.helm(*words, excluded)
    assert chart.helm(*words, excluded, "--set=webhooks.enabled=false")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"service": {"replicas": 0}}, "service.replicas|/service/replicas"),
        ({"service": {"replica": 2}}, "replica"),
        ({"service": {"settings": {"publish": ["amd"]}}}, "publish"),
        ({"service": {"settings": {"policy": {"node": "fast"}}}}, "policy"),
        ({"service": {"image": {"digest": "latest"}}}, "digest"),
        ({"imageRegistry": "https://registry.example.com"}, "imageRegistry"),
        ({"certificates": {"source": "letsencrypt"}}, "source"),
        ({"certificates": {"source": "secret"}}, "secretName"),
        ({"webhooks": {"failurePolicy": "Maybe"}}, "failurePolicy"),
        ({"webhooks": {"excludedNamespaces": []}}, "excludedNamespaces"),
        ({"webhooks": {"timeoutSeconds": 60}}, "timeoutSeconds"),
        ({"node": {"plugin": {"index": 50}}}, "index"),
        ({"node": {"inventory": {"source": "file"}}}, "file"),
        ({"node": {"hamiCore": {"libvgpuSoVersion": ""}}}, "libvgpuSoVersion"),
        ({"sidecars": [{"namespace": "volcano-system"}]}, "serviceAccount"),
        ({"service": {"ingress": {"enabled": True}}}, "host"),
        ({"service": {"settings": {"limits": {"connections": 1}}}}, "connections"),
        ({"service": {"extraEnv": [{"value": "x"}]}}, "name"),
        ({"webhooks": {"objectSelector": {"matchLabels": {"a": "b"}}}}, "objectSelector"),
        ({"monitoring": {"prometheusRule": {"enabled": "yes"}}}, "enabled"),
        ({"dra": {"arbiter": {"enabled": True}}}, "dra.arbiter.enabled needs dra.enabled"),
        ({"service": {"resources": {"limits": {"memory": "lots"}}}}, "/service/resources/limits"),
        ({"node": {"resources": {"requests": {"cpu": "-1"}}}}, "/node/resources/requests"),
        ({"dra": {"enabled": True, "schedulers": [{"namespace": "a"}]}}, "serviceAccount"),
        ({"dra": {"schedulers": [{"namespace": "a", "serviceAccount": "b"}]}}, "dra.enabled"),
        ({"colour": "blue"}, "colour"),
        ({"nameOverride": "UPPER_case"}, "/nameOverride"),
        ({"fullnameOverride": "1st"}, "/fullnameOverride"),
        ({"node": {"runtimeClassName": "Bad_Name"}}, "/node/runtimeClassName"),
        ({"service": {"priorityClassName": "Bad_Name"}}, "/service/priorityClassName"),
        ({"service": {"affinity": {"foo": 1}}}, "(?s)/service/affinity.*foo"),
        ({"node": {"tolerations": [{"operator": "Some"}]}}, "/node/tolerations/0/operator"),
        ({"service": {"topologySpreadConstraints": [{"maxSkew": 0}]}}, "/service/topologySpread"),
        *(
            ({"webhooks": {"namespaceSelector": {"matchExpressions": [expression]}}}, said)
            for expression, said in (
                ({"key": "a"}, "(?s)matchExpressions/0.*operator"),
                ({"key": "a", "operator": "In"}, "(?s)matchExpressions/0.*values"),
                ({"key": "a", "operator": "Exists", "values": ["b"]}, "matchExpressions/0/values"),
            )
        ),
        *(
            ({"service": {"enabled": False}, name: {"enabled": True}}, f"{name}.enabled needs")
            for name in ("defrag", "preemption")
        ),
        ({"daemon": {"hamiCore": {"image": {"tag": "v2.6.0"}}}}, "set node.hamiCore"),
    ],
)
def test_an_invalid_value_is_refused_by_its_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ChartError, match=said):
        chart.template(given)


@pytest.mark.parametrize("ours", [None, False])
def test_metaxs_manuals_value_sets_our_policy_where_that_is_not_set(ours: bool | None) -> None:
    policy = {} if ours is None else {"topologyAware": ours}
    given = {"metaxsGPUTopologyAware": True, "service": {"settings": {"policy": policy}}}

    settings = find(chart.render(given), "ConfigMap", "dragoman")["data"]["sidecar.yaml"]

    assert yaml.safe_load(settings)["policy"] == {"topologyAware": ours is None}


def test_the_patch_of_kustomize_is_the_container_of_the_chart() -> None:
    patch = yaml.safe_load((REPOSITORY / "configs/kustomize/sidecar/sidecar.yaml").read_text())
    target = {"namespace": "volcano-system", "serviceAccount": "volcano-scheduler"}
    rendered = find(chart.render({"sidecars": [target]}), "ConfigMap", "dragoman-sidecar")["data"]

    spec = patch["spec"]["template"]["spec"]

    assert yaml.safe_load(rendered["container.yaml"]) == spec["containers"][0]
    assert yaml.safe_load(rendered["volume.yaml"]) == spec["volumes"][0]
    assert yaml.safe_load(rendered["patch.yaml"])["spec"] == patch["spec"]


def test_every_parameter_of_hami_daemon_has_its_counterpart_in_the_readme_and_the_values() -> None:
    # Source: the parameter table of Koordinator's guide "GPU Share With HAMi".
    theirs = {
        "affinity", "tolerations", "hamiCore.libvgpuSoVersion", "hamiCore.image.repository",
        "hamiCore.image.tag", "hamiCore.imagePullPolicy", "hamiCore.resources",
        "vgpuMonitor.enabled",
    }  # fmt: skip
    rows = re.findall(r"^\| `daemon\.(\S+)` \| `(\S+)` \|", (CHART / "README.md").read_text(), re.M)
    known = yaml.safe_load((CHART / "values.yaml").read_text())

    assert {their for their, _ in rows} == theirs
    for _, ours in rows:
        place = known
        for part in ours.split("."):
            assert part in place, ours
            place = place[part]


def test_every_value_is_in_the_schema() -> None:
    schema = msgspec.json.decode((CHART / "values.schema.json").read_bytes())
    known = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(given: dict[str, Any], described: dict[str, Any], path: str) -> None:
        for key, value in given.items():
            assert key in described["properties"], f"{path}{key}"
            below = described["properties"][key]
            if isinstance(value, dict) and "properties" in below:
                compare(value, below, f"{path}{key}.")

    compare(known, schema, "")


def test_replicas_start_again_when_claims_are_enabled() -> None:
    """They read their settings once; without new pods the arbiter's webhook finds no route."""

    def annotations(given: dict[str, Any]) -> dict[str, str]:
        found = [each for each in chart.render(given) if each["kind"] == "Deployment"]
        said: dict[str, str] = found[0]["spec"]["template"]["metadata"]["annotations"]
        return said

    before, after = annotations({}), annotations({"dra": {"enabled": True}})

    assert before["checksum/settings"] != after["checksum/settings"]


def test_the_service_may_ask_the_metrics_of_the_agents_where_they_have_any() -> None:
    rendered = chart.render({"node": {"vgpuMonitor": {"port": 9999}}})
    labels = find(rendered, "Deployment", "dragoman")["spec"]["template"]["metadata"]["labels"]
    (rule,) = find(rendered, "NetworkPolicy", "dragoman-node")["spec"]["ingress"]
    (admitted,) = [peer["podSelector"] for peer in rule["from"] if "podSelector" in peer]

    assert rule["ports"] == [{"port": "metrics"}]
    assert admitted["matchLabels"].items() <= labels.items()
    assert _agent_port(rendered) == 9999
    assert _agent_port(chart.render({"node": {"vgpuMonitor": {"enabled": False}}})) is None
    assert _agent_port(chart.render({"node": {"enabled": False}})) is None


def _agent_port(rendered: list[Object]) -> int | None:
    settings = yaml.safe_load(find(rendered, "ConfigMap", "dragoman")["data"]["sidecar.yaml"])
    port: int | None = settings.get("agentPort")
    return port


def test_the_guides_switches_of_claims_are_the_charts() -> None:
    """Each command adds to the values of those before; at the end everything is off again."""
    commands = [
        line
        for heading in ("Turn claims on", "Turn claims off")
        for block in blocks("docs/guides/transition.md", heading)
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("helm upgrade")
    ]
    template: list[str | Path] = ["template", RELEASE, CHART, "--kube-version=1.37.1"]
    plain, rendered = chart.helm(*template), list[str]()

    for command in commands:
        template += [
            word for pair in pairwise(shlex.split(command)) if pair[0] == "--set" for word in pair
        ]
        rendered.append(chart.helm(*template))

    assert len(commands) == 4
    assert all(before != after for before, after in pairwise([plain, *rendered]))
    assert rendered[-1] == plain
