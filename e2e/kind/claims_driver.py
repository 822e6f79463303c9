"""Kubernetes' example driver of claims, under the name of NVIDIA's: a pod that the kubelet calls.

Its DaemonSet selects nodes by the label of docs/guides/transition.md. The program is the test
bed's, in a folder of the node; the rights are those of the driver's chart.
Source: sigs.k8s.io/dra-example-driver v0.4.0 deployments/helm/dra-example-driver/templates.
"""

import subprocess
from typing import Any

from e2e.harness.workloads.claims import a_class
from e2e.kind import cards, nvidia
from e2e.kind.node_image import WORKLOAD
from e2e.kind.pods import create
from e2e.kind.shell import sh
from e2e.testbed import cache

DRIVER = "gpu.nvidia.com"
LABEL = "nvidia.com/dra-kubelet-plugin"
NAME = "example-driver"
PROGRAM = "dra-example-kubeletplugin"
FOLDER = "/opt/dragoman-e2e"
FOLDERS = {
    "registry": "/var/lib/kubelet/plugins_registry",
    "plugins": "/var/lib/kubelet/plugins",
    "cdi": "/var/run/cdi",
    "program": FOLDER,
}
RIGHTS = (
    ("", "nodes", ("get",)),
    ("resource.k8s.io", "resourceclaims", ("get", "list", "watch")),
    ("resource.k8s.io", "resourceclaims/status", ("update",)),
    (
        "resource.k8s.io",
        "resourceslices",
        ("get", "list", "watch", "create", "update", "patch", "delete"),
    ),
)


def install(node: str) -> None:
    """Create the DaemonSet, which runs on no node, and the class; ``nvidia.com/gpu`` is of it."""
    subprocess.run(["docker", "exec", node, "mkdir", "-p", FOLDER], check=True)
    program = cache.binary("dra-example", PROGRAM)
    subprocess.run(["docker", "cp", "--quiet", program, f"{node}:{FOLDER}/"], check=True)
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **a_class(DRIVER, DRIVER)}
    made["spec"]["extendedResourceName"] = nvidia.GPU
    create(made, *_account(), _daemon_set())


def remove() -> None:
    """Delete them."""
    sh(f"kubectl delete -n {nvidia.SPACE} daemonset,serviceaccount {NAME}")
    sh(f"kubectl delete clusterrole,clusterrolebinding {NAME}")
    sh(f"kubectl delete deviceclass {DRIVER}")


def _account() -> list[dict[str, Any]]:
    rbac = "rbac.authorization.k8s.io"
    name, role = {"name": NAME}, {"kind": "ClusterRole", "name": NAME}
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        for group, resource, verbs in RIGHTS
    ]
    subject = {"kind": "ServiceAccount", "namespace": nvidia.SPACE, **name}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"namespace": nvidia.SPACE} | name,
        },
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": {"apiGroup": rbac, **role},
            "subjects": [subject],
        },
    ]


def _daemon_set() -> dict[str, Any]:
    labels = {"app": NAME}
    words = {
        "driver-name": DRIVER,
        "num-devices": str(cards.CARDS),
        "gpu-allow-multiple-allocations": "true",
        "cdi-root": FOLDERS["cdi"],
    }
    container = {
        "name": "plugin",
        "image": WORKLOAD,
        "command": [f"{FOLDER}/{PROGRAM}", *(f"--{key}={value}" for key, value in words.items())],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": key, "mountPath": path} for key, path in FOLDERS.items()],
    }
    spec = {
        "serviceAccountName": NAME,
        "nodeSelector": {LABEL: "true"},
        "tolerations": [nvidia.TAINT],
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [
            {"name": key, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
            for key, path in FOLDERS.items()
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": nvidia.SPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
