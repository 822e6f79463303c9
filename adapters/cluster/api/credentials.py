"""Where the API server is and who we are: from inside a pod, or from a kubeconfig.

The client library finds and reads both, exec plugins included; this is its only use.
"""

import asyncio
import os
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from adapters.cluster.api.error import ClusterError

# Asking the library again costs a thread switch, and a token lives for minutes at least.
_ASK_AGAIN = 10.0

# What the library throws, besides its own, at a file that is not as it expects.
_ODD = (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError)


@dataclass(frozen=True, slots=True)
class KubeconfigSource:
    """Which credentials to use.

    Attributes:
        kubeconfig: file to read; None for the service account of the pod that we run in.
        context: of the kubeconfig; None for its current one.
        others: files that are merged into the first one; of two equal names the first wins.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    others: tuple[Path, ...] = ()


@dataclass(slots=True)
class KubeCredentials:
    """The server's address, the TLS context, and a bearer token that is kept fresh.

    Attributes:
        server: base URL without a slash at its end.
        context: for TLS; None where the server speaks plain HTTP.
        proxy: URL of a proxy, or None.
        name: the server's name in its certificate, where it is not that of the URL.
    """

    server: str
    context: ssl.SSLContext | None = field(default=None, repr=False)
    proxy: str | None = None
    name: str | None = None
    _source: KubeconfigSource | None = field(default=None, repr=False)
    _configuration: Any = field(default=None, repr=False)
    _token: str | None = field(default=None, repr=False)
    _asked: float | None = field(default=None, repr=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def authorization(self) -> str | None:
        """The Authorization header; None where a certificate says who we are.

        Raises:
            ClusterError: an exec plugin failed, or the token file cannot be read.
        """
        if self._configuration is None:
            return self._token
        async with self._asking:
            now = time.monotonic()
            if self._asked is None or now - self._asked > _ASK_AGAIN:
                self._token = await asyncio.to_thread(_token, self._configuration)
                self._asked = now
        return self._token

    async def renew(self) -> None:
        """Read everything again: the server did not know us.

        Raises:
            ClusterError: the credentials cannot be read.
        """
        if self._source is None:
            return
        async with self._asking:
            configuration = await asyncio.to_thread(_configuration, self._source)
            if self.context is not None:
                await asyncio.to_thread(_trust, self.context, configuration)
            self._configuration = configuration
            self._asked = None


def load(source: KubeconfigSource) -> KubeCredentials:
    """Credentials from this source; files are read, an exec plugin may run.

    Raises:
        ClusterError: there are none, or they cannot be used.
    """
    configuration = _configuration(source)
    secure = str(configuration.host).startswith("https:")
    return KubeCredentials(
        server=str(configuration.host).rstrip("/"),
        context=_context(configuration) if secure else None,
        proxy=configuration.proxy,
        name=configuration.tls_server_name,
        _source=source,
        _configuration=configuration,
    )


def _configuration(source: KubeconfigSource) -> Any:
    from kubernetes import client, config  # here: it takes 0.3 s and 50 MiB

    loader: Any = config
    configuration = client.Configuration()
    try:
        if source.kubeconfig is None:
            loader.load_incluster_config(client_configuration=configuration)
        else:
            loader.load_kube_config(
                config_file=os.pathsep.join(map(str, (source.kubeconfig, *source.others))),
                context=source.context,
                client_configuration=configuration,
                persist_config=False,
            )
    except (config.ConfigException, yaml.YAMLError, *_ODD) as error:
        raise ClusterError(0, "Credentials", _where(source, error)) from error
    return configuration


def _where(source: KubeconfigSource, error: Exception) -> str:
    place = "the pod's service account" if source.kubeconfig is None else str(source.kubeconfig)
    return f"{place}: {error}"


def _context(configuration: Any) -> ssl.SSLContext:
    # Where the cluster has an authority of its own, no other one is believed.
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _trust(context, configuration)
    return context


def _trust(context: ssl.SSLContext, configuration: Any) -> None:
    try:
        if configuration.ssl_ca_cert:
            context.load_verify_locations(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except OSError as error:
        raise ClusterError(0, "Credentials", f"a certificate cannot be read: {error}") from error


def _token(configuration: Any) -> str | None:
    from kubernetes import config

    try:
        return configuration.get_api_key_with_prefix("BearerToken") or None
    except (config.ConfigException, *_ODD) as error:
        raise ClusterError(0, "Credentials", f"no token: {error}") from error
