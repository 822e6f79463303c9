"""Pods of NVIDIA's plugin that never asked for Dragoman: nothing about them may change.

A round creates pairs of pods at once: a plain one, and the same in a namespace that the webhooks
exclude. What differs between them is Dragoman.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.credentials import connect
from e2e.harness.oracles.pod_changes import following
from e2e.harness.processes.waiting import within
from e2e.kind import nvidia
from e2e.kind.pods import Pod, create, environment, pod
from e2e.kind.shell import get, sh, wait_for
from e2e.kind.storm import is_ready

VALIDATOR = f"daemonset/validator --namespace={nvidia.SPACE}"
EXCLUDED = "kube-system"
SPACES = ("default", EXCLUDED)
"""Namespaces of a plain pod, and of its control."""
LATER = 1.0
"""Seconds by which the median plain pod may be ready after the median control."""
PATIENCE = 45.0
DEVICES = (*nvidia.CARDS, *nvidia.INSTANCES)
"""What the plugin makes visible."""


@dataclass(slots=True)
class _Times:
    """Seconds from the request that creates a pod to its Ready, by namespace and name."""

    asked: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    ready: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    def see(self, kind: str, row: Object) -> None:
        """Take a change of a pod."""
        key = (row["metadata"].get("namespace", ""), row["metadata"].get("name", ""))
        if kind != "ERROR" and key in self.asked and is_ready(row):
            self.ready.setdefault(key, time.monotonic())

    def took(self, space: str) -> list[float]:
        """Seconds until the pods of a namespace were ready."""
        return [self.ready[key] - asked for key, asked in self.asked.items() if key[0] == space]


def plain(name: str, resource: str = nvidia.GPU, *, directly: bool = False) -> Pod:
    """A pod that requests one device of NVIDIA's plugin and nothing else.

    Args:
        name: of the pod.
        resource: what it requests.
        directly: whether its author names the node, past every scheduler.
    """
    made = nvidia.tolerant(pod(name, {resource: 1}, node=nvidia.NODE))
    made["spec"]["automountServiceAccountToken"] = False  # a volume with a name of its own
    if directly:
        del made["spec"]["nodeSelector"]
        made["spec"]["nodeName"] = nvidia.NODE
    return made


def differences() -> list[str]:
    """Create a round; what is different for a plain pod than for its control, in sentences."""
    times, api = _Times(), connect(Path(os.environ["KUBECONFIG"]))
    rows = _round()
    try:
        with following(api, "/api/v1/pods", times.see):
            found = [*_refused(api, rows, times), *_waiting(times)]
        if not found:
            found = [each for row in rows for each in _changed(row["metadata"]["name"])]
            found += _late(times)
    finally:
        for space in SPACES:
            names = " ".join(row["metadata"]["name"] for row in rows)
            sh(f"kubectl delete pod --namespace={space} --ignore-not-found --timeout=60s {names}")
    return found


def start_standing() -> None:
    """Start a pod and a DaemonSet that run through what the tests do with Dragoman."""
    daemons = plain("validator")
    daemons["spec"]["nodeSelector"] = {"nvidia.com/gpu.present": "true"}
    template = {"metadata": {"labels": {"app": "validator"}}, "spec": daemons["spec"]}
    create(
        plain("trainer"),
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "validator", "namespace": nvidia.SPACE},
            "spec": {"selector": {"matchLabels": {"app": "validator"}}, "template": template},
        },
    )
    wait_for("pod/trainer", "--for=condition=Ready")
    sh(f"kubectl rollout status {VALIDATOR} --timeout=60s")


def replace_validator() -> None:
    """Replace the DaemonSet's pod, and wait for the new one."""
    sh(f"kubectl rollout restart {VALIDATOR}")
    sh(f"kubectl rollout status {VALIDATOR} --timeout=60s")


def end_standing() -> None:
    """Delete both."""
    sh(f"kubectl delete {VALIDATOR}")
    sh("kubectl delete pod trainer --timeout=60s")


def standing() -> dict[str, tuple[str, int]]:
    """The container and the number of its restarts of both pods, by the pod's name."""
    found = {}
    for space in ("default", nvidia.SPACE):
        for row in get("pods", f"--namespace={space}", "--selector=app in (trainer,validator)"):
            (status,) = row["status"]["containerStatuses"]
            found[row["metadata"]["name"]] = (status["containerID"], status["restartCount"])
    return found


def _round() -> list[Pod]:
    """A pod with a card, one that its author binds, one with a MIG instance."""
    return [
        plain("round-gpu"),
        plain("round-direct", directly=True),
        plain("round-mig", nvidia.MIG),
    ]


def _refused(api: Api, rows: Sequence[Pod], times: _Times) -> list[str]:
    """Create the pods; what the API server says where it refuses one."""
    found = []
    for number, row in enumerate(rows):
        # Each namespace is first in turn.
        for space in SPACES if number % 2 else reversed(SPACES):
            times.asked[space, row["metadata"]["name"]] = time.monotonic()
            try:
                api.call("POST", f"/api/v1/namespaces/{space}/pods", row)
            except ApiError as error:
                found.append(f"{space}/{row['metadata']['name']}: {error}")
    return found


def _waiting(times: _Times) -> list[str]:
    """Wait for the pods; those that do not run, and the last Event about each."""
    with suppress(TimeoutError):
        within(PATIENCE, lambda: times.ready.keys() == times.asked.keys())
    return [
        f"{space}/{name} is not ready after {PATIENCE:.0f} s: {_event(space, name)}"
        for space, name in sorted(times.asked.keys() - times.ready.keys())
    ]


def _event(space: str, name: str) -> str:
    selector = f"--field-selector=involvedObject.name={name}"
    rows = get("events", f"--namespace={space}", selector, "--sort-by=.metadata.creationTimestamp")
    return rows[-1]["message"] if rows else "no Event"


def _changed(name: str) -> list[str]:
    """What differs between a pod that runs and its control, and what it sees inside."""
    ours, control = (get(f"pod {name}", f"--namespace={space}") for space in SPACES)
    inside = environment(name)
    checks = {
        "the specification": ours["spec"] == control["spec"],
        "the labels": ours["metadata"]["labels"] == control["metadata"]["labels"],
        "the annotations": ours["metadata"].get("annotations")
        == control["metadata"].get("annotations"),
        "the variables in the specification": "env" not in ours["spec"]["containers"][0],
        "the cards inside": inside.get("NVIDIA_VISIBLE_DEVICES") in DEVICES,
        "the mark inside": "DRAGOMAN_SHARE" not in inside,
    }
    return [f"{name}: {what} changed" for what, same in checks.items() if not same]


def _late(times: _Times) -> list[str]:
    ours, control = (median(times.took(space)) for space in SPACES)
    said = f"plain pods are ready after {ours:.2f} s, their controls after {control:.2f} s"
    print(said, flush=True)
    return [said] if ours > control + LATER else []
