"""The API server and the user of a kubeconfig, as the product reads them."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adapters.cluster.api.credentials import KubeconfigSource, configuration_of
from adapters.cluster.api.error import ClusterError
from e2e.harness.cluster.api import Api


class CredentialsError(ValueError):
    """A kubeconfig that cannot be used here; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A cluster and a user, in a kubeconfig's own keys, with files by their absolute paths."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]


def connect(kubeconfig: Path) -> Api:
    """The server of the current context, as its user.

    Raises:
        CredentialsError: no current context, or a user with neither certificate nor token.
    """
    read = _read(kubeconfig)
    address = urlsplit(read.host)
    if address.scheme != "https" or address.hostname is None:
        raise CredentialsError(f"{read.host}: only https:// is supported")
    context = ssl.create_default_context(cafile=read.ssl_ca_cert)
    if not read.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if read.cert_file and read.key_file:
        context.load_cert_chain(read.cert_file, read.key_file)
    return Api(
        host=address.hostname,
        port=address.port or 443,
        root=address.path.rstrip("/"),
        context=context,
        headers={"Authorization": token} if (token := _token(read)) else {},
    )


def entry(kubeconfig: Path, folder: Path) -> Entry:
    """What ``connect`` uses, for components that are the same user.

    Args:
        kubeconfig: the file.
        folder: private, for a token.

    Raises:
        CredentialsError: as ``connect``.
    """
    read = _read(kubeconfig)
    cluster = {"server": read.host}
    if read.ssl_ca_cert:
        cluster["certificate-authority"] = read.ssl_ca_cert
    if not read.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    if read.cert_file and read.key_file:
        return Entry(cluster, {"client-certificate": read.cert_file, "client-key": read.key_file})
    token = folder / "token"
    token.write_text(_token(read).removeprefix("Bearer "))
    return Entry(cluster, {"tokenFile": str(token)})


def _read(kubeconfig: Path) -> Any:
    """The library's configuration, with paths of files."""
    try:
        read = configuration_of(KubeconfigSource(kubeconfig))
    except ClusterError as error:
        raise CredentialsError(error.message) from error
    if not _token(read) and not (read.cert_file and read.key_file):
        raise CredentialsError(f"{kubeconfig}: the user has neither certificate nor token")
    return read


def _token(read: Any) -> str:
    """The Authorization header; empty where a certificate says who asks."""
    return str(read.get_api_key_with_prefix("BearerToken") or "").strip()
