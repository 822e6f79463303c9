"""The API server shows a client certificate, and the TLS port answers no other client."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from e2e.harness.cluster.certificates import Authority, Pair
from e2e.harness.cluster.control_plane import start_control_plane
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import REPOSITORY, Run, run
from e2e.harness.schedulers.service import Service, install, webhooks

pytestmark = [pytest.mark.local]

FILES = REPOSITORY / "configs" / "api-server"
SHARE = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}


def admission(run: Run, client: Pair, port: int) -> Path:
    """The files of ``configs``, at another place, and for a service on this machine."""
    folder = run.folder / "api-server"
    folder.mkdir()
    for name in ("admission.yaml", "webhooks.yaml"):
        text = (FILES / name).read_text()
        text = text.replace("/etc/kubernetes/dragoman/client.crt", str(client.certificate))
        text = text.replace("/etc/kubernetes/dragoman/client.key", str(client.key))
        text = text.replace("/etc/kubernetes/dragoman", str(folder))
        (folder / name).write_text(text.replace(f"{RELEASE}.{NAMESPACE}.svc", f"127.0.0.1:{port}"))
    return folder / "admission.yaml"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A service with the chart's webhooks, which knows its clients' authority."""
    with run() as this:
        clients = Authority.create(this.folder / "clients")
        clear, secure = free_ports(2)
        config = admission(this, clients.user("kube-apiserver"), secure)
        plane = start_control_plane(this, {"admission-control-config-file": str(config)})
        install(plane)
        authorities = {"DRAGOMAN_TLS_CLIENTAUTHORITIES": str(clients.pair.certificate)}
        made = Service(plane, "dragoman", clear, secure, environment=authorities)
        made.start()
        with webhooks(made):
            yield made


def test_the_api_server_reaches_the_webhooks(service: Service) -> None:
    made = service.plane.api.create(PODS, pod("asked", "x", SHARE))

    (container,) = made["spec"]["containers"]
    assert "DRAGOMAN_SHARE" in {each["name"] for each in container["env"]}


@pytest.mark.parametrize("known", [False, True])
def test_another_client_gets_no_answer(service: Service, known: bool) -> None:
    """Without a certificate, or with one of the cluster's authority, as pods can have."""
    authority = service.plane.authority
    context = ssl.create_default_context(cafile=str(authority.pair.certificate))
    if known:
        pair = authority.user("system:serviceaccount:default:default")
        context.load_cert_chain(pair.certificate, pair.key)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(service, context)


def ask(service: Service, context: ssl.SSLContext) -> int:
    """Send a review; the status of the answer."""
    made = http.client.HTTPSConnection("127.0.0.1", service.secure, timeout=10, context=context)
    with closing(made) as port:
        port.request("POST", "/admission/bindings", "{}")
        return port.getresponse().status
