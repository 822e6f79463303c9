"""Pods that the tests create, and what the ledgers say of them."""

import subprocess
from collections.abc import Mapping
from typing import Any

import yaml

from e2e.kind.node_image import WORKLOAD
from e2e.kind.shell import CommandError, get, sh

Pod = dict[str, Any]


def pod(
    name: str, limits: Mapping[str, int], *, node: str = "", app: str = "", scheduler: str = ""
) -> Pod:
    """A pod of one container, called ``main``, that sleeps.

    Args:
        name: of the pod.
        limits: of the container, also as its requests.
        node: on which it must run; any if empty.
        app: a label.
        scheduler: that binds it; the default one if empty.
    """
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": WORKLOAD,
                "command": ["sleep", "infinity"],
                "resources": {"limits": dict(limits), "requests": dict(limits)},
            }
        ],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if scheduler:
        spec["schedulerName"] = scheduler
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app or name}},
        "spec": spec,
    }


def volcano(memory: int, cores: int = 0) -> dict[str, int]:
    """A share of one card as Volcano's pods request it; MiB and percent."""
    found = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory}
    return found | ({"volcano.sh/vgpu-cores": cores} if cores else {})


def koordinator(percent: int) -> dict[str, int]:
    """A share of one card as Koordinator's pods request it."""
    return {"koordinator.sh/gpu-core": percent, "koordinator.sh/gpu-memory-ratio": percent}


def hami(memory: int, cores: int) -> dict[str, int]:
    """A share of one card as HAMi's pods request it; MiB and percent."""
    return {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory, "nvidia.com/gpucores": cores}


def create(*objects: Pod) -> None:
    """Create objects.

    Raises:
        CommandError: the API server refused one.
    """
    done = subprocess.run(
        ["kubectl", "create", "--filename=-"],
        input=yaml.safe_dump_all(objects),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr)


def is_created(new: Pod) -> bool:
    """Create an object, to be asked again while the API server refuses it.

    Raises:
        CommandError: the API server refused it.
    """
    create(new)
    return True


def delete(*names: str) -> None:
    """Delete pods and wait until they are gone."""
    sh(f"kubectl delete pod --timeout=90s {' '.join(names)}")


def environment(name: str) -> dict[str, str]:
    """The environment of a pod's container, as a process in it sees it."""
    rows = sh(f"kubectl exec {name} -- env").splitlines()
    return dict(row.split("=", 1) for row in rows if "=" in row)


def devices(name: str) -> set[str]:
    """Names in a pod's ``/dev``."""
    return set(sh(f"kubectl exec {name} -- ls /dev").split())


def granted(node: str = "") -> dict[str, list[dict[str, Any]]]:
    """The grants of each pod in the ledger of a node, or in all, by the pod's name."""
    ledgers = [get(f"nodeledger {node}")] if node else get("nodeledgers")
    return {
        row["pod"].partition("/")[2]: row.get("grants", [])
        for ledger in ledgers
        for row in ledger["spec"].get("allocations", ())
    }


def used() -> dict[str, int]:
    """Bytes of each card that the ledgers have granted."""
    found: dict[str, int] = {}
    for grants in granted().values():
        for grant in grants:
            found[grant["card"]] = found.get(grant["card"], 0) + grant["memory"]
    return found
