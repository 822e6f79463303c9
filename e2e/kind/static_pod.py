"""kubeadm's kube-scheduler: a static pod of the control plane's node, and its configuration."""

import subprocess
from typing import Any

import yaml

from e2e.kind.shell import get

NODE = "dragoman-e2e-control-plane"
POD = f"pod kube-scheduler-{NODE}"
CONFIGURATION = "/etc/kubernetes/kube-scheduler.yaml"
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"


def configure(text: str) -> None:
    """Put a configuration on the node and let the static pod use it, as the page says."""
    _write(CONFIGURATION, text)
    pod = yaml.safe_load(_run("cat", MANIFEST))
    (container,) = pod["spec"]["containers"]
    container["command"].append(f"--config={CONFIGURATION}")
    container["volumeMounts"].append(
        {"name": "configuration", "mountPath": CONFIGURATION, "readOnly": True}
    )
    pod["spec"]["volumes"].append(
        {"name": "configuration", "hostPath": {"path": CONFIGURATION, "type": "File"}}
    )
    _replace(pod)


def restore() -> None:
    """Let the static pod be as kubeadm made it."""
    pod = yaml.safe_load(_run("cat", MANIFEST))
    (container,) = pod["spec"]["containers"]
    container["command"].remove(f"--config={CONFIGURATION}")
    container["volumeMounts"].pop()
    pod["spec"]["volumes"].pop()
    _replace(pod)


def is_ready(*, configured: bool) -> bool:
    """Whether the pod is ready, with or without the configuration."""
    found = get(POD, "--namespace=kube-system")
    command = found["spec"]["containers"][0]["command"]
    ready = [row["ready"] for row in found["status"].get("containerStatuses", ())]
    return (f"--config={CONFIGURATION}" in command) is configured and ready == [True]


def configuration() -> str:
    """What the node has."""
    return _run("cat", CONFIGURATION)


def _replace(pod: dict[str, Any]) -> None:
    # The kubelet reads every file of the folder: the new one appears there whole.
    _write("/etc/kubernetes/new", yaml.safe_dump(pod))
    _run("mv", "/etc/kubernetes/new", MANIFEST)


def _write(path: str, text: str) -> None:
    _run("cp", "/dev/stdin", path, content=text)


def _run(*words: str, content: str = "") -> str:
    done = subprocess.run(
        ["docker", "exec", "--interactive", NODE, *words],
        input=content,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
