"""Nodes whose components a label each chooses: NVIDIA's plugin, the node agent, a driver of claims.

Kubernetes' example driver is real, under NVIDIA's name; on nodes that are ``played`` its slices are
written like those of a node where it ran. kwok's nodes have no kubelet: here one assigns devices of
the plugin, any that no other pod of the plugin has, writes what an agent would read of it, and the
last phase of a pod before it is gone.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from time import monotonic

import msgspec

from adapters.wire.records.hardware import DeviceHolding, NodeHardware, encode
from core.hardware.card import Card
from core.hardware.quantity import MIB
from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.bulk import at_once
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.names import DEVICES, LEDGERS
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.oracles.from_claims import Devices
from e2e.harness.oracles.idle_cards import NodeState
from e2e.harness.oracles.shared_cards import ASSIGNED, FINISHED
from e2e.harness.processes.process import Process
from e2e.harness.processes.repeating import repeating
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.native import known_to_peers
from e2e.harness.workloads.claims import RESOURCES
from e2e.harness.workloads.inventory import (
    DialectRecords,
    Gpu,
    described,
    hami,
    koordinator,
    volcano,
)
from e2e.testbed import cache

NODES = "/api/v1/nodes"
DRIVER, GPU = "gpu.nvidia.com", "nvidia.com/gpu"
SLICES = f"{RESOURCES}/resourceslices"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
AGENT = "gpu"
CLAIMS_DRIVER = "nvidia.com/dra-kubelet-plugin"
ON = {PLUGIN: "true", AGENT: "on", CLAIMS_DRIVER: "true"}
"""Labels, and the value with which the component runs on a node."""

CARDS = 2
MEMORY = 80 << 10
"""MiB of each card, as the example driver says."""

PAUSE = 0.2
START = 1
"""Seconds until an agent reports: its pod has to start, and Bindings on their way arrive."""

DESCRIBE: Mapping[str, Callable[[Sequence[Gpu]], DialectRecords]] = {
    "volcano": volcano,
    "koordinator": koordinator,
    "hami": hami,
}
"""What the component of each dialect says of cards."""

KUBELET = "test.dragoman.dev/kubelet"
"""Finalizer: kwok deletes a pod without a last phase."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the components read last.

    Attributes:
        settled: nodes that had the components of their labels.
        pods: all.
    """

    settled: frozenset[str]
    pods: Sequence[Object]


@dataclass(slots=True)
class ChangingNodes:
    """The nodes, and the component that each has now.

    Attributes:
        plane: the cluster.
        shared: nodes on which several claims can have one device.
        cards: uuids by node.
        assigned: the card of each pod of the plugin, by uid.
        errors: what the API server refused of the components.
        rejected: names of pods for which the plugin had no device, or had left.
        states: the components of nodes from each change on; none while a node is closed.
        dialects: in which agents advertise the cards.
        alone: there is no Dragoman; where an agent would be, Volcano's device plugin and koordlet
            are, which describe the same cards.
        peers: dialects whose components are where an agent would be, by node; there is no plugin
            of NVIDIA. They leave what they wrote, as the real ones do.
    """

    plane: ControlPlane
    shared: Collection[str]
    cards: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    assigned: dict[str, str] = field(default_factory=dict[str, str])
    errors: list[str] = field(default_factory=list[str])
    rejected: list[str] = field(default_factory=list[str])
    states: list[NodeState] = field(default_factory=list[NodeState])
    dialects: frozenset[str] = frozenset({"volcano"})
    alone: bool = False
    peers: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    _published: dict[bool, Object] = field(default_factory=dict[bool, Object])
    _played: set[str] = field(default_factory=set[str])
    _drivers: dict[str, Process | None] = field(default_factory=dict[str, Process | None])
    _begun: dict[str, float] = field(default_factory=dict[str, float])
    _stated: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _open: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _random: Random = field(default_factory=lambda: Random(46))  # noqa: S311
    _seen: Seen = Seen(frozenset(), ())

    def learn_cards(self, node: str) -> None:
        """Run the driver once: only it knows the uuids of its devices."""
        self.start_driver(node)
        spec = self.slice_of(node)["spec"]
        spec["devices"].sort(key=lambda each: each["name"])
        self.cards[node] = tuple(each["attributes"]["uuid"]["string"] for each in spec["devices"])
        self._published[node in self.shared] = spec
        self.stop_driver(node)

    def play(self, nodes: Sequence[str]) -> None:
        """Give nodes cards, and slices from now on, like those of nodes where the driver ran."""
        for node in nodes:
            self.cards[node] = tuple(f"GPU-{node}-{number}" for number in range(CARDS))
            self._played.add(node)

    def devices(self) -> Devices:
        """The cards of all claims."""
        return {
            (DRIVER, node, f"gpu-{number}"): Gpu(uuid, MEMORY)
            for node, uuids in self.cards.items()
            for number, uuid in enumerate(uuids)
        }

    def slice_of(self, node: str) -> Object:
        """What the driver publishes on a node; empty where it does not run."""
        rows = self.plane.api.get(self._slices(node))["items"]
        return rows[0] if rows else {}

    def start_driver(self, node: str) -> None:
        """Start the driver; its devices are there."""
        if node in self._played:
            self.plane.api.create(SLICES, self._played_slice(node))
            self._drivers[node] = None
            return
        folder = self.plane.run.folder / node
        words = {
            "node-name": node,
            "driver-name": DRIVER,
            "num-devices": str(CARDS),
            "gpu-allow-multiple-allocations": str(node in self.shared).lower(),
            "cdi-root": str(folder / "cdi"),
            "kubelet-registrar-directory-path": str(folder / "registry"),
            "kubelet-plugins-directory-path": str(folder / "plugins"),
            "kubeconfig": str(self.plane.kubeconfig("claims-driver", "system:masters")),
        }
        for each in ("cdi", "registry", "plugins"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        self._drivers[node] = self.plane.run.start(
            f"driver-{node}",
            [
                cache.binary("dra-example", "dra-example-kubeletplugin"),
                *(f"--{key}={text}" for key, text in words.items()),
            ],
            ready=lambda: bool(self.slice_of(node)),
        )

    def stop_driver(self, node: str) -> None:
        """Stop the driver; the kubelet deletes its slices then."""
        if (process := self._drivers.pop(node)) is not None:
            process.stop()
            self.plane.run.processes.remove(process)
        self.plane.api.delete(self._slices(node))

    def _slices(self, node: str) -> str:
        return f"{SLICES}?fieldSelector=spec.nodeName={node}"

    def _played_slice(self, node: str) -> Object:
        spec: Object = json.loads(json.dumps(self._published[node in self.shared]))
        spec |= {"nodeName": node, "pool": {**spec["pool"], "name": node}}
        for device, uuid in zip(spec["devices"], self.cards[node], strict=True):
            device["attributes"]["uuid"]["string"] = uuid
        return {"metadata": {"name": f"{node}-{DRIVER}"}, "spec": spec}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the components follow the labels, and the kubelet start pods, for a block."""

        def work() -> None:
            try:
                self._turn()
            except (ApiError, OSError) as error:
                self.errors.append(str(error))

        try:
            with repeating(work, PAUSE):
                yield
        finally:
            at_once(self.stop_driver, list(self._drivers))

    def settle(self, *nodes: str) -> None:
        """Wait until the components of nodes, which run, are those of their labels."""
        within(60, lambda: self._look().settled >= {*nodes})

    def pods_on(self, nodes: Collection[str]) -> list[Object]:
        """The pods of nodes whose components run."""
        return [pod for pod in self._look().pods if pod["spec"].get("nodeName") in nodes]

    def _look(self) -> Seen:
        """What the components see; they read it after this call began."""
        for _ in range(2):  # the first may have been read before
            before = self._seen
            within(60, lambda: self._seen is not before)  # noqa: B023
        return self._seen

    def _is_settled(self, row: Object) -> bool:
        node, wanted = row["metadata"]["name"], _components(row)
        stated = int(row["status"]["allocatable"].get(GPU, "0"))
        return (
            (node in self.peers or bool(stated) == (PLUGIN in wanted))
            and (node in self._drivers) == (CLAIMS_DRIVER in wanted)
            and (node in self._stated) == (AGENT in wanted)
        )

    def _turn(self) -> None:
        rows = [
            row
            for row in self.plane.api.get(NODES)["items"]
            if row["metadata"]["name"] in self.cards
        ]
        pods = self.plane.api.get(PODS)["items"]
        settled = (row["metadata"]["name"] for row in rows if self._is_settled(row))
        self._seen = Seen(frozenset(settled), pods)
        at_once(self._end, [pod for pod in pods if _is_ending(pod)])
        running: dict[str, list[Object]] = {}
        for pod in filter(_is_plain, pods):
            if not _is_ending(pod) and pod["status"].get("phase") not in FINISHED:
                running.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        at_once(
            lambda row: self._follow(row, running.get(row["metadata"]["name"], [])),
            rows,
        )

    def _follow(self, row: Object, pods: Sequence[Object]) -> None:
        """Let the components of a node follow its labels, and the kubelet start its plain pods."""
        node, has = row["metadata"]["name"], _components(row)
        if node not in self.peers:
            self._plug(row, runs=PLUGIN in has)
        self._admit(node, pods, runs=PLUGIN in has)
        has_peers = self.alone or node in self.peers
        (self._describe if has_peers else self._report)(node, pods, runs=AGENT in has)
        if CLAIMS_DRIVER in has and node not in self._drivers:
            self.start_driver(node)
        elif CLAIMS_DRIVER not in has and node in self._drivers:
            self.stop_driver(node)
        state = frozenset[str]() if row["spec"].get("unschedulable") else frozenset(has)
        if self._open.get(node) != state:
            self._open[node] = state
            self.states.append((monotonic(), node, state))

    def _end(self, pod: Object) -> None:
        """End the containers of a pod that was deleted, if it has any; the pod goes."""
        path = f"{PODS}/{pod['metadata']['name']}"
        if "nodeName" in pod["spec"]:
            self.plane.api.merge(f"{path}/status", {"status": {"phase": "Succeeded"}})
        self.plane.api.merge(path, {"metadata": {"finalizers": None}})

    def _plug(self, row: Object, *, runs: bool) -> None:
        stated = row["status"]["allocatable"].get(GPU)
        if stated != (wanted := str(CARDS) if runs else "0") and (runs or stated):
            status = {name: {GPU: wanted} for name in ("capacity", "allocatable")}
            self.plane.api.merge(f"{NODES}/{row['metadata']['name']}/status", {"status": status})

    def _admit(self, node: str, pods: Sequence[Object], *, runs: bool) -> None:
        """Assign any device that no pod of the plugin has; a pod without one cannot start."""
        for pod in pods:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if uid in self.assigned or shares_of_pod(pod, self.cards[node]):
                continue  # the agent injects the card of a record, whatever the plugin gave
            used = {self.assigned.get(each["metadata"]["uid"]) for each in pods}
            free = [card for card in self.cards[node] if card not in used]
            if runs and free:
                card = self._random.choice(free)
                about = {"uid": uid, "annotations": {ASSIGNED: card}}
                self.plane.api.merge(f"{PODS}/{name}", {"metadata": about})
                self.assigned[uid] = card
            else:
                self.rejected.append(name)
                with suppress(ApiError):
                    self.plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")

    def _report(self, node: str, pods: Sequence[Object], *, runs: bool) -> None:
        """Write the status of the ledger as the agent does, which finds the cards."""
        if not runs:
            self._stated.pop(node, None)
            self._begun.pop(node, None)
            return
        if monotonic() - self._begun.setdefault(node, monotonic()) < START:
            return
        cards = tuple(
            Card(
                uuid,
                node,
                index,
                "nvidia",
                "A100",
                MEMORY * MIB,
                10,
                dialects=self.dialects,
            )
            for index, uuid in enumerate(self.cards[node])
        )
        holdings = tuple(
            DeviceHolding(uid, "main", GPU, 1, (card,))
            for pod in pods
            for uid in (pod["metadata"]["uid"],)
            if (card := self.assigned.get(uid))
        )
        status = encode(NodeHardware(cards, "hami-core", holdings=holdings))
        if self._stated.get(node) == status:
            return
        api, about = self.plane.api, {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeLedger"}
        with suppress(ApiError):  # the service made it
            api.create(LEDGERS, about | {"metadata": {"name": node}, "spec": {"node": node}})
        api.merge(f"{LEDGERS}/{node}/status", {"status": msgspec.json.decode(status)})
        self._stated[node] = status

    def _describe(self, node: str, _: Sequence[Object], *, runs: bool) -> None:
        """Write what other device plugins and koordlet say of the cards."""
        if runs == (node in self._stated):
            return
        cards = [Gpu(uuid, MEMORY) for uuid in self.cards[node]]
        words = self.peers.get(node, ("volcano", "koordinator"))
        make = known_to_peers if "volcano" in words else described
        row = make(node, *(DESCRIBE[each](cards) for each in words))
        about, api, path = row.node["metadata"], self.plane.api, f"{NODES}/{node}"
        amounts = {key: text for key, text in row.node["status"]["capacity"].items() if "/" in key}
        texts: Object = {key: about[key] for key in ("annotations", "labels")}
        if runs:
            if row.device:
                api.create(DEVICES, row.device)
            api.merge(path, {"metadata": texts})
            self._stated[node] = b""
        else:
            amounts = dict.fromkeys(amounts, "0")
            del self._stated[node]
        if self.alone and not runs:
            gone = {key: None for key in about["annotations"] if key.startswith("volcano.sh/")}
            api.merge(path, {"metadata": {"annotations": gone}})
            api.delete(f"{DEVICES}/{node}")
        api.merge(f"{path}/status", {"status": {"capacity": amounts, "allocatable": amounts}})


def gpus_of(cards: dict[str, tuple[str, ...]]) -> list[Gpu]:
    """All cards."""
    return [Gpu(uuid, MEMORY) for uuids in cards.values() for uuid in uuids]


def _components(row: Object) -> set[str]:
    """Labels by which components run on a node."""
    return {key for key, value in ON.items() if row["metadata"]["labels"].get(key) == value}


def _is_ending(pod: Object) -> bool:
    """Whether a pod was deleted, and its kubelet has not ended it."""
    about = pod["metadata"]
    return "deletionTimestamp" in about and KUBELET in about.get("finalizers", ())


def _is_plain(pod: Object) -> bool:
    """Whether the kubelet asks the plugin for a device: no claim has been made of the request."""
    (container,) = pod["spec"]["containers"]
    return (
        GPU in (container["resources"].get("limits") or {})
        and "extendedResourceClaimStatus" not in pod["status"]
    )
