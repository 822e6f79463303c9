"""Reads a kubeconfig: where a server is, and the certificate or token of the user.

Source: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1.
"""

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from e2e.harness.cluster.api import Api

Row = Mapping[str, Any]


class CredentialsError(ValueError):
    """A kubeconfig that cannot be used here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A kubeconfig's cluster and user, in its own words, with files by their whole paths."""

    cluster: Row
    user: Row


def connect(kubeconfig: Path, folder: Path) -> Api:
    """The server of the current context, as its user.

    Args:
        kubeconfig: the file. Files that it names are looked for beside it.
        folder: private; credentials that are in the kubeconfig are written there, because
            Python's TLS takes them from files alone.

    Raises:
        CredentialsError: no current context, or a user with neither certificate nor token.
    """
    cluster, user = _current(kubeconfig)
    address = urlsplit(cluster["server"])
    if address.scheme != "https" or address.hostname is None:
        raise CredentialsError(f"{cluster['server']}: only https:// is supported")
    beside = kubeconfig.parent
    return Api(
        host=address.hostname,
        port=address.port or 443,
        root=address.path.rstrip("/"),
        context=_tls(cluster, user, beside, folder),
        headers=_headers(user, beside),
    )


def entry(kubeconfig: Path, folder: Path) -> Entry:
    """What ``connect`` would use, for components that are to be the same user.

    Args:
        kubeconfig: the file.
        folder: as there.

    Raises:
        CredentialsError: no current context.
    """
    cluster, user = _current(kubeconfig)
    beside = kubeconfig.parent.absolute()
    insecure = {key: cluster[key] for key in ("insecure-skip-tls-verify",) if key in cluster}
    server = {"server": cluster["server"], **insecure}
    server |= _files(cluster, ("certificate-authority",), beside, folder)
    proof = _files(user, ("client-certificate", "client-key"), beside, folder)
    if "token" in user:
        (folder / "token").write_text(user["token"])
        proof["tokenFile"] = str(folder / "token")
    return Entry(server, proof | _files(user, ("tokenFile",), beside, folder))


def _current(kubeconfig: Path) -> tuple[Row, Row]:
    """Cluster and user of the current context."""
    try:
        content = yaml.safe_load(kubeconfig.read_text())
    except OSError as error:
        raise CredentialsError(f"{kubeconfig}: {error.strerror}") from error
    if not isinstance(content, dict):
        raise CredentialsError(f"{kubeconfig} is no kubeconfig")
    context = _named(content, "context", content.get("current-context"))
    cluster = _named(content, "cluster", context.get("cluster"))
    return cluster, _named(content, "user", context.get("user"))


def _named(content: Row, kind: str, name: object) -> Row:
    """The entry with this name; kubeconfigs keep lists of names and values."""
    for row in content.get(f"{kind}s") or ():
        if row["name"] == name:
            return dict(row[kind])
    raise CredentialsError(f"there is no {kind} {name!r}")


def _tls(cluster: Row, user: Row, beside: Path, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority := _file(cluster, "certificate-authority", beside, folder):
        context = ssl.create_default_context(cafile=authority)
    certificate = _file(user, "client-certificate", beside, folder)
    key = _file(user, "client-key", beside, folder)
    if certificate and key:
        context.load_cert_chain(certificate, key)
    elif not _headers(user, beside):
        known = ", ".join(sorted(user)) or "nothing"
        raise CredentialsError(f"a certificate or a token is needed; the user has {known}")
    return context


def _file(row: Row, key: str, beside: Path, folder: Path) -> Path | None:
    """Path of a credential that is given as path or as content."""
    if data := row.get(f"{key}-data"):
        path = folder / f"{key}.pem"
        path.write_bytes(base64.b64decode(data))
        return path
    return beside / row[key] if row.get(key) else None


def _files(row: Row, keys: tuple[str, ...], beside: Path, folder: Path) -> dict[str, str]:
    found = {key: _file(row, key, beside, folder) for key in keys}
    return {key: str(path) for key, path in found.items() if path is not None}


def _headers(user: Row, beside: Path) -> dict[str, str]:
    token = user.get("token")
    if user.get("tokenFile"):
        token = (beside / user["tokenFile"]).read_text().strip()
    return {"Authorization": f"Bearer {token}"} if token else {}
