"""The clients that must be answered all the while, and correctly."""

import http.client
import json
import urllib.request
from collections.abc import Callable
from random import Random
from typing import Any

import grpc

from adapters.service.grpc import dragoman_pb2 as pb
from e2e.hostile.calls import SERVICE
from e2e.hostile.target import Target

BOUND = 20.0
"""Seconds in which each request must be answered, on a machine that the attack keeps busy."""

FITTING = "nvidia-1"


class WrongError(AssertionError):
    """A request was answered wrongly, or not at all."""


def _pod(name: str, uid: str = "") -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1000}
    about = {"name": name, "namespace": "honest", "uid": uid or f"uid-{name}"}
    return {
        "metadata": about,
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def ask(target: Target, method: str, path: str, value: Any = None, *, tls: bool = False) -> Any:
    """A request and its answer, as JSON where it is JSON.

    Raises:
        WrongError: no good answer came in time.
    """
    port = target.tls_port if tls else target.port
    scheme = "https" if tls else "http"
    data = None if value is None else json.dumps(value).encode()
    url = f"{scheme}://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, data, method=method)  # noqa: S310 - our own
    context = target.context if tls else None
    try:
        with urllib.request.urlopen(request, timeout=BOUND, context=context) as answer:  # noqa: S310
            text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise WrongError(f"{method} {path}: {error!r}") from error
    return json.loads(text) if text.startswith((b"{", b"[")) else text.decode()


def check(holds: object, what: str, found: object) -> None:
    """Raise ``WrongError`` unless it holds."""
    if not holds:
        raise WrongError(f"{what}: {str(found)[:500]}")


def probes(target: Target, _: Random) -> None:
    """Kubelet."""
    for tls in (False, True):
        for path in ("/livez", "/readyz"):
            found = ask(target, "GET", path, tls=tls)
            check(found == "ok\n", path, found)


def schedule(target: Target, random: Random) -> None:
    """kube-scheduler: filter, prioritize, bind; and the pod is deleted."""
    name = f"honest-{random.getrandbits(64):x}"
    ask(target, "POST", "/local/pods", _pod(name))
    try:
        question = {"Pod": _pod(name), "NodeNames": [FITTING, "metax-1"]}
        fits = ask(target, "POST", "/extender/filter", question)
        check(fits.get("NodeNames") == [FITTING], "filter", fits)
        scores = ask(target, "POST", "/extender/prioritize", question)
        check([each["Host"] for each in scores] == question["NodeNames"], "prioritize", scores)
        binding = {"PodName": name, "PodNamespace": "honest", "PodUID": f"uid-{name}"}
        bound = ask(target, "POST", "/extender/bind", {**binding, "Node": FITTING})
        check(not bound.get("Error"), "bind", bound)
        shown = ask(target, "GET", f"/local/pods/honest/{name}")
        check(shown["spec"]["nodeName"] == FITTING, "pod", shown)
    finally:
        deleted = ask(target, "DELETE", f"/local/pods/honest/{name}")
    check(deleted["freed"] == [FITTING], "delete", deleted)


def review(target: Target, random: Random) -> None:
    """The API server."""
    uid = f"{random.getrandbits(64):x}"
    request = {"uid": uid, "operation": "CREATE", "object": _pod("reviewed"), "namespace": "honest"}
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    found = ask(target, "POST", "/admission/pods", whole, tls=True)["response"]
    check(found["uid"] == uid and found["allowed"], "review", found)


def people(target: Target, _: Random) -> None:
    """Prometheus, and a person."""
    found = ask(target, "GET", "/metrics")
    check("dragoman_build_info" in found, "metrics", found)
    nodes = ask(target, "GET", "/api/nodes")
    check({FITTING, "metax-1", "lab-1"} <= {each["name"] for each in nodes}, "nodes", nodes)
    page = ask(target, "GET", "/")
    check("</html>" in page, "page", page)


def program(target: Target, random: Random) -> None:
    """A program that uses gRPC."""
    name = f"program-{random.getrandbits(64):x}"
    options = (("grpc.use_local_subchannel_pool", 1),)
    ask(target, "POST", "/local/pods", _pod(name))
    try:
        with grpc.insecure_channel(target.grpc, options=options) as channel:
            wanted = pb.AllocateRequest(pod=pb.Pod(namespace="honest", name=name), nodes=[FITTING])
            held = pb.AllocateResponse.FromString(_called(channel, "Allocate", wanted))
            check(held.node == FITTING and held.grants, "Allocate", held)
            release = pb.ReleaseRequest(uid=f"uid-{name}", node=FITTING, attempt=held.attempt)
            released = pb.ReleaseResponse.FromString(_called(channel, "Release", release))
            check(released.released, "Release", released)
            listed = pb.ListCardsResponse.FromString(
                _called(channel, "ListCards", pb.ListCardsRequest(node=FITTING))
            )
            check(len(listed.cards) == 2, "ListCards", listed)
    except grpc.RpcError as error:
        raise WrongError(f"gRPC: {error}") from error
    finally:
        ask(target, "DELETE", f"/local/pods/honest/{name}")


def _called(channel: grpc.Channel, call: str, message: Any) -> bytes:
    answer: bytes = channel.unary_unary(SERVICE + call)(message.SerializeToString(), timeout=BOUND)
    return answer


REQUESTS: tuple[Callable[[Target, Random], None], ...] = (
    probes,
    schedule,
    review,
    people,
    program,
)
