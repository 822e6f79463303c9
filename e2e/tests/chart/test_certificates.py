"""The service makes its own certificate, and changes it while pods are created: none is refused."""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.ready_cluster import PODS, clear, pod
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import NAMESPACE
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, hooks, install

pytestmark = pytest.mark.local

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
NAME = "dragoman-tls"
SHARE = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}
OVERLAP = 2


@dataclass(slots=True)
class Managing(Service):
    """A service that makes its certificate itself."""

    def _settings(self) -> Path:
        file = Service._settings(self)
        settings = json.loads(file.read_text())
        settings["tls"] = {
            "listen": f"127.0.0.1:{self.secure}",
            "managed": {
                "secret": NAME,
                "names": ["127.0.0.1"],
                "webhooks": ["dragoman"],
                "overlapSeconds": OVERLAP,
            },
        }
        file.write_text(json.dumps(settings))
        return file


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        plane = start_control_plane(this)
        install(plane)
        plane.api.create(SECRETS, {"metadata": {"name": NAME}})
        yield plane


@pytest.fixture(scope="module")
def services(plane: ControlPlane) -> list[Managing]:
    """Two: one has the Lease and makes the certificate, the other uses it."""
    first, second, third, fourth = free_ports(4)
    found = [
        Managing(plane, "dragoman-0", first, second),
        Managing(plane, "dragoman-1", third, fourth),
    ]
    plane.api.create(CONFIGURATIONS, hooks(found[1].secure))
    for service in found:
        service.start()
    return found


def bundle(plane: ControlPlane) -> str:
    """The authorities that the API server trusts when it calls the service."""
    found = plane.api.get(f"{CONFIGURATIONS}/dragoman")["webhooks"]
    (trusted,) = {hook["clientConfig"].get("caBundle", "") for hook in found}
    return str(trusted)


def shown(service: Service) -> str:
    """The certificate that a service shows now."""
    return ssl.get_server_certificate(("127.0.0.1", service.secure), timeout=5)


@dataclass
class Storm:
    """Pods that are created all the time by several clients, and handshakes as of new API servers.

    Attributes:
        plane: whose API server is asked.
        services: that are asked by it.
        created: how many pods were.
        greeted: how many handshakes with the published bundle succeeded.
        refused: what was said to the others.
    """

    plane: ControlPlane
    services: list[Managing]
    created: int = 0
    greeted: int = 0
    refused: list[str] = field(default_factory=list[str])
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, clients: int) -> list[threading.Thread]:
        """Begin."""
        threads = [threading.Thread(target=self._create, args=(n,)) for n in range(clients)]
        threads += [threading.Thread(target=self._greet, args=(each,)) for each in self.services]
        for thread in threads:
            thread.start()
        return threads

    def _create(self, client: int) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            try:
                made = self.plane.api.create(
                    f"{PODS}?dryRun=All", pod(f"s{client}-{number}", "x", SHARE)
                )
                assert made["spec"]["containers"][0]["env"][0]["value"] == "void"
            except (ApiError, OSError, AssertionError) as error:
                with self._lock:
                    self.refused.append(repr(error))
            else:
                with self._lock:
                    self.created += 1
            time.sleep(0.02)

    def _greet(self, service: Managing) -> None:
        while not self.over.is_set():
            try:
                trusted = base64.b64decode(bundle(self.plane)).decode()
                context = ssl.create_default_context(cadata=trusted)
                with (
                    socket.create_connection(("127.0.0.1", service.secure), 5) as plain,
                    context.wrap_socket(plain, server_hostname="127.0.0.1"),
                ):
                    self.greeted += 1
            except OSError as error:
                with self._lock:
                    self.refused.append(f"{service.name}: {error!r}")
            time.sleep(0.02)


def test_a_pod_is_admitted_by_a_certificate_that_the_service_made_and_no_pod_is_without(
    plane: ControlPlane, services: list[Managing]
) -> None:
    within(30, lambda: bundle(plane) != "")
    within(30, lambda: admitted(plane.api))

    assert shown(services[0]) == shown(services[1])
    leader = ["dragoman_reconciler_leader 1.0" in each.metrics() for each in services]
    assert sorted(leader) == [False, True]


def admitted(api: Api) -> bool:
    """Whether a pod is admitted now, with its cards hidden."""
    try:
        made = api.create(f"{PODS}?dryRun=All", pod("first", "x", SHARE))
    except ApiError:
        return False
    return bool(made["spec"]["containers"][0]["env"][0]["value"] == "void")


def test_no_pod_is_refused_while_one_authority_takes_over_from_another(
    plane: ControlPlane, services: list[Managing]
) -> None:
    within(30, lambda: admitted(plane.api))
    before, trusted = shown(services[1]), bundle(plane)
    storm = Storm(plane, services)

    threads = storm.start(4)
    wish = {"metadata": {"annotations": {"dragoman.dev/rotate": "now"}}}
    plane.api.merge(f"{SECRETS}/{NAME}", wish)
    bundles = [trusted]

    def has_two_more() -> bool:
        if (now := bundle(plane)) != bundles[-1]:
            bundles.append(now)
        return len(bundles) == 3

    within(60, has_two_more)
    settled = storm.created
    within(20, lambda: storm.created > settled + 20)
    storm.over.set()
    for thread in threads:
        thread.join(30)

    assert storm.refused == []
    assert len(bundles) == 3, "the old authority, both, the new one"
    assert len(bundles[1]) > len(bundles[2])
    assert shown(services[0]) == shown(services[1]) != before
    assert "dragoman.dev/rotate" not in plane.api.get(f"{SECRETS}/{NAME}")["metadata"].get(
        "annotations", {}
    )
    print(f"meanwhile {storm.created} pods and {storm.greeted} handshakes, none was refused")
    clear(plane.api)


def test_a_configuration_that_was_emptied_is_trusted_again_soon(
    plane: ControlPlane, services: list[Managing]
) -> None:
    within(30, lambda: admitted(plane.api))
    trusted = bundle(plane)
    found = plane.api.get(f"{CONFIGURATIONS}/dragoman")
    for hook in found["webhooks"]:
        del hook["clientConfig"]["caBundle"]

    plane.api.replace(f"{CONFIGURATIONS}/dragoman", found)

    within(20, lambda: bundle(plane) == trusted)
    within(20, lambda: admitted(plane.api))
    assert all(service.is_ready() for service in services)


@pytest.mark.refusals  # the role is for one Secret, and this is another
def test_a_service_without_a_certificate_is_not_ready(plane: ControlPlane) -> None:
    plane.api.create(SECRETS, {"metadata": {"name": "another"}})
    clear_port, secure = free_ports(2)

    @dataclass(slots=True)
    class Waiting(Managing):
        def _settings(self) -> Path:
            file = Managing._settings(self)
            settings = json.loads(file.read_text())
            settings["tls"]["managed"]["secret"] = "another"  # noqa: S105 - its name
            file.write_text(json.dumps(settings))
            return file

        def is_ready(self) -> bool:
            return b"the certificate" in self._ask("/readyz")[1]

    waiting = Waiting(plane, "waiting", clear_port, secure)
    waiting.start()

    assert waiting.stop() == 0
