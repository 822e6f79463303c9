"""``make e2e-kind``: the end-to-end tests on a cluster in containers, for machines with Docker.

    python -m e2e.kind [--dry-run]

Makes the cluster of ``configs/kind-cluster.yaml``, installs stock Volcano and Koordinator by their
charts, loads our image, runs the tests, and takes the cluster away however they end. kind, helm
and kubectl are the test bed's where it is built, else those on PATH; Docker must be there.

Tests that need schedulers, a kubelet or kwok start their own, from the test bed, beside what is
installed there (``e2e/harness/cluster/shared_cluster.py``); where the test bed is not built they
are skipped.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.harness.cluster.target import KIND
from e2e.harness.processes.run import REPOSITORY
from e2e.testbed import cache
from e2e.testbed.cache import NotBuiltError
from e2e.testbed.versions import GoComponent, components

CONFIGURATION = Path("configs") / "kind-cluster.yaml"
IMAGE = "localhost/dragoman:e2e"
# Of each tool, the part of the test bed that has it.
PARTS = {"kind": "kind", "helm": "helm", "kubectl": "kubernetes"}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one of the peers.

    Attributes:
        name: of the chart, and of the component of the test bed whose version is installed.
        repository: where it is published.
        namespace: its usual one. Koordinator's chart makes its own.
        settings: values that differ from the chart's.
    """

    name: str
    repository: str
    namespace: str
    settings: tuple[str, ...] = ()


VOLCANO = Chart(
    name="volcano",
    repository="https://volcano-sh.github.io/helm-charts",
    namespace="volcano-system",
    settings=("basic.image_pull_policy=IfNotPresent",),
)
KOORDINATOR = Chart(
    name="koordinator",
    repository="https://koordinator-sh.github.io/charts",
    namespace="default",
)


def main(words: Sequence[str]) -> int:
    """Run, or print, what is to be run; the exit status is that of the tests."""
    if set(words) - {"--dry-run"}:
        print(__doc__)
        return 2
    if "--dry-run" in words:
        file = Path("KUBECONFIG")
        for command in (*preparation(file), *installation(file), tests(), deletion(file)):
            print(shlex.join(command))
        return 0
    if missing := obstacles():
        print(f"make e2e-kind cannot run here: {'; '.join(missing)}")
        return 1
    with TemporaryDirectory(prefix="dragoman-kind-") as folder:
        return _run(Path(folder) / "kubeconfig")


def obstacles() -> list[str]:
    """What this machine lacks."""
    path = tools()
    found = [
        f"{name} is not installed"
        for name in ("docker", *PARTS)
        if shutil.which(name, path=path) is None
    ]
    if shutil.which("docker"):
        done = subprocess.run(["docker", "info"], capture_output=True, check=False)
        if done.returncode:
            found.append("the docker command finds no engine (docker info fails)")
    return found


def tools() -> str:
    """PATH, with the test bed's own tools first."""
    folders = []
    for name, part in PARTS.items():
        try:
            folders.append(str(cache.binary(part, name).parent))
        except NotBuiltError:
            continue
    return os.pathsep.join([*folders, os.environ["PATH"]])


def preparation(kubeconfig: Path) -> list[list[str]]:
    """Commands that make the cluster, with our image in it if it can be built."""
    to = f"--kubeconfig={kubeconfig}"
    cluster = ["kind", "create", "cluster", f"--config={CONFIGURATION}", "--wait=5m", to]
    if not (REPOSITORY / "Dockerfile").exists():
        return [cluster]
    image = ["docker", "build", f"--tag={IMAGE}", "."]
    return [image, cluster, ["kind", "load", "docker-image", IMAGE, f"--name={KIND}"]]


def installation(kubeconfig: Path) -> list[list[str]]:
    """Commands that install the peers and show what runs."""
    show = ["kubectl", f"--kubeconfig={kubeconfig}", "get", "nodes,pods", "--all-namespaces"]
    return [*(install(chart, kubeconfig) for chart in (VOLCANO, KOORDINATOR)), show]


def install(chart: Chart, kubeconfig: Path) -> list[str]:
    """The command that installs a chart, in the version that the test bed builds."""
    component = components()[chart.name]
    if not isinstance(component, GoComponent):
        raise TypeError(chart.name)
    return [
        *("helm", "upgrade", chart.name, chart.name, "--install"),
        f"--kubeconfig={kubeconfig}",
        f"--repo={chart.repository}",
        f"--version={component.version.removeprefix('v')}",
        f"--namespace={chart.namespace}",
        "--create-namespace",
        "--wait",
        "--timeout=10m",
        *(f"--set={setting}" for setting in chart.settings),
    ]


def tests() -> list[str]:
    """The command that runs the tests there."""
    return [sys.executable, "-m", "pytest", "e2e", "--cluster=kind", "-rs"]


def deletion(kubeconfig: Path) -> list[str]:
    """The command that takes the cluster away."""
    return ["kind", "delete", "cluster", f"--name={KIND}", f"--kubeconfig={kubeconfig}"]


def _run(kubeconfig: Path) -> int:
    """Everything in order; stops at the first command that fails, and always deletes."""
    if not (REPOSITORY / "Dockerfile").exists():
        print("there is no Dockerfile yet: the tests run without our image")
    try:
        for command in (*preparation(kubeconfig), *installation(kubeconfig), tests()):
            if status := _call(command):
                return status
    finally:
        _call(deletion(kubeconfig))
    return 0


def _call(command: Sequence[str]) -> int:
    print(f"+ {shlex.join(command)}", flush=True)
    environment = os.environ | {"PATH": tools()}
    # The program is looked up on the PATH of the new environment.
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    done = subprocess.run([program, *command[1:]], cwd=REPOSITORY, env=environment, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
