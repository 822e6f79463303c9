"""JobSet, LeaderWorkerSet, Kueue: their definitions, controllers and webhooks, on loopback."""

import base64
import json
from typing import Any

import trustme

from e2e.harness.cluster.certificates import Pair
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.harness.schedulers.ecosystem_webhooks import accepts, kustomized, register
from e2e.harness.schedulers.schedulers import define
from e2e.testbed import cache

KUEUE = "kueue-system"


def start_jobset(plane: ControlPlane) -> None:
    """Start JobSet's controller.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    define(plane, cache.asset("jobset", "crd"))
    _start(plane, "jobset", "config.jobset.x-k8s.io/v1alpha1")


def start_lws(plane: ControlPlane) -> None:
    """Start LeaderWorkerSet's controller, which makes a group of Volcano for each of its groups.

    Other schedulers do not look at those; Volcano's definitions must be there. Errors as of
    ``start_jobset``.
    """
    define(plane, cache.asset("lws", "crd"))
    version, gangs = "config.lws.x-k8s.io/v1alpha1", {"schedulerProvider": "volcano"}
    _start(plane, "lws", version, gangSchedulingManagement=gangs)


def start_kueue(plane: ControlPlane, **resources: Any) -> None:
    """Start Kueue's controller, for Jobs and plain pods; ``resources`` as in its configuration.

    With certificates of others it wants those of its metrics in a folder of the machine. With its
    own it keeps those of its Secret that are valid: one that is also its own authority.
    Source: kueue v0.17.0 cmd/kueue/main.go; cert-controller v0.16.0 pkg/rotator. Errors as of
    ``start_jobset``.
    """
    names = ("127.0.0.1", "kueue-ca", f"kueue-webhook-service.{KUEUE}.svc")
    made = trustme.CA().issue_cert(*names, key_type=trustme.KeyType.RSA)
    files = {"crt": made.cert_chain_pems[0], "key": made.private_key_pem}
    serving = Pair(*(plane.run.folder / f"kueue-webhook.{end}" for end in files))
    serving.certificate.write_bytes(files["crt"].bytes())
    serving.key.write_bytes(files["key"].bytes())
    data = {
        f"{of}.{end}": base64.b64encode(blob.bytes()).decode()
        for of in ("ca", "tls")
        for end, blob in files.items()
    }
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": KUEUE}})
    secret = {"metadata": {"name": "kueue-webhook-server-cert"}, "data": data}
    plane.api.create(f"/api/v1/namespaces/{KUEUE}/secrets", secret)
    definitions = plane.run.folder / "kueue-definitions.yaml"
    definitions.write_text(kustomized(cache.asset("kueue", "definitions")))
    define(plane, definitions)
    _start(
        plane,
        "kueue",
        "config.kueue.x-k8s.io/v1beta2",
        serving,
        namespace=KUEUE,
        internalCertManagement={"enable": True},
        integrations={"frameworks": ["batch/job", "pod"]},
        featureGates={"VisibilityOnDemand": False},  # a server with a folder of the machine
        resources=resources,
    )


def _start(
    plane: ControlPlane, component: str, version: str, own: Pair | None = None, **more: Any
) -> None:
    """Start a controller with a configuration of this API version, and its ``own`` certificate."""
    webhook_port, health_port = free_ports(2)
    serving = own or plane.authority.server(f"{component}-webhook")  # not the name of a user
    certificates = plane.run.folder / f"{component}-certificates"
    certificates.mkdir()
    (certificates / "tls.crt").symlink_to(serving.certificate)
    (certificates / "tls.key").symlink_to(serving.key)
    configuration = plane.run.folder / f"{component}.yaml"
    settings = {
        "apiVersion": version,
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificates)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        **more,
    }
    configuration.write_text(json.dumps(settings))
    user = plane.kubeconfig(component, "system:masters")
    flags: Flags = {"config": configuration, "kubeconfig": user}
    plane.run.start(
        component,
        [cache.binary(component, component), *words(flags)],
        ready=lambda: accepts(webhook_port),
    )
    register(
        plane.api,
        kustomized(cache.asset(component, "webhook")),
        f"https://127.0.0.1:{webhook_port}",
        prefix=f"{component}-",
        authority=own.certificate if own else plane.authority.pair.certificate,
    )
