"""Which kubeconfig and which context kubectl would use.

Source: k8s.io/client-go/tools/clientcmd/loader.go (``ClientConfigLoadingRules``): a file that is
given is the only one; else the files of ``KUBECONFIG``, of which missing ones are ignored; else
``~/.kube/config``. Of two files that set the same name, or the current context, the first wins.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from adapters.cluster.api.credentials import KubeconfigSource, KubeCredentials, load
from adapters.cluster.api.error import ClusterError

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
        source: of the credentials.
    """

    name: str
    namespace: str
    source: KubeconfigSource


def choose(
    path: Path | None, context: str | None, environ: Mapping[str, str], home: Path
) -> KubeContext:
    """Choose files and context as kubectl does; files are read, no connection is opened.

    Args:
        path: the only file to read; None where the user named none.
        context: of the files; None for the current one.
        environ: environment variables.
        home: the user's home directory.

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
    known = _contexts([content for _, content in contents])
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
    """The files that ``choose`` reads, with the same arguments."""
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
    except yaml.YAMLError as error:
        raise _error(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise _error(f"{file}: is not a kubeconfig, which is a mapping with clusters and contexts")
    return content


def _contexts(contents: Sequence[dict[str, object]]) -> dict[str, dict[str, object]]:
    known: dict[str, dict[str, object]] = {}
    for content in contents:
        listed = content.get("contexts")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and isinstance(each.get("context"), dict):
                known.setdefault(str(each.get("name")), each["context"])
    return known


def _error(problem: str) -> ClusterError:
    return ClusterError(0, "Credentials", problem)
