"""Bodies that no scheduler and no API server sends, and names that no two of them share."""

from collections.abc import Callable
from random import Random
from typing import Any

import orjson

MIB = 1 << 20

NEVER = 1_000_000
"""MiB of memory that no card has: pods of hostile clients allocate nothing."""

BUNDLE = "\n\r\u2028\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
"""Line breaks, escape sequences of terminals, and text that runs backwards."""

Pod = dict[str, Any]


def a_name(random: Random) -> str:
    """A name that is used once; now and then a long one, or none that Kubernetes has."""
    name = f"{random.getrandbits(64):x}"
    match random.randrange(8):
        case 0:
            return name + BUNDLE
        case 1:
            return name * (1 << random.randrange(14))
        case _:
            return name


def a_pod(random: Random, padding: int = 0, *, memory: int = NEVER) -> Pod:
    """A pod with a share, with a name, a namespace and a uid of its own.

    Args:
        random: chooses.
        padding: bytes of an annotation.
        memory: MiB.
    """
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory}
    return {
        "metadata": {
            "name": a_name(random),
            "namespace": a_name(random),
            "uid": a_name(random),
            "labels": {a_name(random): a_name(random)},
            "annotations": {"a": "x" * padding},
        },
        "spec": {
            "containers": [{"name": a_name(random), "resources": {"limits": limits}}],
            "priority": random.randrange(1000),
        },
    }


def _names(pod: Pod, random: Random) -> Any:
    return {"Pod": pod, "NodeNames": [a_name(random), "nvidia-1", "metax-1"]}


def _nodes(pod: Pod, random: Random) -> Any:
    nodes = [{"metadata": {"name": a_name(random)}} for _ in range(3)]
    return {"Pod": pod, "Nodes": {"items": nodes}}


def _victims(pod: Pod, random: Random) -> Any:
    of_node = {"Pods": [{"UID": a_name(random)}], "NumPDBViolations": 0}
    return {"Pod": pod, "NodeNameToMetaVictims": {"nvidia-1": of_node, a_name(random): of_node}}


def _bind(pod: Pod, random: Random) -> Any:
    about = pod["metadata"]
    return {
        "PodName": about["name"],
        "PodNamespace": about["namespace"],
        "PodUID": about["uid"],
        "Node": a_name(random),
    }


def _task(pod: Pod, random: Random, status: int = 2) -> Any:
    about = pod["metadata"]
    return {
        "UID": about["uid"],
        "Name": about["name"],
        "NodeName": a_name(random),
        "Status": status,
        "Pod": pod,
    }


def _predicate(pod: Pod, random: Random) -> Any:
    return {"task": _task(pod, random), "node": {"Name": a_name(random)}}


def _prioritize(pod: Pod, random: Random) -> Any:
    return {"task": _task(pod, random), "nodes": [{"Name": a_name(random)}]}


def _allocate(pod: Pod, random: Random) -> Any:
    return {"task": _task(pod, random, random.choice((2, 4, 32)))}


def _deallocate(pod: Pod, random: Random) -> Any:
    return {"task": _task(pod, random, random.choice((2, 64)))}


def _evict(pod: Pod, random: Random) -> Any:
    evictees = [_task(a_pod(random), random) for _ in range(3)]
    return {"evictor": _task(pod, random), "evictees": evictees}


def _review(thing: Any, sub: str, random: Random) -> Any:
    about = thing["metadata"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": a_name(random),
            "operation": "CREATE",
            "subResource": sub,
            "name": about["name"],
            "namespace": about["namespace"],
            "object": thing,
        },
    }


def _admitted(pod: Pod, random: Random) -> Any:
    return _review(pod, "", random)


def _binding(pod: Pod, random: Random) -> Any:
    target = {"kind": "Node", "name": a_name(random)}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": pod["metadata"], "target": target}
    return _review(binding, "binding", random)


BODIES: dict[str, Callable[[Pod, Random], Any]] = {
    "/extender/filter": _names,
    "/extender/prioritize": _nodes,
    "/extender/preempt": _victims,
    "/extender/bind": _bind,
    "/volcano/predicate": _predicate,
    "/volcano/prioritize": _prioritize,
    "/volcano/allocate": _allocate,
    "/volcano/deallocate": _deallocate,
    "/volcano/preemptable": _evict,
    "/volcano/reclaimable": _evict,
    "/admission/pods": _admitted,
    "/admission/bindings": _binding,
    "/api/explain": lambda pod, _: pod,
}
"""By route, a valid body about a pod."""

ROUTES = tuple(BODIES)


def about(path: str, pod: Pod, random: Random) -> bytes:
    """A valid body about a pod."""
    return orjson.dumps(BODIES[path](pod, random))


def malformed(random: Random) -> bytes:
    """A body that is short, and that no route can read."""
    return random.choice(
        (
            b"",
            b"[" * 100_000,
            b'{"Pod":' * 50_000,
            b'{"Pod":{"metadata":{"name":"\xff\xfe"}}}',
            b'{"Pod":{"metadata":{"name":"\\ud800"}},"NodeNames":["a"]}',
            b'{"Pod":{"metadata":{"name":"a"},"spec":{"priority":1e400}},"NodeNames":["a"]}',
            b'{"Pod":{"spec":{"priority":' + b"9" * 10_000 + b"}}}",
            b'{"request":' * 1100 + b"1" + b"}" * 1100,
            b"\x00" * 1000,
            b"null",
            b"\x1f\x8b\x08\x00" + bytes(100),
        )
    )


def dense(random: Random, size: int) -> bytes:
    """A long body of tiny values that each need far more memory than text.

    Args:
        random: chooses the place of the values.
        size: bytes, about.
    """
    head, item, end = random.choice(
        (
            (b'{"Pod":{"metadata":{"name":"a"},"spec":{"containers":[', b"{},", b"{}]}}}"),
            (b'{"Pod":{"metadata":{"name":"a"}},"NodeNames":[', b'"",', b'""]}'),
            (b'{"Pod":{"metadata":{"name":"a"}},"Nodes":{"items":[', b"{},", b"{}]}}"),
            (b'{"task":{"Pod":{"metadata":{"uid":"u"}}},"nodes":[', b"{},", b"{}]}"),
            (b'{"evictor":{"Pod":{"metadata":{"uid":"u"}}},"evictees":[', b"{},", b"{}]}"),
            (
                b'{"Pod":{"metadata":{"name":"a"}},"NodeNameToMetaVictims":{"n":{"Pods":[',
                b"{},",
                b"{}]}}}",
            ),
            (
                b'{"Pod":{"metadata":{"name":"a"}},"NodeNameToVictims":{"n":{"Pods":[',
                b"{},",
                b"{}]}}}",
            ),
        )
    )
    return head + item * (size // len(item)) + end
