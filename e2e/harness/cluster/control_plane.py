"""etcd, kube-apiserver and kube-controller-manager on loopback.

The API server authorises as in a real cluster (Node and RBAC); it knows users by client
certificates. There is no scheduler: a test starts the one that it is about.
"""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from e2e.harness.cluster import audit
from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.kubeconfig import kubeconfig
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import Run
from e2e.testbed import cache


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane.

    Attributes:
        api: the server, as a cluster administrator.
        server_port: where it listens on 127.0.0.1.
        address: where it finds servers of the test.
        values: of our chart that this cluster needs.
    """

    run: Run
    authority: Authority
    server_port: int
    api: Api
    address: str = "127.0.0.1"
    values: Mapping[str, object] = field(default_factory=dict[str, object])

    def kubeconfig(self, user: str, group: str = "") -> Path:
        """A kubeconfig for this user, made at the first call."""
        path = self.run.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            pair = self.authority.user(user, group)
            kubeconfig(path, port=self.server_port, authority=self.authority.pair, user=pair)
        return path

    def with_token(self, token: Path) -> Path:
        """A kubeconfig for the account whose token is in this file, beside it."""
        path = token.with_suffix(".kubeconfig")
        return kubeconfig(path, port=self.server_port, authority=self.authority.pair, user=token)

    def scheduler(self, usual: str) -> str:
        """The name by which pods name one of the test's schedulers here."""
        return usual

    def as_user(self, user: str, group: str = "") -> Api:
        """The server, as this user."""
        pair = self.authority.user(user, group)
        return Api.connect(self.server_port, self.authority.pair, pair)


def start_control_plane(run: Run, server: Flags | None = None) -> ControlPlane:
    """Start all three; when this returns, pods can be created in the default namespace.

    Args:
        run: of the processes.
        server: further flags of the API server, or in place of the usual ones.

    Raises:
        NotBuiltError: a binary is missing.
        StartError: a component does not start.
    """
    client_port, peer_port, server_port, manager_port = free_ports(4)
    authority = Authority.create(run.folder / "certificates")
    _start_etcd(run, client_port, peer_port)
    _prepare_server(run, authority, client_port, server_port, server or {})
    admin = authority.user("admin", "system:masters")
    api = Api.connect(server_port, authority.pair, admin)
    run.processes[-1].wait_until(api.is_ready)
    plane = ControlPlane(run=run, authority=authority, server_port=server_port, api=api)
    _start_manager(plane, manager_port)
    return plane


def _start_etcd(run: Run, client_port: int, peer_port: int) -> None:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"

    def is_ready() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", client_port, timeout=5)
        with closing(connection):
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()

    flags: Flags = {
        "name": "e2e",
        "data-dir": run.folder / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"e2e={peer}",
        "unsafe-no-fsync": "true",  # the data lives as long as the test
        "log-level": "warn",
    }
    run.start("etcd", [cache.binary("etcd", "etcd"), *words(flags)], ready=is_ready)


def _prepare_server(run: Run, authority: Authority, etcd_port: int, port: int, more: Flags) -> None:
    serving, tokens = authority.server("kube-apiserver"), authority.server("service-accounts")
    (run.folder / "audit.json").write_text(json.dumps(audit.POLICY))
    flags: Flags = {
        "etcd-servers": f"http://127.0.0.1:{etcd_port}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": serving.certificate,
        "tls-private-key-file": serving.key,
        "client-ca-file": authority.pair.certificate,
        # Only so that the schedulers find one; no certificate has this name.
        "requestheader-client-ca-file": authority.pair.certificate,
        "requestheader-allowed-names": "front-proxy",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",  # as kubeadm does
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": tokens.certificate,
        "service-account-signing-key-file": tokens.key,
        "service-cluster-ip-range": "10.0.0.0/24",
        "endpoint-reconciler-type": "none",  # it refuses to publish a loopback address
        "allow-privileged": "true",
        "audit-policy-file": run.folder / "audit.json",
        "audit-log-path": run.folder / audit.LOG,
        **more,
    }
    run.start("kube-apiserver", [cache.binary("kubernetes", "kube-apiserver"), *words(flags)])


def _start_manager(plane: ControlPlane, port: int) -> None:
    config = plane.kubeconfig("system:kube-controller-manager")
    certificates = plane.authority.folder
    flags: Flags = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "leader-elect": "false",
        # Its own limit of 20 requests a second makes it take five seconds to start.
        "kube-api-qps": 500,
        "kube-api-burst": 500,
        # No kubelet renews the lease of a fake node; after the usual 50 s it would be unreachable.
        "node-monitor-grace-period": "1h",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": certificates / "service-accounts.key",
        "root-ca-file": plane.authority.pair.certificate,
    }

    def has_service_account() -> bool:
        try:
            plane.api.get("/api/v1/namespaces/default/serviceaccounts/default")
        except ApiError:
            return False
        return True

    manager = cache.binary("kubernetes", "kube-controller-manager")
    plane.run.start("kube-controller-manager", [manager, *words(flags)], ready=has_service_account)
