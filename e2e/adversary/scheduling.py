"""The ways in which schedulers, and other components, bind a pod; each returns what was said."""

import json

from e2e.adversary import claims
from e2e.adversary.cards import Card, Place
from e2e.adversary.emitted import given
from e2e.adversary.wanted import wanted
from e2e.adversary.witness import over
from e2e.adversary.world import KNOWN, World, refused
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.processes.waiting import within


def by_extender(world: World, pod: Object, replica: int, node: str) -> str:
    """Bind as kube-scheduler and koord-scheduler do."""
    metadata = pod["metadata"]
    args = {
        "PodName": metadata["name"],
        "PodNamespace": "default",
        "PodUID": metadata["uid"],
        "Node": node,
    }
    answer = world.ask(replica, "/extender/bind", args)
    return f"bind {metadata['name']} {node} by {replica}: {answer[:120]}"


def after_filter(world: World, pod: Object, replica: int) -> str:
    """Bind to the best node that the service finds."""
    fits = fitting(world, pod, replica)
    if not fits:
        return f"filter {pod['metadata']['name']}: none"
    args = {"Pod": pod, "NodeNames": fits}
    text = world.ask(replica, "/extender/prioritize", args)
    scores = json.loads(text) if text.startswith("[") else []
    best = max(scores, key=lambda row: row["Score"])["Host"] if scores else fits[0]
    return by_extender(world, pod, replica, best)


def fitting(world: World, pod: Object, replica: int) -> list[str]:
    """The nodes that a replica finds for a pod."""
    args = {"Pod": pod, "NodeNames": [*world.places]}
    text = world.ask(replica, "/extender/filter", args)
    found = json.loads(text).get("NodeNames") if text.startswith("{") else None
    return list(found or ())


def by_volcano(world: World, pod: Object, replica: int, node: str) -> str:
    """Bind as vc-scheduler does: a plan with one replica, and a Binding."""
    question = {"task": task(pod, node), "node": {"Name": node}}
    verdict = world.ask(replica, "/volcano/predicate", question)
    nodes = {"task": question["task"], "nodes": [question["node"]]}
    world.ask(replica, "/volcano/prioritize", nodes)
    plan(world, pod, replica, node)
    said = by_binding(world.scheduler, pod, node, {})
    return f"volcano {verdict[:60]}: {said}"


def plan(world: World, pod: Object, replica: int, node: str) -> None:
    """vc-scheduler plans a task onto a node."""
    world.ask(replica, "/volcano/allocate", {"task": task(pod, node)})


def task(pod: Object, node: str) -> Object:
    """A task of vc-scheduler that is allocated."""
    metadata = pod["metadata"]
    return {
        "UID": metadata["uid"],
        "Name": metadata["name"],
        "Namespace": "default",
        "NodeName": node,
        "Status": 2,
        "Pod": pod,
    }


def by_binding(user: Api, pod: Object, node: str, annotations: dict[str, str]) -> str:
    """A Binding of a user, with or without a choice of cards."""
    name = pod["metadata"]["name"]
    metadata = {"name": name, "uid": pod["metadata"]["uid"], "annotations": annotations}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    why = refused(lambda: user.create(f"{PODS}/{name}/binding", body))
    return f"Binding {name} {node} {annotations}: {str(why)[:120] if why else 'bound'}"


def past_the_service(world: World, pod: Object, node: str, annotations: dict[str, str]) -> str:
    """Bind as an account that the webhook does not see, and wait until a ledger knows the pod."""
    said = by_binding(world.own, pod, node, annotations)
    uid = pod["metadata"]["uid"]

    def known() -> bool:
        rows = (world.ledger(node) or {}).get("allocations", ())
        return any(row["uid"] == uid for row in rows)

    if said.endswith("bound"):
        within(KNOWN, known)
    return said


def room(world: World, pod: Object, place: Place) -> list[Card]:
    """Cards of a node for a pod, by what pods hold and the ledger has; empty for none."""
    asked = wanted(pod)
    rows = (world.ledger(place.name) or {}).get("allocations", ())
    holders = world.witness.holders(place.name)
    if asked is None or asked.mig or {row["uid"] for row in rows} != {*holders}:
        return []
    count = sum(part.count for part in asked.parts)
    able = [c for c in place.cards if asked.dialect in c.dialects and not c.mig][:count]
    if len(able) < count:
        return []
    texts = {**(pod["metadata"].get("annotations") or {}), **claims.exact(asked, able)}
    bound = {**pod, "metadata": {**pod["metadata"], "annotations": texts}}
    held, wrong = given(bound, place.cards)
    wrong += over(world.witness.known, [*holders.values(), held], {card.uuid for card in able})
    return [] if wrong else able
