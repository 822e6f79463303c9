"""The ecosystems' own webhooks and node controllers, with the configurations that they ship.

Their webhook configurations name a Service of the cluster; here each URL on loopback takes its
place. Both programs put their authority's certificate into the configuration themselves.
"""

import base64
import http.client
import json
import socket
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import yaml

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.testbed import cache

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS = {
    "MutatingWebhookConfiguration": f"{REGISTRATIONS}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{REGISTRATIONS}/validatingwebhookconfigurations",
}
KOORDINATOR, VOLCANO = "koordinator-system", "volcano-system"
# The chart leaves out /pods/mutate, which the program itself has among its defaults.
ADMISSIONS = (
    "/jobs/mutate,/jobs/validate,/podgroups/validate,/queues/mutate,/queues/validate,/pods/mutate"
)


def start_koord_manager(plane: ControlPlane, gates: str = "") -> None:
    """Start Koordinator's webhooks and node resource controller; its definitions must be there.

    Args:
        plane: the control plane that it serves.
        gates: its ``--feature-gates``; its manifests set none.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    webhook_port, health_port = free_ports(2)
    _add_namespace(plane.api, KOORDINATOR)
    settings = {"colocation-config": json.dumps({"enable": True})}  # as its manifests have it
    plane.api.create(
        f"/api/v1/namespaces/{KOORDINATOR}/configmaps",
        {"metadata": {"name": "slo-controller-config"}, "data": settings},
    )
    manifests = kustomized(cache.asset("koordinator", "webhook"))
    register(plane.api, manifests, f"https://127.0.0.1:{webhook_port}")
    flags: Flags = {
        "kubeconfig": plane.kubeconfig("koord-manager", "system:masters"),
        "enable-leader-election": "false",
        "enable-pprof": "false",
        "metrics-addr": "0",
        "health-probe-addr": f"127.0.0.1:{health_port}",
        "config-namespace": KOORDINATOR,
        "feature-gates": gates,
    }
    environment = {
        "POD_NAMESPACE": KOORDINATOR,
        "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_PORT": str(webhook_port),
        "WEBHOOK_CERT_DIR": str(plane.run.folder / "koord-manager-certificates"),
        "MUTATING_WEBHOOK_NAME": "mutating-webhook-configuration",
        "VALIDATING_WEBHOOK_NAME": "validating-webhook-configuration",
    }
    binary = cache.binary("koordinator", "koord-manager")
    plane.run.start(
        "koord-manager",
        [binary, *words(flags)],
        ready=lambda: _answers(health_port, "/readyz"),
        environment=environment,
    )


def start_volcano_webhooks(plane: ControlPlane) -> None:
    """Start Volcano's webhook manager; its definitions must be there.

    Raises:
        NotBuiltError: it is not built, or helm is not.
        StartError: it does not start.
    """
    port, health_port = free_ports(2)
    helm, chart = cache.binary("helm", "helm"), cache.asset("volcano", "chart")
    chosen = "custom.enabled_admissions=" + ADMISSIONS.replace(",", "\\,")
    template: list[str | Path] = [helm, "template", "volcano", chart, f"--namespace={VOLCANO}"]
    template += ["--show-only=templates/webhooks.yaml", "--set", chosen]
    address = f"https://127.0.0.1:{port}"
    register(plane.api, _output(template), address)
    serving = plane.authority.server("vc-webhook-manager")
    flags: Flags = {
        "kubeconfig": plane.kubeconfig("volcano", "system:masters"),
        "enabled-admission": ADMISSIONS,
        "tls-cert-file": serving.certificate,
        "tls-private-key-file": serving.key,
        "ca-cert-file": plane.authority.pair.certificate,
        "admission-conf": chart / "config" / "volcano-admission.conf",
        "listen-address": "127.0.0.1",
        "port": port,
        "webhook-url": address,
        "enable-healthz": "true",
        "healthz-address": f"127.0.0.1:{health_port}",
        "graceful-shutdown-time": "1s",
    }
    binary = cache.binary("volcano", "vc-webhook-manager")
    plane.run.start(
        "vc-webhook-manager",
        [binary, *words(flags)],
        # It listens after it has seen to its configurations.
        ready=lambda: accepts(port),
    )


def register(
    api: Api, manifests: str, address: str, *, prefix: str = "", authority: Path | None = None
) -> None:
    """Create the webhook configurations among manifests, with URLs in the place of a service.

    Args:
        api: that asks the webhooks.
        manifests: YAML.
        address: of the server, as a URL.
        prefix: of the configurations' names.
        authority: whose certificate the API server trusts; None where the program sees to it.
    """
    trust = {"caBundle": base64.b64encode(authority.read_bytes()).decode()} if authority else {}
    for document in yaml.safe_load_all(manifests):
        if document and document["kind"] in COLLECTIONS:
            document["metadata"]["name"] = prefix + document["metadata"]["name"]
            for hook in document["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"{address}{path}", **trust}
            api.create(COLLECTIONS[document["kind"]], document)


def kustomized(folder: Path) -> str:
    """The manifests of a kustomization, as YAML."""
    return _output([cache.binary("kubernetes", "kubectl"), "kustomize", folder])


def _add_namespace(api: Api, name: str) -> None:
    labels = {"control-plane": "koordinator"}  # its webhooks leave such namespaces alone
    api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


def accepts(port: int) -> bool:
    """Whether a server on this machine listens there."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def _answers(port: int, path: str) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK


def _output(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
