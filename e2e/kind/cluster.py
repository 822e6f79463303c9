"""The cluster of ``configs/kind-cluster.yaml``, made and deleted by kind."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.cluster.target import KIND
from e2e.harness.node import processors
from e2e.harness.processes.run import REPOSITORY
from e2e.kind.engine import Engine
from e2e.testbed import cache

CONFIGURATION = REPOSITORY / "configs" / "kind-cluster.yaml"
# By its label a later run knows the cluster as ours: kind's own labels have only its name.
NETWORK = "dragoman-e2e"
LABEL = "dragoman.dev/e2e-kind"
PROCESSORS = 16
"""That a kubelet counts: a guide's pod requests four."""
OF_CLUSTER = f"label=io.x-k8s.kind.cluster={KIND}"


class ClusterError(RuntimeError):
    """The cluster cannot be made; the message says why."""


@contextmanager
def cluster(engine: Engine, image: str, kubeconfig: Path) -> Iterator[list[str]]:
    """The cluster's nodes, for the length of a block.

    Args:
        engine: in which it is made.
        image: of the nodes.
        kubeconfig: file to write.

    Raises:
        ClusterError: kind failed, or there is a cluster of the name that is not ours.
    """
    for container in _nodes(engine):
        if not _is_ours(engine, container):
            raise ClusterError(
                f"the engine has a cluster called {KIND} that make e2e-kind did not create; "
                f"delete it first: kind delete cluster --name {KIND}"
            )
    delete(engine, kubeconfig)
    engine.docker("network", "create", f"--label={LABEL}=true", NETWORK)
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(configuration(kubeconfig.parent), file)
            file.flush()
            _kind(engine, "create", "cluster", f"--config={file.name}", f"--image={image}",
                  f"--kubeconfig={kubeconfig}", "--wait=4m")  # fmt: skip
        yield _nodes(engine)
    finally:
        delete(engine, kubeconfig)


def delete(engine: Engine, kubeconfig: Path) -> None:
    """Delete our cluster and its network, as far as they are there."""
    if _nodes(engine):
        _kind(engine, "delete", "cluster", f"--name={KIND}", f"--kubeconfig={kubeconfig}")
    if engine.docker("network", "ls", "--quiet", f"--filter=label={LABEL}").strip():
        engine.docker("network", "rm", NETWORK)


def configuration(folder: Path) -> dict[str, Any]:
    """The project's file, a worker for NVIDIA's plugin, and what control groups of version 1 need.

    Version 2 ignores the latter.

    Args:
        folder: where files are put that are mounted into nodes.
    """
    content: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text())
    content["nodes"].append({"role": "worker"})  # kind calls it as e2e/kind/nvidia.py does
    processors.write(folder / "processors", PROCESSORS)
    shown = {"hostPath": f"{folder}/processors", "containerPath": str(processors.NODES)}
    for node in content["nodes"]:
        node["extraMounts"] = [shown | {"readOnly": True}]
    content["kubeadmConfigPatches"] = ["kind: KubeletConfiguration\nfailCgroupV1: false\n"]
    content["containerdConfigPatches"].append(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n'
    )
    return content


def _nodes(engine: Engine) -> list[str]:
    return engine.docker("ps", "--all", "--format={{.Names}}", f"--filter={OF_CLUSTER}").split()


def _is_ours(engine: Engine, container: str) -> bool:
    form = "--format={{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"
    networks = engine.docker("inspect", form, container).split()
    labels = [
        engine.docker("network", "inspect", "--format={{.Labels}}", each) for each in networks
    ]
    return any(LABEL in each for each in labels)


def _kind(engine: Engine, *words: str) -> None:
    binary = cache.binary("kind", "kind")
    environment = engine.environment() | {"KIND_EXPERIMENTAL_DOCKER_NETWORK": NETWORK}
    done = subprocess.run(
        engine.command([binary, *words]),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise ClusterError(f"kind {' '.join(words[:2])}: {done.stderr.strip()[-6000:]}")
