"""What tests of the arbiter share: what it decided, claims of a stranger, and an end of rounds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile

from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import LEASES, RELEASE
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service
from e2e.harness.workloads.claims import (
    CARDS,
    CLAIMS,
    CLASS,
    GIB,
    NODE,
    RESOURCES,
    a_claim,
    a_pod,
    a_slice,
    claim_share,
)

LEASE = f"{LEASES}/dragoman-reconciler"
STRANGER = "accelerators.example.com"
"""A driver of which the arbiter is not asked."""


def wait_for_ledger(plane: ControlPlane) -> None:
    """Wait until the ledger of the node lists its cards."""
    within(60, lambda: len(ledger(plane, NODE).get("cards", ())) == len(CARDS))


def add(api: Api, name: str, scheduler: str, memory: int) -> None:
    """A claim for a share, and a pod that uses it."""
    api.create(CLAIMS, a_claim(name, memory))
    api.create(PODS, a_pod(name, scheduler, name))


def end_round(api: Api) -> None:
    """Delete all pods and claims."""
    clear(api)
    api.delete(CLAIMS)
    within(60, lambda: not api.get(CLAIMS)["items"])


def end(plane: ControlPlane) -> None:
    """Delete all pods and claims; the ledger is free."""
    end_round(plane.api)
    within(60, lambda: is_free(plane))


def is_asked(service: Service) -> bool:
    """Whether the API server asks the service about claims: it learns of webhooks late."""
    api, before = service.plane.api, newest(service)
    claim_share(api, "known", GIB, NODE)
    within(60, lambda: node_of(api, "known") == NODE)
    end_round(api)
    return bool(decisions(service, before))


def newest(service: Service) -> str:
    """The number of the newest decision; empty where there is none."""
    rows = service.get("/api/decisions")
    return str(rows[0]["decision"]) if rows else ""


def decisions(service: Service, after: str) -> list[Object]:
    """Decisions about claims after another decision, newest first."""
    rows = takewhile(lambda row: row["decision"] != after, service.get("/api/decisions"))
    return [row for row in rows if row["verb"] == "claim"]


def is_free(plane: ControlPlane) -> bool:
    """Whether nothing holds a card of the node."""
    return not held(plane, NODE)


def kill(service: Service) -> None:
    """Kill -9 the only replica; the next one need not wait for its Lease."""
    service.kill()
    service.plane.api.delete(LEASE)


@contextmanager
def unchecked_while_away(api: Api) -> Iterator[None]:
    """The API server admits claims as they are while the service is away, for a block."""
    _failure_policy(api, "Ignore")
    try:
        yield
    finally:
        _failure_policy(api, "Fail")


def _failure_policy(api: Api, policy: str) -> None:
    path = f"{CONFIGURATIONS}/{RELEASE}"
    found = api.get(path)
    (claims,) = (each for each in found["webhooks"] if each["name"] == "claims.dragoman.dev")
    claims["failurePolicy"] = policy
    api.replace(path, found)


@contextmanager
def strange_cards(
    plane: ControlPlane, *numbers: int, node: str = NODE, cards: Sequence[str] = CARDS
) -> Iterator[None]:
    """Another driver publishes cards of a node as devices of its own, none of them shared."""
    devices: list[Object] = [
        {"name": f"card-{number}", "attributes": {"uuid": {"string": cards[number]}}}
        for number in numbers
    ]
    slices = f"{RESOURCES}/resourceslices"
    made = plane.api.create(slices, a_slice(node, devices, STRANGER))
    try:
        yield
    finally:
        plane.api.delete(f"{slices}/{made['metadata']['name']}")


@contextmanager
def stranger_on(
    plane: ControlPlane, *numbers: int, node: str = NODE, cards: Sequence[str] = CARDS
) -> Iterator[None]:
    """A claim of another driver has cards: its devices are other ones for every scheduler."""
    api = plane.api
    with strange_cards(plane, *numbers, node=node, cards=cards):
        request = {"name": "card", "exactly": {"deviceClassName": CLASS, "count": len(numbers)}}
        spec = {"devices": {"requests": [request]}}
        claim = api.create(CLAIMS, {"metadata": {"name": "stranger"}, "spec": spec})
        results = [
            {"request": "card", "driver": STRANGER, "pool": node, "device": f"card-{number}"}
            for number in numbers
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
        api.replace(f"{CLAIMS}/stranger/status", {**claim, "status": status})
        within(60, lambda: "grants" in held(plane, node).get("stranger", {}))
        try:
            yield
        finally:
            with suppress(ApiError):  # the test may have deleted it
                api.delete(f"{CLAIMS}/stranger")
    within(60, lambda: "stranger" not in held(plane, node))
