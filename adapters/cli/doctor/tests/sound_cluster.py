"""A cluster in which nothing is wrong, as an API server shows it; a test breaks one thing.

The objects of the installation are those that helm renders from the chart.
"""

import asyncio
import json
import time
from base64 import b64encode
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from adapters.cli.configure.command import configure, default
from adapters.cli.configure.options import ConfigureOptions, Scheduler
from adapters.cli.doctor.command import examine, observe
from adapters.cli.doctor.finding import CheckResult, FindingLevel
from adapters.cluster.api.transport import Timeouts
from adapters.cluster.tests.server import Reply, Request, client, serving
from adapters.service.certificates.authority import KeyPair, make_authority, sign

Object = dict[str, Any]

RENDERED = Path(__file__).parents[4] / "e2e" / "tests" / "chart" / "golden" / "defaults.golden.yaml"
DEFINITION = Path(__file__).parents[4] / "configs" / "crd" / "nodeledgers.yaml"
NAMESPACE, NAME = "dragoman-system", "dragoman"
HOST = f"{NAME}.{NAMESPACE}.svc"
DAY = 86_400
PATIENT = Timeouts(read=60.0, total=60.0, attempts=1)
READY = [{"type": "Ready", "status": "True"}]


@dataclass
class SoundCluster:
    """What the API server has and answers.

    Attributes:
        objects: by plural.
        version: of the server.
        refused: plurals, and ``proxy`` and ``dryRun``, that the user may not use.
        ready: status and text of the service's ``/readyz``.
        admission: status and object for the pod that is tried; None for what the webhook makes.
        forbidden: verb and resource, with its subresource or all, that no account may use.
        absent: plurals that the server does not serve.
    """

    objects: dict[str, list[Object]] = field(default_factory=dict)
    version: str = "v1.33.1"
    refused: set[str] = field(default_factory=set)
    ready: tuple[int, object] = (200, b"ok\n")
    admission: tuple[int, Object] | None = None
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)

    def find(self, plural: str, name: str = NAME) -> Object:
        return next(each for each in self.objects[plural] if each["metadata"]["name"] == name)

    def add(self, thing: Object) -> Object:
        plural = f"{thing['kind'].lower()}s".replace("policys", "policies")
        self.objects.setdefault(plural, []).append(thing)
        return thing

    def findings(self) -> list[CheckResult]:
        async def main() -> list[CheckResult]:
            async with serving(self._answer) as server, client(server, PATIENT) as api:
                return examine(await observe(api))

        return asyncio.run(main())

    def problems(self) -> list[CheckResult]:
        return [each for each in self.findings() if each.level is not FindingLevel.OK]

    async def _answer(self, request: Request, reply: Reply) -> None:
        status, body = self._answered(request)
        await reply.answer(status, body)

    def _answered(self, request: Request) -> tuple[int, object]:
        steps = request.path.strip("/").split("/")
        if request.path == "/version":
            return 200, {"gitVersion": self.version}
        if "proxy" in steps:
            return self._unless("proxy") or self.ready
        if steps[-1] == "subjectaccessreviews":
            return self._unless(steps[-1]) or self._review(request.json())
        if request.method == "POST":
            if request.query.get("dryRun") != "All":
                self.writes.append(request.path)
            return self._unless("dryRun") or self.admission or (201, _voided(request.json()))
        namespace = ""
        if "namespaces" in steps[:-1]:
            at = steps.index("namespaces")
            namespace, steps = steps[at + 1], steps[at + 2 :]
        else:
            steps = steps[2:] if steps[0] == "api" else steps[3:]
        return self._unless(steps[0]) or self._read(steps, namespace)

    def _unless(self, what: str) -> tuple[int, object] | None:
        if what not in self.refused:
            return None
        return 403, {"kind": "Status", "reason": "Forbidden", "message": f"{what}: forbidden"}

    def _read(self, steps: list[str], namespace: str) -> tuple[int, object]:
        found = self.objects.get(steps[0], [])
        if len(steps) == 1 and steps[0] not in self.absent:
            return 200, {"metadata": {}, "items": found}
        for each in found:
            meta = each["metadata"]
            if (meta["name"], meta.get("namespace", "")) == (steps[1], namespace):
                return 200, each
        return 404, {"kind": "Status", "reason": "NotFound", "message": "not found"}

    def _review(self, body: Any) -> tuple[int, object]:
        asked = body["spec"]["resourceAttributes"]
        part = f"{asked['resource']}/{asked['subresource']}"
        keys = {(asked["verb"], asked["resource"]), (asked["verb"], part)}
        return 201, {"status": {"allowed": not keys & self.forbidden}}


@cache
def _installed() -> list[Object]:
    texts = (RENDERED.read_text(), DEFINITION.read_text())
    return [thing for text in texts for thing in yaml.safe_load_all(text) if thing]


@cache
def _configured(scheduler: Scheduler, options: ConfigureOptions) -> str:
    return configure(scheduler, default(scheduler), options).after


def a_sound_cluster() -> SoundCluster:
    cluster = SoundCluster()
    for thing in deepcopy(_installed()):
        cluster.add(thing)
    cluster.find("deployments")["status"] = {"readyReplicas": 2}
    agents = cluster.find("daemonsets", f"{NAME}-node")
    agents["status"] = {"desiredNumberScheduled": 1, "numberReady": 1}
    cluster.find("customresourcedefinitions", "nodeledgers.dragoman.dev")["status"] = {
        "conditions": [{"type": "Established", "status": "True"}]
    }
    cluster.find("services")["spec"]["clusterIP"] = "10.96.7.7"
    for name in (NAMESPACE, "default", "kube-system"):
        labels = {"kubernetes.io/metadata.name": name}
        cluster.add({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    cluster.add(a_node())
    cluster.add(a_pod(f"{NAME}-node-abc", NAMESPACE, nodeName="n1"))
    cluster.add({"kind": "NodeLedger", "metadata": {"name": "n1"}, "spec": {}, "status": {}})
    set_certificate(cluster)
    add_scheduler(cluster, Scheduler.KOORD)
    add_scheduler(cluster, Scheduler.VOLCANO)
    return cluster


def a_node(name: str = "n1", runtime: str = "containerd://2.1.4") -> Object:
    status = {
        "allocatable": {"volcano.sh/vgpu-number": "10", "cpu": "4"},
        "nodeInfo": {"containerRuntimeVersion": runtime},
    }
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


def a_pod(name: str, namespace: str, *containers: Object, **spec: object) -> Object:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": list(containers), **spec},
        "status": {"phase": "Running", "conditions": READY},
    }


def add_scheduler(
    cluster: SoundCluster,
    scheduler: Scheduler,
    options: ConfigureOptions | None = None,
    text: str | None = None,
    **spec: object,
) -> Object:
    """A scheduler with its configuration in a ConfigMap."""
    program, namespace = scheduler.value, "kube-system"
    if text is None:
        text = _configured(scheduler, options or ConfigureOptions())
    made = yaml.safe_load(text)
    data = made["data"] if made.get("kind") == "ConfigMap" else {"config.yaml": text}
    config = {"kind": "ConfigMap", "metadata": {"name": program, "namespace": namespace}}
    cluster.add({**config, "data": data})
    flag = "--scheduler-conf" if scheduler is Scheduler.VOLCANO else "--config"
    container = {
        "name": "scheduler",
        "image": f"example.org/{program}:v1",
        "args": [f"{flag}=/config/{next(iter(data))}"],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    volumes = [{"name": "config", "configMap": {"name": program}}]
    return cluster.add(a_pod(program, namespace, container, volumes=volumes, **spec))


def set_certificate(cluster: SoundCluster, life: int = 90 * DAY, host: str = HOST) -> KeyPair:
    """A new certificate of the service, and its authority in the webhooks."""
    now = int(time.time())
    authority = make_authority(now, 365 * DAY)
    leaf = sign(authority, [host], now, life)
    cluster.find("secrets", f"{NAME}-tls")["data"] = {
        "tls.crt": b64encode(leaf.certificate.encode()).decode()
    }
    for webhook in cluster.find("mutatingwebhookconfigurations")["webhooks"]:
        bundle = b64encode(authority.certificate.encode()).decode()
        webhook["clientConfig"]["caBundle"] = bundle
    return leaf


def _voided(pod: Any) -> Object:
    made: Object = json.loads(json.dumps(pod))
    for container in made["spec"]["containers"]:
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    return made
