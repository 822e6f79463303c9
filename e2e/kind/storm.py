"""Random pods of all dialects on the cluster's nodes, and what is wrong with what they got.

The checker is the adversary's (``e2e/adversary/witness.py``): it judges each state of the pods that
the API server sends. What containers find inside is compared with what it knows of their pods.
"""

import http.client
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from e2e.adversary.agreement import granted, shares
from e2e.adversary.cards import Card, Place
from e2e.adversary.environment import wrong
from e2e.adversary.witness import Witness
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.oracles.pod_changes import following
from e2e.harness.workloads.inventory import (
    SLOTS,
    Described,
    Gpu,
    described,
    gpus,
    hami,
    koordinator,
    metax,
    volcano,
)
from e2e.harness.workloads.storm import random_pod
from e2e.kind.node_image import WORKLOAD
from e2e.kind.pods import environment
from e2e.kind.shell import CommandError, get

PODS = "/api/v1/namespaces/default/pods"
CARDS = 4
DIALECTS = frozenset(("volcano", "koordinator", "metax", "hami"))
SCHEDULERS = {
    "volcano": "volcano",
    "koordinator": "koord-scheduler",
    "metax": "default-scheduler",
    "hami": "default-scheduler",
}
"""By dialect, the scheduler of its pods."""


def place(node: str) -> Place:
    """A node's cards, as the checker counts them."""
    rows = enumerate(gpus(node, CARDS))
    return Place(
        node,
        "shared",
        tuple(Card(gpu.uuid, gpu.memory, DIALECTS, slots=SLOTS, minor=at) for at, gpu in rows),
    )


def description(node: str) -> Described:
    """One set of cards, as the node components of all dialects describe it."""
    found: Sequence[Gpu] = gpus(node, CARDS)
    return described(
        node, volcano(found), koordinator(found, with_shared=True), metax(found), hami(found)
    )


def new_pod(random: Random, number: int) -> Object:
    """A pod of a random dialect, for its scheduler."""
    dialect = random.choice(sorted(DIALECTS))
    made = random_pod(random, dialect, f"{dialect}-{number}", SCHEDULERS[dialect])
    made["spec"]["terminationGracePeriodSeconds"] = 1
    (container,) = made["spec"]["containers"]
    container |= {"image": WORKLOAD, "command": ["sleep", "infinity"]}
    return made


@dataclass(slots=True)
class Storm:
    """The pods of a storm.

    Attributes:
        api: of the cluster.
        witness: who holds what.
        looked: uids of the pods whose containers were looked at.
    """

    api: Api
    witness: Witness
    looked: set[str] = field(default_factory=set[str])
    _problems: list[str] = field(default_factory=list[str])

    @classmethod
    @contextmanager
    def on(cls, api: Api, nodes: Sequence[str]) -> Iterator["Storm"]:
        """Judge all states of the pods on these nodes, for the length of a block."""
        witness = Witness()
        for node in nodes:
            witness.place(place(node))
        with following(api, PODS, witness.see):
            yield cls(api, witness)

    def pods(self) -> list[Object]:
        """The pods that exist and are not being deleted."""
        rows: list[Object] = self.api.get(PODS)["items"]
        return [row for row in rows if "deletionTimestamp" not in row["metadata"]]

    def is_created(self, row: Object) -> bool:
        """Create a pod, to be asked again while a webhook does not answer.

        Raises:
            ApiError: a webhook rejects it.
        """
        try:
            self.api.create(PODS, row)
        except ApiError as error:
            if error.status != http.client.INTERNAL_SERVER_ERROR:
                raise
            return False
        return True

    def delete(self, pods: Sequence[Object], random: Random) -> None:
        """Delete pods, some of them at once."""
        for row in pods:
            grace = random.choice((0, 1))
            self.api.delete(f"{PODS}/{row['metadata']['name']}?gracePeriodSeconds={grace}")

    def running(self) -> int:
        """How many pods are ready."""
        return sum(map(is_ready, self.pods()))

    def all_bound_run(self) -> bool:
        """Whether every pod that is bound is ready."""
        return all(map(is_ready, filter(is_bound, self.pods())))

    def look(self) -> None:
        """Compare the environment of each container that was not looked at."""
        for row in filter(is_ready, self.pods()):
            uid, name = row["metadata"]["uid"], row["metadata"]["name"]
            held = self.witness.holders(row["spec"]["nodeName"]).get(uid)
            if uid in self.looked or held is None:
                continue
            try:
                inside = environment(name)
            except CommandError:
                continue  # deleted meanwhile
            self.looked.add(uid)
            places = self.witness.places[row["spec"]["nodeName"]].cards
            self._problems += wrong(name, inside, held, places)

    def disagreements(self) -> list[str]:
        """Where a ledger does not have exactly what the pods of its node hold."""
        ledgers = {
            node: {row["uid"]: row for row in get(f"nodeledger {node}")["spec"]["allocations"]}
            for node in self.witness.places
        }
        return [
            f"{uid} on {node}: {held}, ledger {rows.get(uid)}"
            for node, rows in ledgers.items()
            for uid, held in self.witness.holders(node).items()
            if shares(held) != granted(rows.get(uid, {}))
        ]

    def problems(self) -> list[str]:
        """What was wrong so far, with records and inside of containers."""
        return self.witness.problems() + self._problems


def is_bound(row: Object) -> bool:
    """Whether a pod has a node."""
    return "nodeName" in row["spec"]


def is_ready(row: Object) -> bool:
    """Whether a pod's containers run."""
    conditions = row["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
