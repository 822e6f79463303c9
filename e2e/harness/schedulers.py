"""Stock schedulers, each with the configuration that a test gives it.

They run as members of ``system:masters``: what they may do is their charts' business, and the
tests are about what they do.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.control_plane import ControlPlane
from e2e.harness.flags import Flags, words
from e2e.harness.ports import free_ports
from e2e.testbed import cache

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def start_kube_scheduler(plane: ControlPlane, configuration: Mapping[str, Any]) -> None:
    """Start kube-scheduler.

    Args:
        plane: the control plane that it serves.
        configuration: ``KubeSchedulerConfiguration`` without ``clientConnection``.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    _start_kubernetes_like(plane, "kubernetes", "kube-scheduler", configuration)


def start_koord_scheduler(plane: ControlPlane, configuration: Mapping[str, Any]) -> None:
    """Start koord-scheduler and what it needs of Koordinator's definitions.

    Args:
        plane: the control plane that it serves.
        configuration: ``KubeSchedulerConfiguration`` without ``clientConnection``.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    define(plane, cache.asset("koordinator", "crd"))
    _start_kubernetes_like(plane, "koordinator", "koord-scheduler", configuration)


def start_volcano(plane: ControlPlane, configuration: str) -> None:
    """Start Volcano's scheduler and controllers, with their definitions.

    Args:
        plane: the control plane that they serve.
        configuration: ``volcano-scheduler.conf``, as in its ConfigMap.

    Raises:
        NotBuiltError: Volcano is not built.
        StartError: a part does not start.
    """
    define(plane, cache.asset("volcano", "crd"))
    scheduler_port, manager_port = free_ports(2)
    config = plane.run.folder / "volcano-scheduler.conf"
    config.write_text(configuration)
    common: Flags = {
        "kubeconfig": plane.kubeconfig("volcano", "system:masters"),
        "leader-elect": "false",
        "enable-healthz": "true",
    }
    manager = common | {"healthz-address": f"127.0.0.1:{manager_port}"}
    plane.run.start(
        "vc-controller-manager",
        [cache.binary("volcano", "vc-controller-manager"), *words(manager)],
    )
    scheduler = common | {
        "healthz-address": f"127.0.0.1:{scheduler_port}",
        "scheduler-conf": config,
        "cache-dumper": "false",
    }
    plane.run.start("vc-scheduler", [cache.binary("volcano", "vc-scheduler"), *words(scheduler)])


def define(plane: ControlPlane, folder: Path) -> None:
    """Create every custom resource definition in a folder."""
    for file in sorted(folder.rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            if document and document["kind"] == "CustomResourceDefinition":
                plane.api.create(CRDS, document)
                name = document["metadata"]["name"]
                plane.run.processes[0].wait_until(partial(_is_served, plane, name))


def _is_served(plane: ControlPlane, name: str) -> bool:
    rows = plane.api.get(f"{CRDS}/{name}").get("status", {}).get("conditions", ())
    return any(row["type"] == "Established" and row["status"] == "True" for row in rows)


def _start_kubernetes_like(
    plane: ControlPlane, component: str, name: str, configuration: Mapping[str, Any]
) -> None:
    (port,) = free_ports(1)
    user = plane.kubeconfig(name, "system:masters")
    config = plane.run.folder / f"{name}.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(user)},
                **configuration,
            }
        )
    )
    flags: Flags = {
        "config": config,
        "authentication-kubeconfig": user,
        "authorization-kubeconfig": user,
        "bind-address": "127.0.0.1",
        "secure-port": port,
    }
    plane.run.start(name, [cache.binary(component, name), *words(flags)])
