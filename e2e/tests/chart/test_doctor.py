"""``dragoman doctor`` on a real API server, in which helm has installed the chart."""

import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.ready_cluster import pod
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.ecosystem_webhooks import KOORDINATOR, VOLCANO
from e2e.harness.schedulers.manifests import (
    KOORD_ACCOUNT,
    VOLCANO_ACCOUNT,
    koord_rights,
    volcano_rights,
)
from e2e.harness.schedulers.service import Service

pytestmark = pytest.mark.local

COMMAND = (sys.executable, "-c", "from adapters.cli.main import main; main()")
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
SYSTEM = "/api/v1/namespaces/kube-system"
Findings = list[dict[str, str]]


def dragoman(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=100,
    )


def doctor(config: Path, status: int = 1) -> Findings:
    done = dragoman("doctor", "--kubeconfig", config, "-o", "json")
    assert done.returncode == status, done.stderr
    found: Findings = json.loads(done.stdout)["findings"]
    return found


def of(findings: Findings, check: str) -> list[tuple[str, str]]:
    return [(each["level"], each["text"]) for each in findings if each["check"] == check]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """The chart is installed; no controller makes pods of it."""
    with run() as this:
        plane = start_control_plane(this)
        config = f"--kubeconfig={plane.kubeconfig('admin', 'system:masters')}"
        namespace = f"--namespace={NAMESPACE}"
        chart.helm("install", RELEASE, chart.CHART, namespace, "--create-namespace", config)
        yield plane


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Path:
    return plane.kubeconfig("admin", "system:masters")


def test_an_installation_without_pods_has_its_rights_and_its_kind_and_nothing_else(
    admin: Path,
) -> None:
    def refused() -> bool:  # a webhook is known a moment after it was made
        return any("failed calling webhook" in text for _, text in of(doctor(admin), "webhooks"))

    within(60, refused)
    found = doctor(admin)

    assert {level for level, _ in of(found, "cluster")} == {"ok"}
    assert [level for level, _ in of(found, "permissions")] == ["ok", "ok"]
    service = of(found, "service")
    assert ("error", f"0 of 2 replicas of {NAMESPACE}/{RELEASE} are ready") in service
    assert any("/readyz" in text and level == "error" for level, text in service)
    assert of(found, "certificates") == [
        ("error", f"the Secret {NAMESPACE}/{RELEASE}-tls has no tls.crt yet")
    ]


def test_a_role_binding_that_was_deleted_is_found(plane: ControlPlane, admin: Path) -> None:
    path = f"{BINDINGS}/{RELEASE}-service"
    before = plane.api.get(path)
    plane.api.delete(path)
    missing = ("error", f"the service account {NAMESPACE}/{RELEASE} may not create pods/binding")

    within(60, lambda: missing in of(doctor(admin), "permissions"))

    before["metadata"] = {"name": before["metadata"]["name"]}
    plane.api.create(BINDINGS, before)
    within(60, lambda: of(doctor(admin), "permissions")[0][0] == "ok")


def test_a_user_without_rights_gets_warnings_and_no_error(plane: ControlPlane) -> None:
    found = doctor(account(plane, "default", "default"))

    assert {each["level"] for each in found} == {"ok", "warning"}
    assert any("pods cannot be read" in text for _, text in of(found, "cluster"))


def test_a_scheduler_is_judged_by_its_config_map(plane: ControlPlane, admin: Path) -> None:
    text = dragoman("configure", "vc-scheduler", "--new").stdout
    name, key = "volcano-scheduler-configmap", "volcano-scheduler.conf"
    config = {"metadata": {"name": name}, "data": {key: text}}
    made = plane.api.create(f"{SYSTEM}/configmaps", config)
    volumes = [{"name": "conf", "configMap": {"name": name}}]
    scheduler = pod("vc-scheduler", "none", {}, volumes=volumes)
    scheduler["spec"]["containers"][0] |= {
        "image": "example.org/vc-scheduler:v1",
        "args": [f"--scheduler-conf=/conf/{key}"],
        "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
    }
    plane.api.create(f"{SYSTEM}/pods", scheduler)
    who = "vc-scheduler (kube-system/vc-scheduler)"

    asking = of(doctor(admin), "schedulers")
    undone = dragoman("configure", "vc-scheduler", "--undo", "-f", _file(plane, text)).stdout
    plane.api.replace(f"{SYSTEM}/configmaps/{name}", made | {"data": {key: undone}})
    silent = of(doctor(admin), "schedulers")

    assert asking == [("ok", f"{who} asks Dragoman at {RELEASE}.{NAMESPACE}.svc:9595")]
    assert silent[0][0] == "warning"
    assert f"{who} does not ask Dragoman" in silent[0][1]
    assert silent[1][0] == "warning"
    assert silent[1][1].startswith("no scheduler asks Dragoman as it must")


@pytest.fixture
def schedulers_of_claims(plane: ControlPlane) -> Iterator[None]:
    """The installation reads claims, and both schedulers run with the rights of their own."""
    upgrade(plane, {"enabled": True})
    for namespace in (VOLCANO, KOORDINATOR):
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    chart.apply(plane, [*volcano_rights(), *koord_rights()])
    name, key = "volcano-scheduler-configmap", "volcano-scheduler.conf"
    text = "predicate.DynamicResourceAllocationEnable: true\n"
    settings = {"metadata": {"name": name}, "data": {key: text}}
    plane.api.create(f"/api/v1/namespaces/{VOLCANO}/configmaps", settings)
    volumes = [{"name": "conf", "configMap": {"name": name}}]
    volcano = pod("vc-scheduler", "none", {}, volumes=volumes, serviceAccountName=VOLCANO_ACCOUNT)
    volcano["spec"]["containers"][0] |= {
        "image": "example.org/vc-scheduler:v1",
        "args": [f"--scheduler-conf=/conf/{key}"],
        "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
    }
    plane.api.create(f"/api/v1/namespaces/{VOLCANO}/pods", volcano)
    koord = pod("koord-scheduler", "none", {}, serviceAccountName=KOORD_ACCOUNT)
    koord["spec"]["containers"][0]["image"] = "example.org/koord-scheduler:v1"
    plane.api.create(f"/api/v1/namespaces/{KOORDINATOR}/pods", koord)
    yield
    for namespace in (VOLCANO, KOORDINATOR):
        plane.api.delete(f"/api/v1/namespaces/{namespace}/pods")
    plane.api.delete(f"/api/v1/namespaces/{VOLCANO}/configmaps/{name}")
    upgrade(plane, {"enabled": False, "schedulers": []})


def upgrade(plane: ControlPlane, dra: Object) -> None:
    """Upgrade the release with these values of claims."""
    config = f"--kubeconfig={plane.kubeconfig('admin', 'system:masters')}"
    given = ("--reuse-values", "--set-json", f"dra={json.dumps(dra)}")
    chart.helm("upgrade", RELEASE, chart.CHART, f"--namespace={NAMESPACE}", config, *given)


@pytest.mark.usefixtures("schedulers_of_claims")
def test_a_scheduler_of_claims_without_its_rights_is_named_and_the_chart_gives_them(
    plane: ControlPlane, admin: Path
) -> None:
    volcano, koord = f"{VOLCANO}/{VOLCANO_ACCOUNT}", f"{KOORDINATOR}/{KOORD_ACCOUNT}"
    missing = "may not update resourceclaims/binding.resource.k8s.io"
    of_koord = ("ok", f"the service account {koord} of koord-scheduler may allocate claims")
    of_volcano = ("ok", f"the service account {volcano} of vc-scheduler may allocate claims")

    before = [each for each in doctor(admin) if each["check"] == "claims"]
    (found,) = (each for each in before if each["level"] == "warning")
    report = dragoman("doctor", "--transition", "--kubeconfig", admin, "-o", "json")
    in_the_way = [each["text"] for each in json.loads(report.stdout)["everywhere"]]
    account = yaml.safe_load(found["remedy"][len("add ") : found["remedy"].index(" to the chart")])
    upgrade(plane, {"schedulers": [account]})

    assert f"its service account {volcano} {missing}:" in found["text"]
    switches = ["dra.arbiter.enabled", "dra.shadows.enabled"]
    assert [text.split()[0] for text in in_the_way[:-1]] == switches
    assert in_the_way[-1] == f"{found['text']}: {found['remedy']}"
    assert of_koord in of(before, "claims")
    within(60, lambda: {of_koord, of_volcano} <= set(of(doctor(admin), "claims")))


def _file(plane: ControlPlane, text: str) -> Path:
    file = plane.run.folder / "scheduler.conf"
    file.write_text(text)
    return file


def test_the_services_own_certificate_and_its_webhooks_are_sound(
    plane: ControlPlane, admin: Path
) -> None:
    clear, secure = free_ports(2)
    managed = {
        "secret": f"{RELEASE}-tls",
        "names": ["127.0.0.1", f"{RELEASE}.{NAMESPACE}.svc"],
        "webhooks": [RELEASE],
    }
    tls = {"listen": f"127.0.0.1:{secure}", "managed": managed}
    configuration = plane.api.get(f"{CONFIGURATIONS}/{RELEASE}")
    before = deepcopy(configuration["webhooks"])
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-tls"
    for hook in configuration["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{secure}{path}"}
    plane.api.replace(f"{CONFIGURATIONS}/{RELEASE}", configuration)

    service = Service(plane, "dragoman", clear, secure, more={"tls": tls})
    service.start()

    def sound() -> bool:
        found = doctor(admin)
        rows = [*of(found, "webhooks"), *of(found, "certificates")]
        return {level for level, _ in rows} == {"ok"} and len(rows) == 6

    within(60, sound)
    assert service.stop() == 0  # the other tests need the installation as helm made it
    plane.api.merge(f"{CONFIGURATIONS}/{RELEASE}", {"webhooks": before})
    made = plane.api.get(secret)["data"]
    plane.api.merge(secret, {"data": dict.fromkeys(made)})
