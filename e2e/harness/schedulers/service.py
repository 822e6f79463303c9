"""Our own service, from this checkout, on a cluster of the test bed; how schedulers ask it."""

import base64
import http.client
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import FAKE
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.schedulers.configured import CONFIGS, configured
from e2e.harness.schedulers.schedulers import define

MAIN = "from adapters.cli.main import main; main()"


@dataclass(slots=True)
class Service:
    """One process of it, which can be killed and started again on the same ports.

    Attributes:
        plane: the cluster.
        name: of the process.
        clear: its port for HTTP.
        secure: its port for HTTPS.
        process: the latest.
        more: settings, besides those that every test needs.
        environment: of the process, besides what it needs.
        program: Python that runs the command.
        uid: of its pod: stays as its container starts again.
    """

    plane: ControlPlane
    name: str
    clear: int
    secure: int
    process: Process | None = None
    more: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    program: str = MAIN
    uid: str = field(default_factory=lambda: str(uuid4()))

    @property
    def url(self) -> str:
        """Where it answers in the clear."""
        return f"http://127.0.0.1:{self.clear}"

    @property
    def pid(self) -> int:
        """The number of the latest process; 0 before the first start."""
        return 0 if self.process is None else self.process.popen.pid

    def start(self) -> None:
        """Start it and wait until it is ready to decide.

        Raises:
            StartError: it ended, or did not get ready.
        """
        words = (sys.executable, "-c", self.program, "serve")
        command: list[str | Path] = [*words, "--config", self._settings()]
        environment = {"PYTHONPATH": str(REPOSITORY), "POD_UID": self.uid, **self.environment}
        self.process = self.plane.run.start(
            self.name, command, ready=self.is_ready, environment=environment
        )

    def kill(self) -> None:
        """Kill -9."""
        process = self._forget()
        process.identity.signal_group(signal.SIGKILL)
        process.popen.wait()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        process = self._forget()
        process.popen.terminate()
        return process.popen.wait(20)

    def is_ready(self) -> bool:
        """Whether it is ready to decide."""
        return self._ask("/readyz")[0] == http.client.OK

    def get(self, path: str) -> Any:
        """The answer of its API for people."""
        return json.loads(self._ask(path)[1])

    def ask(self, path: str, question: Object) -> Any:
        """The service's answer to a question of a scheduler."""
        return json.loads(self._ask(path, json.dumps(question))[1])

    def metrics(self, path: str = "/metrics") -> str:
        """What Prometheus scrapes of it."""
        return self._ask(path)[1].decode()

    def _ask(self, path: str, question: str | None = None) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.clear, timeout=10)) as port:
            port.request("GET" if question is None else "POST", path, question)
            answer = port.getresponse()
            return answer.status, answer.read()

    def _forget(self) -> Process:
        (found,) = [each for each in self.plane.run.processes if each is self.process]
        self.plane.run.processes.remove(found)
        return found

    def _settings(self) -> Path:
        pair = self.plane.authority.server(f"{self.name}-port")
        file = self.plane.run.folder / f"{self.name}.yaml"
        settings = {
            "listen": f"127.0.0.1:{self.clear}",
            "store": "kubernetes",
            "namespace": NAMESPACE,
            "tls": {
                "listen": f"{self.plane.address}:{self.secure}",
                "certificate": str(pair.certificate),
                "key": str(pair.key),
            },
            "confirmStop": "agents",  # kwok's pods have no containers that could run on
            "nodeLock": "never",  # kwok's nodes have no device plugin that would unlock them
            "grpc": "off",
            "log": {"format": "text"},
            **self.more,
        }
        if "kubeconfig" not in settings:
            settings["kubeconfig"] = str(account(self.plane, NAMESPACE, RELEASE))
        file.write_text(json.dumps(settings))
        return file


def install(plane: ControlPlane) -> None:
    """What the service and the agents need of a cluster: definitions, accounts and their rights.

    Raises:
        NotBuiltError: helm is not built, which renders the chart.
    """
    define(plane, CONFIGS / "crd")
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    objects = chart.render({"crd": {"install": False}, **plane.values})
    chart.apply(plane, [each for each in objects if each["kind"] in chart.RIGHTS])


def grant(plane: ControlPlane, settings: Mapping[str, object]) -> None:
    """Give the service the rights that the chart gives it with these settings."""
    known = {key: settings[key] for key in ("publish", "nodeLock", "web") if key in settings}
    role = f"{RELEASE}-service"
    rest = {key: settings[key] for key in ("preemption",) if key in settings}
    if "moves" in settings:
        rest["defrag"] = settings["moves"]
    objects = chart.render({**plane.values, **rest, "service": {"settings": known}})
    chart.apply(
        plane,
        [e for e in objects if (e["kind"], e["metadata"]["name"]) == ("ClusterRole", role)],
    )


def start_service(
    plane: ControlPlane,
    name: str = "dragoman",
    *,
    environment: Mapping[str, str] | None = None,
    program: str = MAIN,
    **more: object,
) -> Service:
    """Start one; it is ready to decide.

    Args:
        plane: the cluster.
        name: of the process.
        environment: of the process, besides what it needs.
        program: Python that runs the command.
        more: settings, besides those that every test needs; with the rights that they need.
    """
    if not {"publish", "preemption", "moves", "web"}.isdisjoint(more):
        grant(plane, more)
    clear, secure = free_ports(2)
    made = Service(
        plane, name, clear, secure, more=more, environment=environment or {}, program=program
    )
    made.start()
    return made


def hooks(
    port: int,
    authority: bytes | None = None,
    address: str = "127.0.0.1",
    values: Mapping[str, object] | None = None,
) -> Object:
    """The chart's webhook configuration, for a service on this machine.

    Args:
        port: of the service, for HTTPS.
        authority: that the API server trusts, PEM; None for none yet.
        address: where the API server finds this machine.
        values: of the chart.
    """
    kind = "MutatingWebhookConfiguration"
    (found,) = [each for each in chart.render(values or {}) if each["kind"] == kind]
    for hook in found["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://{address}:{port}{path}"}
        if authority is not None:
            hook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
    return found


@contextmanager
def webhooks(service: Service) -> Iterator[None]:
    """Let the API server ask the service about pods and bindings, as the chart has it."""
    plane = service.plane
    authority = plane.authority.pair.certificate.read_bytes()
    asked = hooks(service.secure, authority, plane.address, plane.values)
    made = plane.api.create(CONFIGURATIONS, asked)
    try:
        yield
    finally:
        plane.api.delete(f"{CONFIGURATIONS}/{made['metadata']['name']}")


def kube_like(service: Service, file: str, name: str = "") -> str:
    """A file of ``configs`` for kube-scheduler or koord-scheduler, as this service needs it.

    Args:
        service: that is asked.
        file: in ``configs``.
        name: of its only profile; empty for the one in the file.
    """
    scheduler = "koord-scheduler" if file.startswith("koord-") else "kube-scheduler"
    user = service.plane.kubeconfig(scheduler, "system:masters")
    options = ["--url", service.url, "--kubeconfig", str(user)]
    if name:
        options += ["--scheduler-name", name]
    return configured(scheduler, CONFIGS / file, *options)


def volcano_like(service: Service, file: str = "volcano-scheduler-configmap.yaml") -> str:
    """A file of ``configs`` for vc-scheduler, as this service needs it."""
    return configured("vc-scheduler", CONFIGS / file, "--url", service.url)


def example(name: str) -> list[Object]:
    """The objects of a file in ``configs/examples``; its nodes are kwok's, and have processors."""
    found = []
    for document in yaml.safe_load_all((CONFIGS / "examples" / f"{name}.yaml").read_text()):
        if document and document["kind"] == "Node":
            found.append(_for_kwok(document))
        elif document:
            found.append(document)
    return found


def _for_kwok(node: Object) -> Object:
    metadata = node["metadata"]
    metadata["annotations"] = FAKE | metadata.get("annotations", {})
    metadata["labels"] = {"kubernetes.io/hostname": metadata["name"]} | metadata.get("labels", {})
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "200"} | node["status"]["allocatable"]
    node["status"] = {"capacity": amounts, "allocatable": amounts}
    return node


def with_decisions(service: Service, wait: Callable[[], float]) -> float:
    """Wait; a failure includes the latest decisions of the service.

    Raises:
        AssertionError: with the latest decisions, where the wait ran out of time.
    """
    try:
        return wait()
    except TimeoutError as late:
        decisions = "\n".join(json.dumps(row) for row in service.get("/api/decisions")[:30])
        raise AssertionError(f"{late}; the service said:\n{decisions}") from late
