"""MovePlans as an API server has them, and a service without a cluster that reads them there."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from adapters.service.tests.builders import Json
from adapters.service.web.dashboard.tests.http_server import answering

PROGRAM = """
from functools import partial
import adapters.service.main as compose
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.objects.move_plans import MovePlanClient
client = KubeClient(KubeCredentials("http://127.0.0.1:{port}"))
compose.Cluster = partial(compose.Cluster, plans=MovePlanClient(client).list)
from adapters.cli.main import main
main()
"""
"""``dragoman serve``, with the client that it has in a cluster."""

MIB = 1 << 20


def place(node: str, card: str, mib: int = 4096) -> Json:
    """A part of one card."""
    grant = {"container": "main", "card": card, "memory": mib * MIB, "compute": 0}
    return {"node": node, "grants": [grant]}


def a_move(pod: str, before: Json, after: Json) -> Json:
    """A pod of the namespace ``web`` that moves; its uid is ``uid-POD``."""
    return {
        "namespace": "web",
        "pod": pod,
        "uid": f"uid-{pod}",
        "dialect": "volcano",
        "controller": {"kind": "ReplicaSet", "name": "rs", "uid": "rs"},
        "from": before,
        "to": after,
    }


def a_plan(
    name: str, moves: Sequence[Json], targets: Sequence[Json] = (), at: int = 0, **status: Json
) -> Json:
    """A plan that was created in a minute of an hour; its uid is ``uid-NAME``."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    return {
        "metadata": {**metadata, "creationTimestamp": f"2026-11-26T10:{at:02}:00Z"},
        "spec": {"moves": [*moves], "targets": [*targets]},
        "status": status,
    }


class ApiServer:
    """Answers every request with the plans.

    Attributes:
        program: runs a service that asks it.
        plans: what it has; None where it refuses.
        asked: requests so far.
    """

    def __init__(self, port: int) -> None:
        self.program = PROGRAM.format(port=port)
        self.plans: Sequence[Json] | None = ()
        self.asked = 0


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """An API server that has nothing but plans."""

    def answer(_: str) -> tuple[int, bytes]:
        found.asked += 1
        if found.plans is None:
            return 403, json.dumps({"message": "no"}).encode()
        return 200, json.dumps({"items": found.plans}).encode()

    with answering(answer) as port:
        found = ApiServer(port)
        yield found
