"""Kubeconfigs: where the API server is, and the credentials of a component."""

import json
from collections.abc import Mapping
from pathlib import Path

from e2e.harness.cluster.certificates import Pair


def kubeconfig(path: Path, *, port: int, authority: Pair, user: Pair | Path) -> Path:
    """Write a kubeconfig, as JSON, which is YAML too.

    Args:
        path: of the file.
        port: of the server, on loopback.
        authority: that signed the server's certificate.
        user: a certificate, or a file with a token.
    """
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": str(authority.certificate),
    }
    if isinstance(user, Path):
        credentials = {"tokenFile": str(user)}
    else:
        credentials = {"client-certificate": str(user.certificate), "client-key": str(user.key)}
    return write(path, cluster, credentials)


def write(path: Path, cluster: Mapping[str, object], user: Mapping[str, object]) -> Path:
    """Write a kubeconfig with this cluster and this user, in its own keys."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": dict(cluster)}],
        "users": [{"name": "me", "user": dict(user)}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "me"}}],
        "current-context": "local",
    }
    path.write_text(json.dumps(content, indent=1))
    return path
