"""The tests' own components on a shared cluster.

They run on this machine and reach the cluster as its administrator, who impersonates others.
What tests call the namespace ``default`` is one of their own there; their schedulers have names
of their own; the webhooks look at labelled namespaces only. At the end the cluster-scoped
objects that the tests created are deleted, and nothing else.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from e2e.harness.cluster import kubeconfig
from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.credentials import Entry
from e2e.harness.cluster.target import Existing
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within

HOME = "dragoman-e2e-guest"
LABEL = "dragoman.dev/e2e-guest"
"""The label of the namespaces at which the webhooks look."""

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_RIGHTS = (
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/clusterroles",
    f"{_POLICIES}/validatingadmissionpolicybindings",
    f"{_POLICIES}/validatingadmissionpolicies",
)
_OURS = f"labelSelector=app.kubernetes.io/name={RELEASE},app.kubernetes.io/instance={RELEASE}"
_CARDS = ("nvidia.com/", "volcano.sh/vgpu", "koordinator.sh/gpu", "metax-tech.com/")
_REGISTERS = ("volcano.sh/node-vgpu-register", "metax-tech.com/node-gpu-devices")


class OccupiedError(RuntimeError):
    """The cluster has Dragoman or cards already, which the tests leave alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest(ControlPlane):
    """A cluster that exists, in the place of a control plane of the test bed.

    Attributes:
        entry: its administrator's.
    """

    entry: Entry

    def kubeconfig(self, user: str, group: str = "") -> Path:
        """A kubeconfig by which the administrator impersonates this user, or is itself."""
        path = self.run.folder / f"{user.replace(':', '-')}.kubeconfig"
        groups = [group] if group else []
        spoken = {} if group == "system:masters" else {"as": user, "as-groups": groups}
        return kubeconfig.write(path, self.entry.cluster, {**self.entry.user, **spoken})

    def with_token(self, token: Path) -> Path:
        """A kubeconfig for the account whose token is in this file, beside it."""
        path = token.with_suffix(".kubeconfig")
        return kubeconfig.write(path, self.entry.cluster, {"tokenFile": str(token)})

    def scheduler(self, usual: str) -> str:
        """The name by which pods name one of the test's schedulers here."""
        return f"{usual}-e2e"

    def as_user(self, user: str, group: str = "") -> Api:
        """The server, as this user."""
        return self.api.impersonating(user, group)


@contextmanager
def guest(target: Existing) -> Iterator[Guest]:
    """A guest for the length of a block.

    Raises:
        OccupiedError: Dragoman is installed there, or nodes have cards.
    """
    if found := occupied(target.api):
        raise OccupiedError(found)
    with run() as this:
        plane = Guest(
            run=this,
            authority=target.authority,
            server_port=target.api.port,
            api=replace(target.api, home=HOME, made=[]),
            address=target.address,
            values={"webhooks": {"namespaceSelector": {"matchLabels": {LABEL: ""}}}},
            entry=target.entry,
        )
        try:
            space = {"metadata": {"name": HOME, "labels": {LABEL: ""}}}
            plane.api.create("/api/v1/namespaces", space)
            account = f"/api/v1/namespaces/{HOME}/serviceaccounts/default"
            within(20, lambda: _there(plane.api, account))
            yield plane
        finally:
            this.end()  # or a component would create again what is deleted next
            take_away(plane.api)


def occupied(api: Api) -> str:
    """Why the tests must not run on a cluster; empty if they may."""
    spaces = {row["metadata"]["name"] for row in api.get("/api/v1/namespaces")["items"]}
    rights = [row for path in _RIGHTS for row in api.get(f"{path}?{_OURS}")["items"]]
    if NAMESPACE in spaces or rights:
        return f"Dragoman is installed there: namespace {NAMESPACE} or its roles exist"
    for node in api.get("/api/v1/nodes")["items"]:
        registered = node["metadata"].get("annotations", {}).keys() & set(_REGISTERS)
        stated = [key for key in node["status"].get("capacity", {}) if key.startswith(_CARDS)]
        if registered or stated:
            what = ", ".join([*registered, *stated])
            return f"node {node['metadata']['name']} has cards, which are not the tests': {what}"
    return ""


def take_away(api: Api) -> None:
    """Delete the cluster-scoped objects that were created, the latest first, and wait for it."""
    # No kubelet is left that would confirm the end of a pod.
    api.delete("/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
    for path in _RIGHTS:
        api.delete(f"{path}?{_OURS}")
    spaces = [path for path in api.made if path.startswith("/api/v1/namespaces/")]
    # A namespace ends late if definitions end meanwhile: all kinds are looked for in it.
    for paths in (spaces, [path for path in reversed(api.made) if path not in spaces]):
        for path in paths:
            if _there(api, path):
                api.delete(path)
        within(60, lambda paths=paths: not any(_there(api, path) for path in paths))  # type: ignore[misc]
    api.made.clear()


def _there(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        if error.status != http.client.NOT_FOUND:
            raise
        return False
    return True
