"""The schedulers and the API server, as far as a demonstration needs them.

They send the same bodies over HTTP as the real ones.
"""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from typing import Any

import msgspec

from adapters.wire.kube import Pod, full_name

Json = Any


class RejectionError(RuntimeError):
    """The service rejects a call; the text has the reason."""


class SchedulerClient:
    """One connection to the service."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").rpartition(":")
        self._connection = HTTPConnection(host, int(port), timeout=10)

    def call(self, method: str, path: str, value: Json = None) -> Json:
        """Call the service and return its answer.

        Raises:
            RejectionError: the status of the answer is 400 or more.
        """
        body = None if value is None else json.dumps(value)
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        found = json.loads(content)
        if answer.status >= 400:
            raise RejectionError(found["error"])
        return found

    def review(self, path: str, thing: Json) -> Json:
        """Send an object through admission, as the API server does, and return the patched object.

        Raises:
            RejectionError: admission rejects it.
        """
        meta = thing["metadata"]
        question = {
            "uid": "review",
            "operation": "CREATE",
            "namespace": meta.get("namespace") or "default",
            "name": meta["name"],
            "object": thing,
            "subResource": "binding" if thing.get("kind") == "Binding" else "",
        }
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": question,
        }
        response = self.call("POST", path, review)["response"]
        if not response["allowed"]:
            raise RejectionError(response["status"]["message"])
        return patched(thing, response.get("patch"))

    def create(self, pod: Pod) -> Pod:
        """Create a pod, as ``kubectl apply`` would.

        Raises:
            RejectionError: admission rejects it.
        """
        made = self.review("/admission/pods", msgspec.to_builtins(pod))
        return msgspec.convert(self.call("POST", "/local/pods", made), Pod)

    def delete(self, name: str) -> Sequence[str]:
        """Delete a pod by ``namespace/name``; return the nodes on which it had cards."""
        freed: Sequence[str] = self.call("DELETE", f"/local/pods/{name}")["freed"]
        return freed


def kube_scheduler(client: SchedulerClient, pod: Pod, nodes: Sequence[str]) -> str:
    """Return the node of a pod by kube-scheduler's and koord-scheduler's calls, bind included.

    Raises:
        RejectionError: no node fits, or the service rejects the bind.
    """
    args = {"Pod": msgspec.to_builtins(pod), "Nodes": None, "NodeNames": list(nodes)}
    found = client.call("POST", "/extender/filter", args)
    if found["Error"]:
        raise RejectionError(found["Error"])
    fitting = found["NodeNames"]
    if not fitting:
        failed = {**(found["FailedNodes"] or {}), **(found["FailedAndUnresolvableNodes"] or {})}
        raise RejectionError("; ".join(f"{node}: {text}" for node, text in failed.items()))
    scores = client.call("POST", "/extender/prioritize", {**args, "NodeNames": fitting})
    best = _best({one["Host"]: one["Score"] for one in scores})
    meta = pod.metadata
    names = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid}
    binding = {**names, "Node": best}
    error = client.call("POST", "/extender/bind", binding)["Error"]
    if error:
        raise RejectionError(error)
    return best


def kube_preempt(
    client: SchedulerClient, pod: Pod, nodes: Sequence[str]
) -> tuple[str, Sequence[str]]:
    """Return the node of a preemption with the fewest victims, and their uids, as kube-scheduler.

    Raises:
        RejectionError: preemption helps on no node.
    """
    no_victims = {node: {"Pods": [], "NumPDBViolations": 0} for node in nodes}
    args = {
        "Pod": msgspec.to_builtins(pod),
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": no_victims,
    }
    found = client.call("POST", "/extender/preempt", args)["NodeNameToMetaVictims"]
    if not found:
        raise RejectionError("preemption helps on no node")
    node, victims = min(found.items(), key=lambda item: len(item[1]["Pods"]))
    return node, [one["UID"] for one in victims["Pods"]]


def vc_scheduler(client: SchedulerClient, pod: Pod, nodes: Sequence[str]) -> str:
    """Return the node of a pod by vc-scheduler's calls: predicate for each, prioritize, allocate.

    Then the API server sends the Binding to the webhook, and writes it.

    Raises:
        RejectionError: no node fits, or the webhook rejects the Binding.
    """
    meta = pod.metadata
    task = {
        "UID": meta.uid,
        "Name": meta.name,
        "Namespace": meta.namespace,
        "NodeName": "",
        "Status": 1,
        "Pod": msgspec.to_builtins(pod),
    }
    answers = {
        node: client.call("POST", "/volcano/predicate", {"task": task, "node": {"Name": node}})
        for node in nodes
    }
    fitting = [node for node, answer in answers.items() if not answer["status"]]
    if not fitting:
        reasons = (f"{node}: {answer['status']}" for node, answer in answers.items())
        raise RejectionError("; ".join(reasons))
    args = {"task": task, "nodes": [{"Name": node} for node in fitting]}
    best = _best(client.call("POST", "/volcano/prioritize", args)["nodeScore"])
    planned = {"task": {**task, "NodeName": best, "Status": 2}}
    error = client.call("POST", "/volcano/allocate", planned)["errorMessage"]
    if error:
        raise RejectionError(error)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "annotations": meta.annotations or {},
        },
        "target": {"kind": "Node", "name": best},
    }
    client.call("POST", "/local/bindings", client.review("/admission/bindings", binding))
    return best


def scheduler_of(pod: Pod) -> str:
    """Return the scheduler that a pod names."""
    return pod.spec.scheduler_name or "kube-scheduler"


def schedule(client: SchedulerClient, pod: Pod, nodes: Sequence[str]) -> str:
    """Schedule a pod by the scheduler that it names."""
    if scheduler_of(pod) == "volcano":
        return vc_scheduler(client, pod, nodes)
    return kube_scheduler(client, pod, nodes)


def patched(thing: Json, patch: str | None) -> Json:
    """Apply a JSON patch of additions and replacements, in base64."""
    if patch is None:
        return thing
    made = json.loads(json.dumps(thing))
    for operation in json.loads(b64decode(patch)):
        *path, last = [
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        ]
        place = made
        for step in path:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if isinstance(place, list):
            if last == "-":
                place.append(operation["value"])
            else:
                place[int(last)] = operation["value"]
        elif operation["op"] == "remove":
            place.pop(last, None)
        else:
            place[last] = operation["value"]
    return made


def name_of(pod: Pod) -> str:
    """Return a pod's name for display."""
    return full_name(pod).removeprefix("default/")


def _best(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda node: scores[node])
