"""The API server's address and the agent's identity, without a Kubernetes client library.

In a pod these are the service account's files, elsewhere a kubeconfig with certificates or a token.
A kubeconfig whose user needs another program (``exec``) is rejected: an agent has its own identity.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

# k8s.io/client-go/rest/config.go, InClusterConfig
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(RuntimeError):
    """There are no usable credentials."""


@dataclass(frozen=True, slots=True)
class AgentCredentials:
    """How to reach the API server.

    Attributes:
        context: for TLS; None where the server speaks plain HTTP.
        token: file with a bearer token, read for each request because the kubelet renews it; None
            where the client certificate identifies the agent.
    """

    host: str
    port: int
    context: ssl.SSLContext | None
    token: Path | None = None

    def headers(self) -> list[tuple[str, str]]:
        """Name and value of the headers that identify server and agent.

        Raises:
            OSError: the token cannot be read.
        """
        found = [("Host", f"{self.host}:{self.port}")]
        if self.token is not None:
            found.append(("Authorization", f"Bearer {self.token.read_text().strip()}"))
        return found


def of_pod(environment: Mapping[str, str], account: Path = ACCOUNT) -> AgentCredentials:
    """Return the credentials of the pod that this process runs in.

    Raises:
        CredentialsError: it runs in no pod, or the pod has no service account.
    """
    try:
        host = environment["KUBERNETES_SERVICE_HOST"]
        port = int(environment["KUBERNETES_SERVICE_PORT"])
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    except (KeyError, ValueError, OSError) as error:
        problem = f"not in a pod with a service account: {_text(error)}"
        remedy = "set ledger.kubeconfig, or ledger.file"
        raise CredentialsError(f"{problem}; {remedy}") from error
    return AgentCredentials(host, port, context, account / "token")


def of_kubeconfig(path: Path) -> AgentCredentials:
    """Return the credentials of a kubeconfig's current context.

    Raises:
        CredentialsError: the file is invalid, or its user needs another program.
    """
    try:
        content = yaml.safe_load(path.read_bytes())
        context = _named(content, "contexts", content["current-context"])["context"]
        cluster = _named(content, "clusters", context["cluster"])["cluster"]
        user = _named(content, "users", context["user"])["user"]
        if "exec" in user or "auth-provider" in user:
            problem = "its user needs another program: give the agent its own identity"
            raise CredentialsError(problem)
        server = urlsplit(cluster["server"])
        if server.hostname is None:
            raise CredentialsError(f"{cluster['server']!r} is not a server's address")
        if server.scheme == "http":
            return AgentCredentials(server.hostname, server.port or 80, None)
        tls, folder = ssl.create_default_context(), path.parent
        with _file(folder, cluster, "certificate-authority") as authority:
            if authority is not None:
                tls.load_verify_locations(authority)
        with (
            _file(folder, user, "client-certificate") as own,
            _file(folder, user, "client-key") as key,
        ):
            if own is not None:
                tls.load_cert_chain(own, key)
        token = folder / user["tokenFile"] if "tokenFile" in user else None
        return AgentCredentials(server.hostname, server.port or 443, tls, token)
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise CredentialsError(f"{path}: {_text(error)}") from error


def _text(error: Exception) -> str:
    match error:
        case KeyError():
            return f"{error.args[0]} is missing"
        case OSError():
            return str(error.strerror or error)
        case _:
            return str(error)


def _named(content: Any, kind: str, name: str) -> Any:
    return next((each for each in content[kind] if each["name"] == name), {})


@contextmanager
def _file(folder: Path, section: Any, name: str) -> Iterator[str | None]:
    """Return the file that a section names, or a temporary one with the data that it contains."""
    if name in section:
        yield os.fspath(folder / section[name])
    elif f"{name}-data" in section:
        with tempfile.NamedTemporaryFile() as file:  # only its owner can read it
            file.write(base64.b64decode(section[f"{name}-data"]))
            file.flush()
            yield file.name
    else:
        yield None
