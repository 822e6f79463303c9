"""Service accounts, as pods have them: by a token that the API server makes."""

from pathlib import Path

from e2e.harness.cluster.control_plane import ControlPlane

HOURS = 3


def account(plane: ControlPlane, namespace: str, name: str, pod: str = "") -> Path:
    """A kubeconfig of a service account, with a new token.

    Args:
        plane: the cluster.
        namespace: of the account.
        name: of the account.
        pod: of the same namespace, that the token is bound to as the kubelet does it: then the
            server knows the pod's node too. Empty for none.
    """
    path = f"/api/v1/namespaces/{namespace}"
    spec: dict[str, object] = {"expirationSeconds": HOURS * 3600}
    if pod:
        uid = plane.api.get(f"{path}/pods/{pod}")["metadata"]["uid"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    made = plane.api.create(f"{path}/serviceaccounts/{name}/token", {"spec": spec})
    file = plane.run.folder / f"{namespace}-{name}{pod and f'-{pod}'}.token"
    file.write_text(made["status"]["token"])
    return plane.with_token(file)
