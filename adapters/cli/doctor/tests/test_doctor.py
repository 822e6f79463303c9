"""Each way in which an installation goes wrong is found, and nothing else is."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from adapters.cli.configure.command import default
from adapters.cli.configure.options import Asked, ConfigureOptions, Scheduler, SchedulerMode
from adapters.cli.doctor.command import exit_status
from adapters.cli.doctor.finding import CheckResult, FindingLevel, as_plain, show
from adapters.cli.doctor.tests.sound_cluster import (
    DAY,
    NAME,
    NAMESPACE,
    Object,
    SoundCluster,
    a_node,
    a_pod,
    a_sound_cluster,
    add_scheduler,
    set_certificate,
)
from adapters.cli.main import app
from adapters.cli.output.page import TextPage

OK, WARNING, ERROR = FindingLevel
SIDECAR = Path(__file__).parents[4] / "configs" / "kustomize" / "sidecar" / "sidecar.yaml"
SHARE = {"name": "main", "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}


def test_in_a_sound_cluster_every_finding_is_ok_and_nothing_is_written() -> None:
    cluster = a_sound_cluster()

    findings = cluster.findings()

    assert [each for each in findings if each.level is not OK] == []
    assert {each.check for each in findings} == {
        "cluster", "service", "schedulers", "webhooks", "certificates", "permissions", "agents",
        "injectors",
    }  # fmt: skip
    assert cluster.writes == []
    assert exit_status(findings) == 0


def old(cluster: SoundCluster) -> None:
    cluster.version = "v1.29.4"


def without_kind(cluster: SoundCluster) -> None:
    cluster.objects["customresourcedefinitions"] = []


def not_established(cluster: SoundCluster) -> None:
    (definition,) = cluster.objects["customresourcedefinitions"]
    definition["status"] = {}


def other_version(cluster: SoundCluster) -> None:
    (definition,) = cluster.objects["customresourcedefinitions"]
    definition["spec"]["versions"] = [{"name": "v2", "served": True}]


def no_replica(cluster: SoundCluster) -> None:
    cluster.find("deployments")["status"] = {}


def one_replica(cluster: SoundCluster) -> None:
    cluster.find("deployments")["status"] = {"readyReplicas": 1}


def not_ready(cluster: SoundCluster) -> None:
    cluster.ready = (503, b"waits for the first list of: ledgers\n")


def closed_port(cluster: SoundCluster) -> None:
    text = "error trying to reach service: dial tcp 10.244.1.7:9595: i/o timeout"
    cluster.ready = (503, {"kind": "Status", "message": text})


def of_webhooks(cluster: SoundCluster) -> list[Object]:
    webhooks: list[Object] = cluster.find("mutatingwebhookconfigurations")["webhooks"]
    return webhooks


def one_webhook(cluster: SoundCluster) -> None:
    del of_webhooks(cluster)[1]


def ignoring(cluster: SoundCluster) -> None:
    of_webhooks(cluster)[0]["failurePolicy"] = "Ignore"


def holding_up(cluster: SoundCluster) -> None:
    of_webhooks(cluster)[1]["failurePolicy"] = "Fail"


def uncovered(cluster: SoundCluster) -> None:
    cluster.add(a_pod("train", "kube-system", SHARE))


def refused_webhook(cluster: SoundCluster) -> None:
    text = 'failed calling webhook "pods.dragoman.dev": x509: unknown authority'
    cluster.admission = (500, {"kind": "Status", "message": text})


def not_asked(cluster: SoundCluster) -> None:
    cluster.admission = (201, a_pod("dragoman-doctor", "default", SHARE))


def quota(cluster: SoundCluster) -> None:
    cluster.admission = (403, {"kind": "Status", "message": "exceeded quota: small"})


def ended(cluster: SoundCluster) -> None:
    set_certificate(cluster, life=-60)


def ending(cluster: SoundCluster) -> None:
    set_certificate(cluster, life=2 * DAY)


def of_another_host(cluster: SoundCluster) -> None:
    set_certificate(cluster, host="other.svc")


def empty_secret(cluster: SoundCluster) -> None:
    del cluster.find("secrets", f"{NAME}-tls")["data"]


def unreadable_certificate(cluster: SoundCluster) -> None:
    cluster.find("secrets", f"{NAME}-tls")["data"]["tls.crt"] = "eA=="


def another_authority(cluster: SoundCluster) -> None:
    before = of_webhooks(cluster)[0]["clientConfig"]["caBundle"]
    set_certificate(cluster)
    of_webhooks(cluster)[0]["clientConfig"]["caBundle"] = before


def no_bundle(cluster: SoundCluster) -> None:
    del of_webhooks(cluster)[0]["clientConfig"]["caBundle"]


def missing_right(cluster: SoundCluster) -> None:
    cluster.forbidden.add(("create", "events"))


def no_agents(cluster: SoundCluster) -> None:
    cluster.objects["daemonsets"] = []


def agent_missing(cluster: SoundCluster) -> None:
    cluster.add(a_node("n2"))


def agent_down(cluster: SoundCluster) -> None:
    cluster.objects["nodes"] = [a_node(runtime="containerd://1.7.24")]
    cluster.find("pods", f"{NAME}-node-abc")["status"]["conditions"] = []


def nothing_reported(cluster: SoundCluster) -> None:
    del cluster.find("nodeledgers", "n1")["status"]


def some_agents(cluster: SoundCluster) -> None:
    status = {"desiredNumberScheduled": 3, "numberReady": 1}
    cluster.find("daemonsets", f"{NAME}-node")["status"] = status


def with_hami(cluster: SoundCluster) -> None:
    containers = [{"name": "plugin", "image": "projecthami/hami:v2.6.1"}]
    spec = {"template": {"spec": {"containers": containers}}}
    meta = {"name": "hami-device-plugin", "namespace": "kube-system"}
    cluster.add({"kind": "DaemonSet", "metadata": meta, "spec": spec})


def hami_settings(cluster: SoundCluster, text: str) -> None:
    meta = {"name": "hami-scheduler-device", "namespace": "kube-system"}
    data = {"device-config.yaml": text}
    cluster.add({"kind": "ConfigMap", "metadata": meta, "data": data})


def renamed(cluster: SoundCluster) -> None:
    hami_settings(cluster, "nvidia: {resourceCountName: nvidia.com/vgpu}")
    limits = {"nvidia.com/vgpu": "1", "example.org/other": "1"}
    container = {"name": "main", "resources": {"limits": limits}}
    cluster.add(a_pod("train", "default", container))


def of_another_release(cluster: SoundCluster) -> None:
    """HAMi's chart names it so for the release ``gpu``: charts/hami/templates/_helpers.tpl."""
    hami_settings(cluster, "nvidia: {defaultMemory: 1000}")
    meta = cluster.find("configmaps", "hami-scheduler-device")["metadata"]
    meta["name"] = "gpu-hami-scheduler-device"
    meta["labels"] = {"app.kubernetes.io/component": "hami-scheduler"}


def in_another_namespace(cluster: SoundCluster) -> None:
    of_another_release(cluster)
    cluster.find("configmaps", "gpu-hami-scheduler-device")["metadata"] |= {
        "name": "hami-scheduler-device",
        "namespace": "gpu",
    }


def renamed_and_covered(cluster: SoundCluster) -> None:
    renamed(cluster)
    for webhook in of_webhooks(cluster):
        for condition in webhook["matchConditions"]:
            expression = condition["expression"]
            condition["expression"] = expression.replace("'nvidia.com/gpu'", "'nvidia.com/'")


def unreadable_settings(cluster: SoundCluster) -> None:
    hami_settings(cluster, "nvidia: {defaultMemory: much}")


@pytest.mark.parametrize(
    ("break_it", "level", "text"),
    [
        (old, ERROR, "the API server is Kubernetes v1.29.4"),
        (without_kind, ERROR, "the kind NodeLedger is not defined"),
        (not_established, ERROR, "the definition of NodeLedger is not established"),
        (other_version, ERROR, "NodeLedger is served in v2, not in v1alpha1"),
        (no_replica, ERROR, "0 of 2 replicas of dragoman-system/dragoman"),
        (one_replica, WARNING, "1 of 2 replicas of dragoman-system/dragoman"),
        (not_ready, ERROR, "503 waits for the first list of: ledgers"),
        (
            closed_port,
            WARNING,
            "does not reach port http of dragoman-system/dragoman, which is ready",
        ),
        (one_webhook, ERROR, "has no webhook bindings.dragoman.dev"),
        (ignoring, WARNING, "pods.dragoman.dev has failurePolicy Ignore"),
        (holding_up, WARNING, "bindings.dragoman.dev has failurePolicy Fail"),
        (uncovered, WARNING, "pods request a share: kube-system"),
        (
            refused_webhook,
            ERROR,
            "cannot ask dragoman-system/dragoman: failed calling",
        ),
        (
            not_asked,
            ERROR,
            "admits a pod with a share in the namespace default without",
        ),
        (quota, WARNING, "is not known: exceeded quota: small"),
        (renamed, WARNING, "pods that request nvidia.com/vgpu pass the webhook pods.dragoman.dev"),
        (
            of_another_release,
            ERROR,
            "does not read ConfigMap kube-system/gpu-hami-scheduler-device",
        ),
        (in_another_namespace, ERROR, "does not read ConfigMap gpu/hami-scheduler-device"),
        (unreadable_settings, WARNING, "ConfigMap hami-scheduler-device"),
        (ended, ERROR, "dragoman-tls ended on"),
        (ending, WARNING, "dragoman-tls ends on"),
        (of_another_host, ERROR, "is for other.svc, not dragoman.dragoman-system.svc"),
        (empty_secret, ERROR, "dragoman-tls has no tls.crt yet"),
        (
            unreadable_certificate,
            ERROR,
            "a certificate of dragoman-system/dragoman cannot",
        ),
        (another_authority, ERROR, "caBundle of pods.dragoman.dev has no authority"),
        (no_bundle, ERROR, "pods.dragoman.dev has no caBundle"),
        (no_agents, ERROR, "no DaemonSet has the labels"),
        (agent_missing, ERROR, "node n2 states cards, and no agent runs there"),
        (agent_down, ERROR, "on node n1 is not ready (containerd://1.7.24)"),
        (nothing_reported, WARNING, "the agent on node n1 has reported no cards"),
        (
            some_agents,
            WARNING,
            "1 of 3 agents of dragoman-system/dragoman-node are ready",
        ),
        (with_hami, WARNING, "HAMi (kube-system/hami-device-plugin): its scheduler"),
    ],
)
def test_one_thing_that_is_wrong_is_one_finding_with_a_remedy(
    break_it: Callable[[SoundCluster], None], level: FindingLevel, text: str
) -> None:
    cluster = a_sound_cluster()
    break_it(cluster)

    (found,) = cluster.problems()

    assert found.level is level
    assert text in found.text
    assert found.remedy


def test_a_renamed_resource_that_the_chart_covers_is_no_finding() -> None:
    cluster = a_sound_cluster()
    renamed_and_covered(cluster)

    assert cluster.problems() == []


def test_a_port_without_an_answer_is_an_error_where_a_replica_is_not_ready() -> None:
    cluster = a_sound_cluster()
    closed_port(cluster)
    one_replica(cluster)

    assert [each.level for each in cluster.problems()] == [WARNING, ERROR]


def test_an_agent_that_is_not_ready_on_containerd_1_7_gets_the_remedy_for_nri() -> None:
    cluster = a_sound_cluster()
    agent_down(cluster)

    (found,) = cluster.problems()

    assert "NRI is disabled in containerd 1.7 unless" in found.remedy


def test_a_webhook_may_call_the_service_by_a_url() -> None:
    cluster = a_sound_cluster()
    for webhook in of_webhooks(cluster):
        client = webhook["clientConfig"]
        webhook["clientConfig"] = {"url": "https://x/", "caBundle": client["caBundle"]}

    assert cluster.problems() == []


def test_a_right_that_both_accounts_lack_is_a_finding_for_each() -> None:
    cluster = a_sound_cluster()
    missing_right(cluster)

    assert [each.text for each in cluster.problems()] == [
        f"the service account {NAMESPACE}/{name} may not create events.events.k8s.io"
        for name in (NAME, f"{NAME}-node")
    ]


def test_the_right_to_evict_is_asked_for_where_preemption_is_enabled() -> None:
    cluster = a_sound_cluster()
    cluster.forbidden.add(("create", "pods/eviction"))
    assert cluster.problems() == []
    evict(cluster)

    (found,) = cluster.problems()

    assert "may not create pods/eviction" in found.text


def evict(cluster: SoundCluster) -> None:
    data = cluster.find("configmaps")["data"]
    (file,) = (name for name in data if name.endswith("sidecar.yaml"))
    data[file] = yaml.safe_dump({**yaml.safe_load(data[file]), "preemption": {"enabled": True}})


def test_priorities_of_pods_with_shares_are_a_finding_where_none_is_evicted() -> None:
    cluster = a_sound_cluster()
    cluster.add(a_pod("low", "default", SHARE))
    cluster.add(a_pod("plain", "team", {"name": "main"}, priority=7))
    assert cluster.problems() == []
    cluster.add(a_pod("high", "default", SHARE, priority=1000))

    (found,) = cluster.problems()
    evict(cluster)

    assert (found.check, found.level) == ("schedulers", WARNING)
    assert found.text.startswith(
        "pods with shares have 2 different priorities, and none is evicted"
    )
    assert "preemption.enabled=true" in found.remedy
    assert cluster.problems() == []


def test_priorities_are_no_finding_where_only_vc_scheduler_asks() -> None:
    cluster = only()
    add_scheduler(cluster, Scheduler.VOLCANO)
    cluster.add(a_pod("low", "default", SHARE))
    cluster.add(a_pod("high", "default", SHARE, priority=1000))

    assert texts(cluster) == []


def test_without_an_installation_the_remedy_is_to_install() -> None:
    cluster = SoundCluster()

    found = {each.check: each for each in cluster.problems()}

    assert "helm install" in found["service"].remedy
    assert found["schedulers"].level is WARNING


ALL = (
    "pods", "nodes", "namespaces", "services", "deployments", "daemonsets", "secrets",
    "mutatingwebhookconfigurations", "nodeledgers", "customresourcedefinitions", "configmaps",
    "networkpolicies", "subjectaccessreviews", "proxy", "dryRun",
)  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_what_the_user_may_not_read_is_a_warning_and_never_an_error_of_the_cluster(
    kind: str,
) -> None:
    cluster = a_sound_cluster()
    cluster.refused.add(kind)

    problems = cluster.problems()

    assert problems
    assert {each.level for each in problems} == {WARNING}
    assert any("forbidden" in each.text for each in problems)


def only(*schedulers: Object) -> SoundCluster:
    """The sound cluster with only these schedulers."""
    cluster = a_sound_cluster()
    for plural in ("pods", "configmaps"):
        found = cluster.objects[plural]
        cluster.objects[plural] = [x for x in found if x["metadata"]["namespace"] == NAMESPACE]
    cluster.objects["pods"] += schedulers
    return cluster


def with_options(**options: str) -> SoundCluster:
    cluster = only()
    add_scheduler(cluster, Scheduler.KUBE, ConfigureOptions(**options))  # type: ignore[arg-type]
    return cluster


def texts(cluster: SoundCluster) -> list[tuple[FindingLevel, str]]:
    return [(each.level, each.text) for each in cluster.problems() if each.check == "schedulers"]


def test_a_scheduler_that_does_not_ask_and_is_the_only_one_leaves_all_to_the_webhook() -> None:
    cluster = only()
    add_scheduler(cluster, Scheduler.VOLCANO, text=default(Scheduler.VOLCANO).text)

    (first, second) = texts(cluster)

    assert first[0] is WARNING
    assert "vc-scheduler (kube-system/vc-scheduler) does not ask Dragoman" in first[1]
    assert second[0] is WARNING
    assert second[1].startswith("no scheduler asks Dragoman as it must: nodes are chosen by sums")


@pytest.mark.parametrize("known", [True, False])
def test_an_agent_that_the_values_switched_off_is_no_finding(known: bool) -> None:
    cluster = a_sound_cluster()
    cluster.objects["daemonsets"] = []
    config = cluster.find("configmaps")
    file = yaml.safe_load(config["data"]["sidecar.yaml"])
    del file["agentPort"]
    config["data"]["sidecar.yaml"] = yaml.safe_dump(file) if known else ""

    found = [each.level for each in cluster.findings() if each.check == "agents"]

    assert found == [OK if known else ERROR]


@pytest.mark.parametrize("scheduler", [Scheduler.VOLCANO, Scheduler.KOORD])
@pytest.mark.parametrize("ask", [Asked.OTHERS, Asked.NONE])
def test_a_scheduler_in_native_mode_is_sound_whether_it_asks_or_not(
    scheduler: Scheduler, ask: Asked
) -> None:
    cluster = only()
    add_scheduler(cluster, scheduler, ConfigureOptions(mode=SchedulerMode.NATIVE, ask=ask))

    assert texts(cluster) == []


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("percentageOfNodesToScore: 100", ""),
        ("ignorable: true", "ignorable: false"),
        ("{name: nvidia.com/gpu}", "{name: nvidia.com/gpu, ignoredByScheduler: true}"),
    ],
)
def test_a_configuration_that_lacks_a_part_is_an_error_with_the_command(
    part: str, instead: str
) -> None:
    cluster = only()
    add_scheduler(cluster, Scheduler.KUBE)
    config = cluster.find("configmaps", "kube-scheduler")
    text = config["data"]["config.yaml"]
    assert part in text
    config["data"]["config.yaml"] = text.replace(part, instead)

    found = next(each for each in cluster.problems() if each.check == "schedulers")

    assert found.level is ERROR
    assert "lacks what that needs" in found.text
    assert "| dragoman configure kube-scheduler --diff" in found.remedy


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://dragoman.other.svc:9595", "there is no Service other/dragoman"),
        ("http://dragoman.dragoman-system.svc:1", "has no port 1"),
        ("http://10.96.7.7:1", "has no port 1"),
        ("http://10.96.0.99:9595", "is no Service of this cluster"),
        ("http://127.0.0.1:9595", "none of its containers is the service"),
    ],
)
def test_an_address_that_leads_nowhere_is_found(url: str, text: str) -> None:
    found = texts(with_options(url=url))

    assert any(text in each for _, each in found)


@pytest.mark.parametrize(
    "url", ["http://10.96.7.7:9595", "http://dragoman.dragoman-system.svc.cluster.local:9595"]
)
def test_an_address_of_the_service_is_good(url: str) -> None:
    assert texts(with_options(url=url)) == []


def test_a_scheduler_on_the_hosts_network_needs_an_address_that_the_host_knows() -> None:
    cluster = only()
    add_scheduler(cluster, Scheduler.KUBE, hostNetwork=True)

    found = next(each for each in cluster.problems() if each.check == "schedulers")

    assert "whose DNS does not know dragoman.dragoman-system.svc" in found.text
    assert "--url http://10.96.7.7:9595" in found.remedy


AT_THE_PORT = "NetworkPolicies of dragoman-system (dragoman) do not admit"


def test_a_scheduler_whose_namespace_no_network_policy_admits_is_found() -> None:
    cluster = only()
    pod = add_scheduler(cluster, Scheduler.KOORD)
    pod["metadata"]["namespace"] = "elsewhere"
    cluster.find("configmaps", "koord-scheduler")["metadata"]["namespace"] = "elsewhere"

    (found,) = texts(cluster)

    assert found == (WARNING, f"{AT_THE_PORT} elsewhere/koord-scheduler at port 9595")


def test_a_scheduler_on_the_hosts_network_is_admitted_by_the_address_of_its_node() -> None:
    cluster = only()
    options = ConfigureOptions(url="http://10.96.7.7:9595")
    pod = add_scheduler(cluster, Scheduler.KUBE, options, hostNetwork=True)
    pod["status"]["hostIP"] = "172.18.0.4"

    (found,) = texts(cluster)
    assert found == (WARNING, f"{AT_THE_PORT} kube-system/kube-scheduler at port 9595")

    (rule, _) = cluster.find("networkpolicies")["spec"]["ingress"]
    rule["from"].append({"ipBlock": {"cidr": "172.18.0.4/32"}})
    assert texts(cluster) == []


@pytest.mark.parametrize(
    "sidecar",
    [
        yaml.safe_load(SIDECAR.read_text())["spec"]["template"]["spec"]["containers"][0],
        {"name": "ledger", "image": "x/dragoman:1", "args": ["serve"]},
        {"name": "dragoman", "image": "x/y/service@sha256:1", "args": ["serve"]},
    ],
)
def test_a_sidecar_in_the_schedulers_pod_is_reached_by_loopback(sidecar: Object) -> None:
    cluster = only()
    options = ConfigureOptions(url="http://127.0.0.1:9595")
    pod = add_scheduler(cluster, Scheduler.VOLCANO, options)
    pod["spec"]["containers"].append(sidecar)

    assert texts(cluster) == []


def test_a_static_pods_file_is_not_known_and_no_error() -> None:
    command = ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"]
    container = {"name": "kube-scheduler", "image": "x/kube-scheduler:v1", "command": command}
    cluster = only(a_pod("kube-scheduler-a", "kube-system", container, nodeName="a"))

    (found,) = texts(cluster)

    assert found[0] is WARNING
    assert "/etc/kubernetes/scheduler.yaml, which comes from no ConfigMap" in found[1]


def test_a_configuration_that_cannot_be_parsed_is_an_error() -> None:
    cluster = only()
    add_scheduler(cluster, Scheduler.KUBE)
    config = cluster.find("configmaps", "kube-scheduler")
    config["data"]["config.yaml"] = "kind: KubeSchedulerConfiguration\n  x: ["

    assert any("is not YAML" in text for _, text in texts(cluster))


def test_json_has_the_counts_and_every_finding() -> None:
    findings = [
        CheckResult("cluster", OK, "a"),
        CheckResult("agents", ERROR, "b", "c"),
    ]

    found = as_plain(findings)

    assert found["counts"] == {"ok": 1, "warning": 0, "error": 1}
    assert found["findings"][1] == {
        "check": "agents",
        "level": "error",
        "text": "b",
        "remedy": "c",
    }
    assert exit_status(findings) == 1


def test_the_last_line_counts_in_english() -> None:
    written: list[str] = []

    show([CheckResult("agents", ERROR, "b", "c")], TextPage(written.append))

    assert written[-1].strip() == "1 error, 0 warnings, 1 finding"


def test_a_cluster_that_cannot_be_reached_ends_with_2(tmp_path: Path) -> None:
    missing = tmp_path / "config"

    found = CliRunner().invoke(app, ["doctor", "--kubeconfig", str(missing)])

    assert found.exit_code == 2
    assert str(missing) in found.stderr
