"""Our own chart, as helm renders it and as the API server takes it."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.run import REPOSITORY
from e2e.testbed import cache
from e2e.testbed.versions import components

CHART = REPOSITORY / "charts" / "dragoman"

RIGHTS = frozenset(
    (
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    )
)  # fmt: skip
"""Kinds of objects that grant or restrict permissions."""


class ChartError(RuntimeError):
    """Helm or the API server refused; the message is theirs."""


def helm(*words: str | Path) -> str:
    """What a helm command prints.

    Raises:
        NotBuiltError: helm is not built.
        ChartError: it failed.
    """
    binary = cache.binary("helm", "helm")
    done = subprocess.run([binary, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChartError(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def template(values: Mapping[str, object] | Path) -> str:
    """The chart with these values, as text; of the release ``dragoman``.

    Raises:
        NotBuiltError: helm is not built.
        ChartError: the values are refused.
    """
    version = components()["kubernetes"].version.removeprefix("v")  # type: ignore[union-attr]
    words: list[str | Path] = ["template", RELEASE, CHART, f"--namespace={NAMESPACE}"]
    words += [f"--kube-version={version}"]
    if isinstance(values, Path):
        return helm(*words, "--values", values)
    return helm(*words, *_given(values))


def render(values: Mapping[str, object] | Path) -> list[Object]:
    """Render the chart; returns its objects."""
    return [each for each in yaml.safe_load_all(template(values)) if each]


def apply(plane: ControlPlane, objects: Iterable[Object], *flags: str) -> None:
    """Send objects to the API server, as a server-side apply.

    Args:
        plane: whose API server.
        objects: of any kinds.
        flags: of ``kubectl apply``, such as ``--dry-run=server``.

    Raises:
        ChartError: one is refused.
    """
    kubectl = cache.binary("kubernetes", "kubectl")
    config = plane.kubeconfig("admin", "system:masters")
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    done = subprocess.run(
        [kubectl, f"--kubeconfig={config}", "apply", "--server-side", *flags, "-f", "-"],
        input=json.dumps(items),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ChartError(done.stderr.strip())


def _given(values: Mapping[str, object]) -> list[str]:
    return [
        word
        for key, value in values.items()
        for word in ("--set-json", f"{key}={json.dumps(value)}")
    ]
