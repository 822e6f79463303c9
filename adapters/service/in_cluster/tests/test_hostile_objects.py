"""Every foreign field of every object that the service watches, with hostile text.

The whole service runs against a server that sends the objects: its reflectors, handlers, caches,
ledgers and reconciler. No text ends a task, hides another object, or frees the cards of the object
that has it.
"""

import ast
import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect
from structlog.testing import LogCapture

from adapters.cluster.api.paths import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    DEVICES,
    KOORDINATOR_POD_GROUPS,
    NODE_LEDGERS,
    NODES,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    SHARE_QUOTAS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from adapters.cluster.tests.server import serving
from adapters.dialects import registry
from adapters.dialects.dra.tests.builders import NVIDIA, a_card_device
from adapters.dialects.gangs import GROUPS
from adapters.dialects.merge import read_node
from adapters.service.in_cluster.tasks import InCluster
from adapters.service.in_cluster.tests.raw_cluster import RawCluster
from adapters.service.in_cluster.tests.test_tasks import kubeconfig
from adapters.service.runtime import ServiceRuntime
from adapters.service.settings.sections import DraSettings
from adapters.service.settings.settings import Settings
from adapters.service.tests.builders import DIALECTS, a_metax_node, a_node, a_pod, body
from adapters.service.web.tests.calls import call
from adapters.tests.hostile_fields import FieldPath, fields, with_value
from adapters.tests.hostile_texts import TEXTS, VALUES
from adapters.wire.agent_report import LABELS, AgentPod
from adapters.wire.dra import (
    ClaimStatus,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, MarkedPod
from adapters.wire.kube_policy import PodGroupObject, ResourceQuotaObject
from adapters.wire.records import ledger
from adapters.wire.records.hardware import HardwareRecord
from adapters.wire.records.ledger import LedgerObject, LedgerRecord
from adapters.wire.records.quota import QuotaSpec, QuotaStatus, ShareQuotaObject
from core.ledger.node_ledger import NodeLedger

Object = dict[str, Any]
CARD = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 8192}
"""All of a card."""

REQUESTS: dict[str, Object] = {
    "volcano": CARD,
    "koordinator": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100},
    "metax": {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 60},
    "hami": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192},
    "nvidia": {"nvidia.com/gpu": 1},
}
assert REQUESTS.keys() == {*registry.names()}


def keys() -> list[str]:
    """Every text in the programs that can be the key of an annotation, a label or a resource."""
    root = Path(__file__).parents[3]
    form = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._-]{1,63}")
    files = [path for path in root.rglob("*.py") if not {"tests", "cli"} & {*path.parts}]
    texts = {
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return sorted({text for text in texts if form.fullmatch(text)} | registry.annotations())


# --- what holds a card of a node ------------------------------------------------------------------


def node(name: str, dialect: str = "volcano") -> Object:
    """A node with one card, which all dialects of its vendor describe."""
    found = (a_metax_node if dialect == "metax" else a_node)(name, cards=1)
    texts = dict(found.metadata.annotations or {})
    if dialect != "metax":
        texts["hami.io/node-nvidia-register"] = json.dumps([
            {"id": f"GPU-{name}-0", "count": 10, "devmem": 8192, "devcore": 100,
             "type": "NVIDIA-A10", "mode": "hami-core", "health": True}
        ])  # fmt: skip
    return {"metadata": {"name": name, "uid": f"u-{name}", "annotations": texts}}


def pod(name: str, on: str, dialect: str = "volcano") -> Object:
    """A pod that runs with a card which no record names."""
    made = a_pod(name, limits=REQUESTS[dialect])
    return {**made, "spec": {**made["spec"], "nodeName": on}, "status": {"phase": "Running"}}


def device(name: str) -> Object:
    info = {
        "type": "gpu", "id": f"GPU-{name}-0", "minor": 0, "health": True,
        "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "8Gi"},
        "topology": {"socketID": 0, "nodeID": 0, "pcieID": "0", "busID": "0000:00:00.0"},
    }  # fmt: skip
    return {"metadata": {"name": name}, "spec": {"devices": [info]}}


def node_ledger(name: str) -> Object:
    found, _ = read_node(a_node(name, cards=1), None, DIALECTS)
    return {"metadata": {"name": name}, "spec": json.loads(ledger.encode(NodeLedger.of(found)))}


def resource_slice(name: str) -> Object:
    spec = {
        "driver": NVIDIA, "nodeName": name, "pool": {"name": name, "generation": 1},
        "devices": [a_card_device("gpu-0", f"GPU-{name}-0", "8Gi")],
    }  # fmt: skip
    return {"metadata": {"name": name}, "spec": spec}


def claim(name: str) -> Object:
    selected = {"key": "metadata.name", "operator": "In", "values": [name]}
    result = {"request": "r", "driver": NVIDIA, "pool": name, "device": "gpu-0"}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [selected]}]},
    }
    reserved = [{"resource": "pods", "name": "x", "uid": "u-x"}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"u-c-{name}"},
        "status": {"allocation": allocation, "reservedFor": reserved},
    }


def share_quota(name: str) -> Object:
    limits = {"spec": {"limits": {"cards": "2"}}, "status": {}}
    return {"metadata": {"name": "quota", "namespace": name}, **limits}


def resource_quota(name: str) -> Object:
    hard = {f"limits.{each}": "1" for each in registry.resources()}
    return {"metadata": {"name": "q", "namespace": name}, "spec": {"hard": hard}}


def pod_group(name: str) -> Object:
    policy = {"gang": {"minCount": 3}}
    annotations = {GROUPS: f'["{name}/g", "{name}/h"]'}
    metadata = {"name": "g", "namespace": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {"minMember": 3, "schedulingPolicy": policy}}


def config_map(name: str) -> Object:
    return {"metadata": {"name": "unknown", "namespace": name}, "data": {}}


def device_class(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"selectors": []}}


def taint_rule(name: str) -> Object:
    taint = {"key": "k", "effect": "NoExecute"}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": {"pool": "x"}, "taint": taint}}


def agent_pod(name: str) -> Object:
    meta = {"name": f"agent-{name}", "namespace": "dragoman-system", "labels": LABELS}
    status = {"phase": "Running", "podIP": "10.0.0.1"}
    return {"metadata": meta, "spec": {"nodeName": name}, "status": status}


class Kind(NamedTuple):
    """An object that the service watches.

    Attributes:
        resource: in the API.
        form: the type that it is decoded to.
        make: a valid object of the kind, for a node or a namespace of this name.
        encoded: the types of fields that are decoded later, or by others.
        place: path of the field that says on which node its cards are; without it they may be on
            each one.
        free: paths of other fields by which the object says that it has no card.
    """

    resource: Resource
    form: type
    make: Callable[[str], Object]
    encoded: Mapping[str, type] = {}
    place: str = ""
    free: Sequence[str] = ()


KINDS = {
    **{
        f"Pod of {dialect}": Kind(
            PODS,
            MarkedPod,
            lambda name, dialect=dialect: pod(f"p-{name}", name, dialect),  # type: ignore[misc]
            place="spec.nodeName",
            free=("spec.containers", "spec.containers.0", "spec.containers.0.resources"),
        )
        for dialect in REQUESTS
    },
    "Node": Kind(NODES, KubeNode, node),
    "Device": Kind(DEVICES, DeviceObject, device),
    "NodeLedger": Kind(
        NODE_LEDGERS, LedgerObject, node_ledger, {"spec": LedgerRecord, "status": HardwareRecord}
    ),
    "ResourceSlice": Kind(RESOURCE_SLICES, ResourceSlice, resource_slice),
    "ResourceClaim": Kind(
        RESOURCE_CLAIMS,
        ResourceClaim,
        claim,
        {"status": ClaimStatus},
        "status.allocation.nodeSelector",
        (
            *("status.allocation.devices", "status.allocation.devices.results"),
            "status.allocation.devices.results.0.bindingConditions",
        ),
    ),
    "DeviceClass": Kind(DEVICE_CLASSES, DeviceClass, device_class),
    "DeviceTaintRule": Kind(DEVICE_TAINT_RULES, DeviceTaintRule, taint_rule),
    "ShareQuota": Kind(
        SHARE_QUOTAS, ShareQuotaObject, share_quota, {"spec": QuotaSpec, "status": QuotaStatus}
    ),
    "ResourceQuota": Kind(RESOURCE_QUOTAS, ResourceQuotaObject, resource_quota),
    **{
        f"Group of {resource.group}": Kind(resource, PodGroupObject, pod_group)
        for resource in (POD_GROUPS, KOORDINATOR_POD_GROUPS, PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS)
    },
    "ConfigMap": Kind(CONFIG_MAPS, ConfigMap, config_map),
    "agent's Pod": Kind(PODS, AgentPod, agent_pod),
}

CHECKED = {"metadata", *(f"metadata.{key}" for key in ("name", "namespace", "uid"))} | {
    "metadata.resourceVersion"
}
"""What the API server writes or checks, of whatever kind."""


class Target(NamedTuple):
    """One place for a hostile text.

    Attributes:
        kind: key of ``KINDS``.
        path: of the field.
        is_text: whether its value is text of any content; else any JSON.
    """

    kind: str
    path: FieldPath
    is_text: bool = False

    @property
    def is_place(self) -> bool:
        """Whether the field says on which node the object's cards are, or has one that does."""
        place, path = KINDS[self.kind].place, ".".join(map(str, self.path))
        return bool(place) and (f"{place}.".startswith(f"{path}.") or path.startswith(f"{place}."))

    @property
    def holds(self) -> bool:
        """Whether the object's node has no free card, whatever the field says."""
        kind, path = KINDS[self.kind], ".".join(map(str, self.path))
        is_amount = self.kind.startswith("Pod") and ("limits" in path or "requests" in path)
        return path not in kind.free and not path.endswith("adminAccess") and not is_amount


class Attempt(NamedTuple):
    """A target, and which of the hostile values it has first."""

    target: Target
    number: int


def by_field() -> Iterator[Target]:
    """Each field of each kind once."""
    for name, kind in KINDS.items():
        for path in dict.fromkeys(fields(inspect.type_info(kind.form), kind.encoded)):
            is_again = kind.form is MarkedPod and name != "Pod of volcano"
            if ".".join(map(str, path)) not in CHECKED and not is_again:
                yield Target(name, path)
    yield Target("ResourceQuota", ("spec", "hard"))


def by_key() -> Iterator[Target]:
    """Each key of an annotation, a label or a resource, of each kind."""
    found = keys()
    for name in KINDS:
        for key in found:
            yield Target(name, ("metadata", "annotations", key), is_text=True)
            yield Target(name, ("metadata", "labels", key), is_text=True)
    for key in found:
        for part in ("capacity", "allocatable"):
            yield Target("Node", ("status", part, key))
        yield Target("Device", ("spec", "devices", 0, "resources", key))
        yield Target("Pod of volcano", ("spec", "containers", 0, "resources", "limits", key))
        yield Target("ResourceQuota", ("spec", "hard", f"limits.{key}"))


FIELDS = tuple(each for each in by_field() if not each.is_place)
PLACES = tuple(each for each in by_field() if each.is_place)
KEYS = tuple(by_key())
FILES = tuple(
    Target("ConfigMap", ("data", f"{config}/{file}"), is_text=True)
    for config, file in sorted(registry.documents())
)


def hostile(target: Target, name: str, value: bytes, version: int) -> tuple[str, bytes]:
    """The path of an object with a hostile field, and its JSON."""
    kind = KINDS[target.kind]
    thing = json.loads(json.dumps(kind.make(name)))
    path = target.path
    if target.kind == "ConfigMap" and path[0] == "data" and "/" in str(path[-1]):
        thing["metadata"]["name"], _, file = str(path[-1]).partition("/")
        path = ("data", file)
    thing["metadata"]["resourceVersion"] = str(version)
    text = with_value(thing, path, value)
    meta = thing["metadata"]
    return kind.resource.path(meta["name"], meta.get("namespace", "default")), text


def value_of(target: Target, number: int) -> bytes:
    """One of the hostile values of a target."""
    if target.is_text:
        return json.dumps([*TEXTS.values()][number % len(TEXTS)]).encode()
    return [*VALUES.values()][number % len(VALUES)]


# --- the service ----------------------------------------------------------------------------------


class Watched:
    """A service with a server."""

    def __init__(self, folder: Path, server: str) -> None:
        """Start nothing yet."""
        self.log = LogCapture()
        warnings = structlog.make_filtering_bound_logger("warning")
        logger = structlog.wrap_logger(None, processors=[self.log], wrapper_class=warnings)
        dra = DraSettings(claims=True, arbiter=True, shadows=True)
        options = Settings(
            store="kubernetes",
            kubeconfig=kubeconfig(folder, server),
            dra=dra,
            agent_port=1,
            publish=("volcano",),
        )
        self._cluster = InCluster(options, logger)
        self._runtime = ServiceRuntime(
            options, {}, self._cluster.store, self._cluster.cluster(), logger
        )
        self._tasks: list[asyncio.Task[Any]] = []
        self.app = self._runtime.app()

    def start(self) -> None:
        work = (*self._cluster.tasks(self._runtime), self._runtime.follow(), self._runtime.tick())
        self._tasks = [asyncio.create_task(each) for each in work]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close()

    def check(self) -> None:
        """No task has failed, and no list or watch had to begin again."""
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                raise AssertionError("a task failed") from task.exception()
        assert [row for row in self.log.entries if row["event"] == "watch.failed"] == []

    async def free(self, names: Collection[str]) -> set[str]:
        """The nodes on which a pod can have a whole card."""
        self.check()
        if self._runtime.service.readiness.awaited:
            return {f"none: the service waits for {self._runtime.service.readiness.awaited}"}
        found: set[str] = set()
        for dialect in ("volcano", "metax"):
            asked = {"Pod": a_pod("new", limits=REQUESTS[dialect]), "NodeNames": [*names]}
            got = await call(self.app, "POST", "/extender/filter", body(asked))
            assert got is not None
            assert got.status == 200, got.content
            found |= {*got.json["NodeNames"]}
        return found

    async def settles(self, names: Collection[str], expected: set[str]) -> None:
        """Wait until of some nodes these have a free card, and no other."""
        found: set[str] = set()
        try:
            async with asyncio.timeout(30):
                while (found := await self.free(names)) != expected:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"free: {found}, expected: {expected}") from None

    async def bind(self) -> None:
        """A scheduler binds a pod to a node that no hostile object concerns."""
        asked = {"PodName": "new", "PodNamespace": "default", "PodUID": "uid-new", "Node": "good"}
        got = await call(self.app, "POST", "/extender/bind", body(asked))
        assert got is not None
        assert got.json == {"Error": ""}


def put(cluster: RawCluster, resource: Resource, thing: Object) -> None:
    meta = thing["metadata"]
    cluster.put(resource.path(meta["name"], meta.get("namespace", "default")), thing)


FREE = {"good", "good-metax"}
"""Nodes that no hostile object concerns, with a free card."""


async def attack(
    folder: Path, attempts: Sequence[Attempt], *, turns: int = 2, anywhere: bool = False
) -> None:
    """Let a service list hostile objects, and then watch them change to other hostile ones.

    Args:
        folder: for files.
        attempts: each has a node of its own.
        turns: how many texts each object has, one after the other.
        anywhere: whether the cards of the objects may be on each node.
    """
    cluster = RawCluster()
    put(cluster, NODES, node("good"))
    put(cluster, NODES, node("good-metax", "metax"))
    put(cluster, NODES, node("held"))
    names = {f"h{at}": attempt for at, attempt in enumerate(attempts)}
    for name, (target, _) in names.items():
        prepare(cluster, name, target)
    put(cluster, PODS, pod("zz-last", "held"))
    checked = {*FREE, "held", *(name for name, (target, _) in names.items() if target.holds)}
    async with serving(cluster) as server:
        watched = Watched(folder, server.server)
        try:
            for turn in range(turns):
                for name, (target, number) in names.items():
                    value = value_of(target, number + turn)
                    cluster.put_raw(*hostile(target, name, value, turn + 1))
                if turn == 0:
                    watched.start()
                await watched.settles(checked, set() if anywhere else FREE)
                await asyncio.sleep(0.02)
            kinds = {kind.resource.collection() for kind in KINDS.values()}
            own = "/namespaces/dragoman-system"
            assert {path.replace(own, "") for path in cluster.watched} == kinds
            for name, (target, _) in names.items() if anywhere else ():
                repair(cluster, name, target)
            await watched.settles(checked, FREE)
            cluster.put("/api/v1/namespaces/default/pods/new", a_pod("new", limits=CARD))
            await watched.bind()
        except AssertionError as error:
            error.add_note(f"attempts: {names}")
            raise
        finally:
            await watched.stop()


def prepare(cluster: RawCluster, name: str, target: Target) -> None:
    """Put the valid objects around a hostile one: a node with a card that something has."""
    dialect = target.kind.removeprefix("Pod of ")
    put(cluster, NODES, node(name, dialect))
    if dialect != "metax":
        put(cluster, DEVICES, device(name))
        put(cluster, RESOURCE_SLICES, resource_slice(name))
    if not target.kind.startswith("Pod") and target.kind != "ResourceClaim":
        put(cluster, PODS, pod(f"p-{name}", name))


def repair(cluster: RawCluster, name: str, target: Target) -> None:
    """Replace a hostile object by a valid one."""
    path, _ = hostile(target, name, b"null", 1)
    del cluster.raw[path]
    put(cluster, KINDS[target.kind].resource, KINDS[target.kind].make(name))


def some(targets: Sequence[Target], most: int) -> st.SearchStrategy[list[Attempt]]:
    attempt = st.tuples(st.sampled_from(targets), st.integers(0, len(VALUES) * len(TEXTS)))
    return st.lists(attempt.map(lambda pair: Attempt(*pair)), min_size=1, max_size=most)


MOST = settings().max_examples
"""Examples; few of them, but for ``make fuzz``: each is a start of the service."""


@settings(max_examples=MOST if MOST > 1000 else 3)
@given(some(KEYS, 150) | some((*FIELDS, *FILES), 150))
def test_no_text_ends_a_task_or_frees_a_card_or_hides_another_object(
    attempts: list[Attempt],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(attack(Path(folder), attempts))


@pytest.mark.parametrize("number", range(3))
def test_each_field_of_each_kind_is_fed(tmp_path: Path, number: int) -> None:
    attempts = [Attempt(target, at) for at, target in enumerate(FIELDS)]

    asyncio.run(attack(tmp_path, attempts[number::3]))


def test_no_settings_file_of_a_scheduler_ends_the_service(tmp_path: Path) -> None:
    attempts = [Attempt(target, at) for at, target in enumerate(FILES)]

    asyncio.run(attack(tmp_path, attempts, turns=len(TEXTS)))


@pytest.mark.parametrize("kind", sorted({each.kind for each in PLACES}))
def test_an_object_that_may_be_on_any_node_blocks_each_until_it_can_be_decoded(
    tmp_path: Path, kind: str
) -> None:
    (target,) = (each for each in PLACES if each.kind == kind and each.path in WHERE)

    asyncio.run(
        attack(tmp_path, [Attempt(target, [*VALUES].index("true"))], turns=1, anywhere=True)
    )


WHERE = {("spec",), ("status", "allocation")}
