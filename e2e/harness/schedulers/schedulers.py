"""Stock schedulers, each with the configuration that a test gives it.

They run as members of ``system:masters``: the tests are about what they do; their charts say what
they may do.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.volcano import QUEUES
from e2e.testbed import cache

Written = Mapping[str, Any] | str
"""A ``KubeSchedulerConfiguration``: a file's text, or its fields without ``clientConnection``."""

NAMESPACES = "/api/v1/namespaces"
KOORDINATOR = "koordinator-system"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def start_kube_scheduler(
    plane: ControlPlane,
    configuration: Written,
    *,
    leads: bool = False,
    version: str = "",
    gates: str = "",
) -> None:
    """Start kube-scheduler.

    Args:
        plane: the control plane that it serves.
        configuration: a whole file; or fields, to which the test bed's own are added.
        leads: whether it takes the Lease of its configuration first.
        version: that it emulates, such as 1.35; empty for its own.
        gates: features beside its own, such as ``GenericWorkload=true``.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    more: Flags = {"emulated-version": version} if version else {}
    if gates:
        more = {**more, "feature-gates": gates}
    _start_kubernetes_like(plane, "kubernetes", "kube-scheduler", configuration, more, leads=leads)


def start_koord_scheduler(plane: ControlPlane, configuration: Written) -> None:
    """Start koord-scheduler and what it needs of Koordinator's definitions.

    Args:
        plane: the control plane that it serves.
        configuration: a whole file; or fields, to which the test bed's own are added.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    define(plane, cache.asset("koordinator", "crd"))
    start_koord_scheduler_alone(plane, configuration)


def start_koord_scheduler_alone(
    plane: ControlPlane, configuration: Written, *, leads: bool = False, gates: str = ""
) -> None:
    """Start koord-scheduler; the definitions must be there, and ``gates`` are as of vc-scheduler.

    Without ``--port=0`` it takes port 10251 of the machine, also where it has a configuration file,
    whatever its help says. Source: koordinator 1.8.0 cmd/koord-scheduler/app/options.
    Its quotas are in the namespace of its chart.
    """
    there = {row["metadata"]["name"] for row in plane.api.get(NAMESPACES)["items"]}
    if KOORDINATOR not in there:
        plane.api.create(NAMESPACES, {"metadata": {"name": KOORDINATOR}})
    more: Flags = {"port": 0, **({"feature-gates": gates} if gates else {})}
    _start_kubernetes_like(
        plane, "koordinator", "koord-scheduler", configuration, more, leads=leads
    )


def start_volcano(plane: ControlPlane, configuration: str) -> None:
    """Start Volcano's scheduler and controllers, with their definitions.

    Args:
        plane: the control plane that they serve.
        configuration: ``volcano-scheduler.conf``, as in its ConfigMap.

    Raises:
        NotBuiltError: Volcano is not built.
        StartError: a part does not start.
    """
    start_volcano_controllers(plane)
    start_volcano_scheduler(plane, configuration)


def start_volcano_controllers(plane: ControlPlane, name: str = "volcano") -> None:
    """Start what makes a group for a pod that has none, after Volcano's definitions.

    Args:
        plane: the control plane that they serve.
        name: of the scheduler for whose pods.
    """
    # Its controllers wait for the definitions of job flows too before they do anything.
    define(plane, cache.asset("volcano", "crd"))
    define(plane, cache.asset("volcano", "flow-crd"))
    there = {row["metadata"]["name"] for row in plane.api.get(QUEUES)["items"]}
    for queue in {"root", "default"} - there:
        plane.api.note(QUEUES, {"metadata": {"name": queue}})  # Volcano makes them itself
    flags = _volcano_flags(plane, name)
    binary = cache.binary("volcano", "vc-controller-manager")
    plane.run.start("vc-controller-manager", [binary, *words(flags)])


def start_volcano_scheduler(
    plane: ControlPlane,
    configuration: str,
    name: str = "volcano",
    *,
    verbosity: int = 0,
    gates: str = "",
    period: str = "",
    percent: int = 0,
) -> None:
    """Start the scheduler alone; the definitions must be there.

    Args:
        plane: the control plane that it serves.
        configuration: ``volcano-scheduler.conf``, as in its ConfigMap.
        name: by which pods name it.
        verbosity: of its log; 3 for ``wait_for_cache``.
        gates: its ``--feature-gates``; empty for its defaults.
        period: from one session to the next, such as 20ms; empty for its default of a second.
        percent: of the nodes that it finds and scores; 0 for its default, by the number of nodes.
    """
    config = plane.run.folder / "volcano-scheduler.conf"
    config.write_text(configuration)
    flags = _volcano_flags(plane, name) | {"scheduler-conf": config, "cache-dumper": "false"}
    found = str(percent or "")
    more = {"feature-gates": gates, "schedule-period": period, "percentage-nodes-to-find": found}
    flags |= {"v": verbosity} | {name: value for name, value in more.items() if value}
    plane.run.start("vc-scheduler", [cache.binary("volcano", "vc-scheduler"), *words(flags)])


def _volcano_flags(plane: ControlPlane, name: str) -> Flags:
    (port,) = free_ports(1)
    return {
        "kubeconfig": plane.kubeconfig("volcano", "system:masters"),
        "leader-elect": "false",
        "scheduler-name": name,
        "enable-healthz": "true",
        "healthz-address": f"127.0.0.1:{port}",
    }


def define(plane: ControlPlane, place: Path) -> None:
    """Create every custom resource definition in a file or folder, and wait until all are served.

    Those that are there already are kept as they are.
    """
    there = {row["metadata"]["name"] for row in plane.api.get(CRDS)["items"]}
    names = []
    for file in sorted(place.rglob("*.yaml")) if place.is_dir() else (place,):
        # The loader in C: Volcano's definitions are a megabyte, two seconds for that in Python.
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                if document["metadata"]["name"] not in there:
                    plane.api.create(CRDS, document)
                names.append(document["metadata"]["name"])
    within(30, lambda: all(_is_served(plane, name) for name in names))


def _is_served(plane: ControlPlane, name: str) -> bool:
    definition = plane.api.get(f"{CRDS}/{name}")
    rows = definition.get("status", {}).get("conditions") or ()
    if not any(row["type"] == "Established" and row["status"] == "True" for row in rows):
        return False
    spec = definition["spec"]
    version = next(row["name"] for row in spec["versions"] if row["served"])
    try:
        plane.api.get(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1")
    except ApiError:  # 429 "storage is (re)initializing": for a moment it is established only
        return False
    return True


def _start_kubernetes_like(
    plane: ControlPlane,
    component: str,
    name: str,
    configuration: Written,
    more: Flags | None = None,
    *,
    leads: bool,
) -> None:
    (port,) = free_ports(1)
    user = plane.kubeconfig(name, "system:masters")
    config = plane.run.folder / f"{name}.yaml"
    if not isinstance(configuration, str):
        fields = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(user)},
        }
        configuration = json.dumps({**fields, **configuration})
    config.write_text(configuration)
    flags: Flags = {
        "config": config,
        "authentication-kubeconfig": user,
        "authorization-kubeconfig": user,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        # Most tests lead without a Lease: a successor need not wait for that of a killed one.
        "leader-elect": str(leads).lower(),
        **(more or {}),
    }
    plane.run.start(name, [cache.binary(component, name), *words(flags)])
