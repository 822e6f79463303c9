"""Where the API server is and who we are: from inside a pod, or from a kubeconfig.

Files and context are chosen as kubectl chooses them: a file that is given is the only one; else the
files of ``KUBECONFIG``, of which missing ones are ignored; else ``~/.kube/config``. Of two files
that set the same name, or the current context, the first wins.
Source: k8s.io/client-go/tools/clientcmd/loader.go (``ClientConfigLoadingRules``).

The package ``kubernetes`` reads what is chosen, and runs credential helpers.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from adapters.cluster.api.error import CREDENTIALS, ClusterError
from adapters.wire.decode.yaml_decoding import FAILURES

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
        """Return the Authorization header; None where a certificate says who we are.

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
            configuration = await asyncio.to_thread(configuration_of, self._source)
            if self.context is not None:
                await asyncio.to_thread(_trust, self.context, configuration)
            self._configuration = configuration
            self._asked = None


def load(source: KubeconfigSource) -> KubeCredentials:
    """Credentials from this source; files are read, an exec plugin may run.

    Raises:
        ClusterError: there are none, or they cannot be used.
    """
    configuration = configuration_of(source)
    secure = str(configuration.host).startswith("https:")
    return KubeCredentials(
        server=str(configuration.host).rstrip("/"),
        context=_context(configuration) if secure else None,
        proxy=configuration.proxy,
        name=configuration.tls_server_name,
        _source=source,
        _configuration=configuration,
    )


def configuration_of(source: KubeconfigSource) -> Any:
    """Return the library's ``Configuration`` of a source; files are read, a helper may run.

    Raises:
        ClusterError: there are no credentials, or they cannot be used.
    """
    from kubernetes import client, config  # here: it takes 0.3 s and 50 MiB

    loader: Any = config
    configuration = client.Configuration()
    try:
        if source.kubeconfig is None:
            loader.load_incluster_config(client_configuration=configuration)
        else:
            _kubeconfig_loader(source).load_and_set(configuration)
    except (config.ConfigException, yaml.YAMLError, *_ODD) as error:
        place = source.kubeconfig or "the pod's service account"
        raise _error(f"{place}: {error}") from error
    return configuration


def _kubeconfig_loader(source: KubeconfigSource) -> Any:
    """Return the library's loader, but for a credential helper that fails.

    The library (kubernetes 37.0.2, config/kube_config.py) logs the failure and goes on without
    credentials, so that the API server takes the user for ``system:anonymous``.
    """
    from kubernetes import config
    from kubernetes.config import kube_config

    library: Any = kube_config  # it has no types

    class _Loader(library.KubeConfigLoader):  # type: ignore[misc]
        def _load_from_exec_plugin(self) -> bool:
            if "exec" not in self._user:
                return False
            folder = self._get_base_path(self._cluster.path)
            status = _run_helper(self._user["exec"], folder, self._cluster)
            if "token" in status:
                self.token = f"Bearer {status['token']}"
            else:
                for name, key in (("cert_file", "Certificate"), ("key_file", "Key")):
                    content = library.FileOrData(
                        status, None, f"client{key}Data", base64_file_content=False
                    )
                    setattr(self, name, content.as_file())
            if "expirationTimestamp" in status:
                self.expiry = library.parse_rfc3339(status["expirationTimestamp"])
            return True

    paths = os.pathsep.join(map(str, (source.kubeconfig, *source.others)))
    found = library.KubeConfigMerger(paths).config
    if found is None:
        raise config.ConfigException("no such file, or an empty one")
    return _Loader(found, source.context, config_base_path=None)


def _run_helper(helper: Any, folder: str, cluster: Any) -> Mapping[str, str]:
    """Run a credential helper; its answer has a token, or a certificate and its key.

    Raises:
        ConfigException: it failed; the message is one line and ends with its ``installHint``.
    """
    from kubernetes import config
    from kubernetes.config import exec_provider

    provider: Any = exec_provider
    try:
        status: Mapping[str, str] = provider.ExecProvider(helper, folder, cluster).run()
        if "token" in status or {"clientCertificateData", "clientKeyData"} <= status.keys():
            return status
        problem = "its answer has neither a token nor a certificate"
    except (config.ConfigException, *_ODD) as error:
        problem = str(getattr(error, "strerror", None) or error).removeprefix("exec: ")
    hint = helper.safe_get("installHint")
    text = f"credential helper {helper.safe_get('command')}: {problem}{f'; {hint}' if hint else ''}"
    raise config.ConfigException(" ".join(text.split()))


def _context(configuration: Any) -> ssl.SSLContext:
    try:
        # Where the cluster has an authority of its own, no other one is believed.
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    except OSError as error:
        raise _error(f"a certificate cannot be read: {error}") from error
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
        raise _error(f"a certificate cannot be read: {error}") from error


def _token(configuration: Any) -> str | None:
    from kubernetes import config

    try:
        return configuration.get_api_key_with_prefix("BearerToken") or None
    except (config.ConfigException, *_ODD) as error:
        raise _error(f"no token: {error}") from error


VARIABLE = "KUBECONFIG"

IN_CLUSTER = "in-cluster"
"""Name of the context of a program that runs in a pod."""

SERVICE_ACCOUNT = "KUBERNETES_SERVICE_HOST"
"""Environment variable that the kubelet sets in every container."""


@dataclass(frozen=True, slots=True)
class KubeContext:
    """A cluster, and our user in it.

    Attributes:
        name: of the context; ``in-cluster`` for a pod's service account.
        namespace: of the context; ``default`` where it has none.
    """

    name: str
    namespace: str
    source: KubeconfigSource


def choose(
    path: Path | None, context: str | None, environ: Mapping[str, str], home: Path
) -> KubeContext:
    """Choose files and context as kubectl does; files are read, no connection is opened.

    ``path`` is the only file to read, None where the user named none; a context of None is the
    current one.

    Raises:
        ClusterError: a file cannot be read, there is none, or it has no such context.
    """
    files = files_of(path, environ, home)
    contents = [(file, _read(file)) for file in files]
    if not contents:
        if path is None and context is None and environ.get(SERVICE_ACCOUNT):
            return KubeContext(IN_CLUSTER, "default", KubeconfigSource())
        raise _error(
            f"no kubeconfig: neither --kubeconfig, {VARIABLE} nor {home / '.kube' / 'config'} names"
            " a file that exists; pass one, or read manifests with -f"
        )
    known: dict[str, Mapping[str, object]] = {}
    for _, content in contents:
        listed = content.get("contexts")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and isinstance(each.get("context"), dict):
                known.setdefault(str(each.get("name")), each["context"])
    current = next((str(c["current-context"]) for _, c in contents if c.get("current-context")), "")
    name = context or current
    shown = ", ".join(str(file) for file in files)
    if name not in known:
        what = f"no context {name!r}" if name else "no current context"
        names = ", ".join(sorted(known)) or "none"
        raise _error(f"{shown}: {what}; pass --context, one of: {names}")
    namespace = str(known[name].get("namespace") or "default")
    return KubeContext(name, namespace, KubeconfigSource(files[0], name, tuple(files[1:])))


def own_credentials(kubeconfig: Path | None) -> KubeCredentials:
    """Credentials of a file, where one is given, else of our pod, else of what kubectl reads.

    Raises:
        ClusterError: there are none, or they cannot be used.
    """
    if kubeconfig is not None or SERVICE_ACCOUNT in os.environ:
        return load(KubeconfigSource(kubeconfig))
    return load(choose(None, None, os.environ, Path.home()).source)


def files_of(path: Path | None, environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return the files that ``choose`` reads, with the same arguments."""
    if path is not None:
        return [path]
    named = environ.get(VARIABLE)
    if named:
        listed = dict.fromkeys(filter(None, named.split(os.pathsep)))
        return [Path(file) for file in listed if Path(file).exists()]
    default = home / ".kube" / "config"
    return [default] if default.exists() else []


def _read(file: Path) -> dict[str, object]:
    try:
        content = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise _error(f"{file}: cannot be read: {error.strerror}") from error
    except FAILURES as error:
        raise _error(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise _error(f"{file}: is not a kubeconfig, which is a mapping with clusters and contexts")
    return content


def _error(problem: str) -> ClusterError:
    return ClusterError(0, CREDENTIALS, problem)
