"""A worker as NVIDIA's operator leaves it: labels, a taint, and a device plugin in a pod.

The plugin is a stand-in (``e2e/harness/node/device_plugin_server.py``) that the node's kubelet
knows like any other: it states two cards in four replicas each (time slicing), and two MIG
instances, and the kubelet assigns them to pods. The DaemonSet selects nodes by the operator's
label, so that the label removes the pod from a node, as it does with the operator.
Source: NVIDIA gpu-operator assets/state-device-plugin/0500_daemonset.yaml; k8s-device-plugin
docs/gpu-feature-discovery/README.md.
"""

import json
from collections.abc import Mapping
from typing import Any

from e2e.harness.processes.run import REPOSITORY
from e2e.kind import cards
from e2e.kind.pods import create
from e2e.kind.shell import eventually, get, sh

NODE = "dragoman-e2e-worker3"
SPACE = "gpu-operator"
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
DEPLOYED = "nvidia.com/gpu.deploy.device-plugin"
"""Label by whose value the operator runs its device plugin on a node, or does not."""
REPLICAS = 4
CARDS = tuple(cards.uuid(NODE, index) for index in range(cards.CARDS))
INSTANCES = tuple(f"MIG-{NODE}-{index}" for index in range(2))
DEVICES: Mapping[str, tuple[str, ...]] = {
    GPU: tuple(f"{card}::{number}" for card in CARDS for number in range(REPLICAS)),
    MIG: INSTANCES,
}
"""What the kubelet assigns, by resource."""
LABELS = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.replicas": str(REPLICAS),
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig-1g.5gb.count": "2",
    "nvidia.com/mig-1g.5gb.memory": "4864",
    DEPLOYED: "true",
}
TAINT = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
"""A taint as pods tolerate it. It keeps the other pods of the tests away."""
IMAGE = "dragoman/service:0.1.0"
"""The quickstart's image, for Python with gRPC."""
SERVER = "e2e/harness/node/device_plugin_server.py"
MESSAGES = "e2e/harness/node/proto/device_plugin_pb2.py"
FOLDER = "/var/lib/kubelet/device-plugins"


def install() -> None:
    """Label the node, and run the plugin on it until the kubelet has its devices."""
    sh(f"docker build --target service -t {IMAGE} .", timeout=900)
    sh(f"kind load docker-image {IMAGE} --name dragoman-e2e --nodes {NODE}", timeout=300)
    sh(f"kubectl label node {NODE} {' '.join(f'{key}={value}' for key, value in LABELS.items())}")
    sh(f"kubectl taint node {NODE} {GPU}=present:NoSchedule")
    create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    create(_sources(), _daemon_set())
    eventually(120, states_its_devices)


def states_its_devices() -> bool:
    """Whether the node offers everything that the plugin has."""
    stated = get(f"node {NODE}")["status"]["allocatable"]
    return all(stated.get(name) == str(len(ids)) for name, ids in DEVICES.items())


def tolerant(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod for this node, with its taint tolerated."""
    pod["spec"]["tolerations"] = [TAINT]
    return pod


def dump() -> str:
    """The node and its pods, as ``kubectl get -o json`` prints them for a file."""
    pods = get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={NODE}")
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [get(f"node {NODE}"), *pods]})


def _sources() -> dict[str, Any]:
    files = {name.rpartition("/")[2]: (REPOSITORY / name) for name in (SERVER, MESSAGES)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "device-plugin", "namespace": SPACE},
        "data": {name: path.read_text() for name, path in files.items()},
    }


def _daemon_set() -> dict[str, Any]:
    labels = {"app": "nvidia-device-plugin-daemonset"}
    paths = [{"key": name.rpartition("/")[2], "path": name} for name in (SERVER, MESSAGES)]
    spec = {
        "nodeSelector": {DEPLOYED: "true"},
        "tolerations": [TAINT],
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsUser": 0},
        "containers": [_container(name, ids) for name, ids in DEVICES.items()],
        "volumes": [
            {"name": "sources", "configMap": {"name": "device-plugin", "items": paths}},
            {"name": "sockets", "hostPath": {"path": FOLDER}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": SPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _container(resource: str, ids: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": resource.rpartition("/")[2].replace(".", "-"),
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python", "-m", "e2e.harness.node.device_plugin_server", resource, *ids],
        "env": [{"name": "PYTHONPATH", "value": "/plugin"}],
        "volumeMounts": [
            {"name": "sources", "mountPath": "/plugin"},
            {"name": "sockets", "mountPath": FOLDER},
        ],
    }
