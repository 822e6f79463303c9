"""JobSet and LeaderWorkerSet: their definitions, controllers and webhooks, on loopback."""

import json
from typing import Any

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.harness.schedulers.ecosystem_webhooks import accepts, kustomized, register
from e2e.harness.schedulers.schedulers import define
from e2e.testbed import cache


def start_jobset(plane: ControlPlane) -> None:
    """Start JobSet's controller.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    _start(plane, "jobset", "config.jobset.x-k8s.io/v1alpha1")


def start_lws(plane: ControlPlane) -> None:
    """Start LeaderWorkerSet's controller, which makes a group of Volcano for each of its groups.

    Other schedulers do not look at those; Volcano's definitions must be there. Errors as of
    ``start_jobset``.
    """
    gangs = {"gangSchedulingManagement": {"schedulerProvider": "volcano"}}
    _start(plane, "lws", "config.lws.x-k8s.io/v1alpha1", **gangs)


def _start(plane: ControlPlane, component: str, version: str, **more: Any) -> None:
    """Start a controller with a configuration of this API version."""
    webhook_port, health_port = free_ports(2)
    serving = plane.authority.server(f"{component}-webhook")  # not the name of a user
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
    define(plane, cache.asset(component, "crd"))
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
        authority=plane.authority.pair.certificate,
    )
