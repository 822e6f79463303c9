"""The system under attack: a control plane, two replicas, and the users that act."""

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from e2e.adversary.cards import Place, claimed, mixed, shared
from e2e.adversary.stops import Stops, program
from e2e.adversary.witness import Witness
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.names import DEVICES, LEASES, LEDGERS, NAMESPACE, RELEASE
from e2e.harness.oracles.pod_changes import following
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import CLAIMS, RESOURCES

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
NODES = "/api/v1/nodes"
SLICES = f"{RESOURCES}/resourceslices"
DRA = {"claims": True, "arbiter": True}
KNOWN = 60
"""Seconds in which the service must know a change; a killed leader's Lease takes 15."""

CLOSING = {"uid": "deleted-ledger"}
"""What is in use in a record that is made again: every card."""

UNSENT = (OSError, http.client.HTTPException)
"""What a request to a replica that was killed ends with."""


@dataclass(slots=True)
class World:
    """What the histories act on.

    Attributes:
        replicas: two, which are killed and started again.
        author: may create, change and delete pods, as a user with the role ``edit``.
        scheduler: may bind pods, by the webhook.
        own: the service's own account, which binds past the webhook.
        stops: stops the replicas, and moves their clock.
        mirrors: the dialects in whose words pods of others say what they hold too.
        places: the nodes that are there, by name.
        number: of the latest name.
    """

    plane: ControlPlane
    replicas: tuple[Service, Service]
    author: Api
    scheduler: Api
    own: Api
    witness: Witness
    stops: Stops
    mirrors: Sequence[str] = ()
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    number: int = 0

    @property
    def api(self) -> Api:
        """The server, as a cluster administrator."""
        return self.plane.api

    def name(self, begin: str) -> str:
        """A name that nothing has had."""
        self.number += 1
        return f"{begin}{self.number}"

    def leader(self) -> int:
        """Wait until a replica reconciles; its number."""
        leading: list[int] = []

        def leads() -> bool:
            for number, replica in enumerate(self.replicas):
                with suppress(*UNSENT):
                    if "dragoman_reconciler_leader 1.0" in replica.metrics():
                        leading.append(number)
            return bool(leading)

        within(KNOWN, leads)
        return leading[0]

    def pods(self) -> list[Object]:
        """All pods, by name."""
        found: list[Object] = self.api.get(PODS)["items"]
        return found

    def pending(self) -> list[Object]:
        """The pods that wait for a node."""
        return [
            pod
            for pod in self.pods()
            if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        ]

    def one_of(self, dice: Random, pods: Sequence[Object]) -> Object | None:
        """One of some pods; None of none."""
        return dice.choice(pods) if pods else None

    def end(self, pod: Object) -> None:
        """The containers of a pod have ended, as its kubelet would report."""
        body = {"status": {"phase": "Succeeded"}}
        refused(lambda: self.api.merge(f"{PODS}/{pod['metadata']['name']}/status", body))

    def remove(self, pod: Object, grace: int = 0) -> str:
        """The author deletes a pod."""
        path = f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds={grace}"
        refused(lambda: self.author.delete(path))
        return f"{pod['metadata']['name']} deleted"

    def ask(self, replica: int, path: str, question: Object, *, secure: bool = False) -> str:
        """What a replica answers; empty where it does not.

        Args:
            replica: its number.
            path: of the question.
            question: sent as JSON.
            secure: as every client may ask, on the port for the API server.
        """
        service = self.replicas[replica]
        with suppress(*UNSENT):
            port = http.client.HTTPConnection("127.0.0.1", service.clear, timeout=15)
            if secure:
                port = http.client.HTTPSConnection(
                    self.plane.address, service.secure, context=self.api.context, timeout=15
                )
            with closing(port):
                port.request("POST", path, json.dumps(question))
                return port.getresponse().read().decode()
        return ""

    def add(self, place: Place) -> None:
        """A node appears, and its ledger."""
        described = place.described()
        self.witness.place(place)
        self.places[place.name] = place
        self.api.create(NODES, described.node)
        if described.device is not None:
            self.api.create(DEVICES, described.device)
        if (published := place.published()) is not None:
            self.api.create(SLICES, published)
        within(KNOWN, lambda: self.ledger(place.name) is not None)

    def remove_node(self, name: str) -> None:
        """A node and its Device are gone."""
        place = self.places.pop(name)
        self.api.delete(f"{NODES}/{name}")
        if place.described().device is not None:
            self.api.delete(f"{DEVICES}/{name}")
        if (published := place.published()) is not None:
            self.api.delete(f"{SLICES}/{published['metadata']['name']}")

    def describe(self, place: Place) -> None:
        """A node has other cards from now on; returns when its ledger has them."""
        described = place.described()
        wanted = {card.uuid for card in place.cards}

        def has_them() -> bool:
            rows = (self.ledger(place.name) or {}).get("cards", ())
            return wanted == {row["uuid"] for row in rows}

        texts = described.node["metadata"]["annotations"]
        self.api.merge(f"{NODES}/{place.name}", {"metadata": {"annotations": texts}})
        if described.device is not None:
            body = {"spec": described.device["spec"]}
            self.api.merge(f"{DEVICES}/{place.name}", body)
        within(KNOWN, has_them)
        self.caught_up()  # what was bound before had the cards of before
        self.witness.place(place)
        self.places[place.name] = place

    def ledger(self, node: str) -> Object | None:
        """The record of a node; None where there is none."""
        found = self.find(f"{LEDGERS}/{node}")
        return None if found is None else found.get("spec")

    def is_closed(self, node: str) -> bool:
        """Whether a node gets no pods because its record was deleted a short while ago."""
        rows = (self.ledger(node) or {"allocations": [CLOSING]}).get("allocations", ())
        return any(row["uid"] == CLOSING["uid"] for row in rows)

    def find(self, path: str) -> Object | None:
        """An object, or None."""
        try:
            return self.api.get(path)
        except ApiError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return None

    def caught_up(self) -> None:
        """Wait until the witness has seen all that has happened to pods and claims."""
        pods, claims = map(_newest, (self.pods(), self.api.get(CLAIMS)["items"]))
        within(20, lambda: self.witness.version >= pods)
        within(20, lambda: self.witness.claim_version >= claims)


def _newest(rows: Sequence[Object]) -> int:
    return max((int(row["metadata"]["resourceVersion"]) for row in rows), default=0)


def refused(act: Callable[[], object]) -> ApiError | None:
    """Why the API server refused something; None where it did not."""
    try:
        act()
    except ApiError as error:
        return error
    return None


@contextmanager
def world(
    plane: ControlPlane,
    rule: str = "",
    *,
    with_claims: bool = True,
    mirrors: Sequence[str] = (),
) -> Iterator[World]:
    """Two replicas, two nodes and one whose cards claims may have, for the length of a block.

    Args:
        plane: prepared; no replica runs.
        rule: of ``mutants``, which the replicas lack; empty for none.
        with_claims: whether the third node is there; without it histories are shorter.
        mirrors: the setting of the replicas.
    """
    stops = Stops(plane.run.folder)
    with ThreadPoolExecutor() as pool:
        start = partial(
            start_service,
            plane,
            program=program(rule),
            environment=stops.environment,
            dra=DRA,
            mirrors=[*mirrors],
        )
        one, two = pool.map(start, ("one", "two"))
    replicas = one, two
    witness = Witness()
    made = World(
        plane,
        replicas,
        plane.as_user("author"),
        plane.as_user("system:kube-scheduler"),
        connect(account(plane, NAMESPACE, RELEASE)),
        witness,
        stops,
        mirrors,
    )
    try:
        with (
            webhooks(replicas[0]),
            following(plane.api, PODS, witness.see),
            following(plane.api, CLAIMS, witness.see_claim),
        ):
            made.add(shared("n0", ["GPU-a", "GPU-b"]))
            made.add(mixed("n1", ["GPU-m", "GPU-c"]))
            if with_claims:
                made.add(claimed("n2", ["GPU-x", "GPU-y"]))
            yield made
    finally:
        _clear(made)


def _clear(made: World) -> None:
    """Leave a control plane as it was."""
    made.api.delete(f"{PODS}?gracePeriodSeconds=0")
    made.api.delete(CLAIMS)
    for name in [*made.places]:
        made.remove_node(name)
    for replica in made.replicas:
        replica.stop()
    # One that was killed did not give its Lease back: its successor believes that the nodes
    # without a ledger had one, and gives no pod their cards for two minutes.
    for path in (LEASES, LEDGERS):
        made.api.delete(path)


def allow_author(plane: ControlPlane) -> None:
    """Give the author the role that Kubernetes has for authors of pods."""
    group = "rbac.authorization.k8s.io"
    plane.api.create(
        BINDINGS,
        {
            "metadata": {"name": "author"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "author"}],
        },
    )
