"""What happens to ResourceClaims, by honest and hostile users; each step returns what was done."""

import json
from collections.abc import Callable, Sequence
from random import Random
from uuid import UUID

from e2e.adversary import claims
from e2e.adversary.cards import Place
from e2e.adversary.pods import COMPUTES, SIZES
from e2e.adversary.wanted import wanted
from e2e.adversary.world import World, refused
from e2e.harness.cluster.api import Object
from e2e.harness.workloads.claims import CLAIMS, DRIVER, a_claim

WAITING = 6
"""Claims without devices at most."""

REVIEW = "admission.k8s.io/v1"


class ResourceClaims:
    """The claims of a history."""

    def __init__(self, world: World, dice: Random) -> None:
        """Prepare, and claim nothing yet."""
        self._world = world
        self._dice = dice

    def claim(self) -> str:
        """An author claims shares of cards."""
        if len(self._all(allocated=False)) >= WAITING:
            return "enough wait"
        name = self._world.name("c")
        made = a_claim(name, 0, self._dice.choice(COMPUTES))
        _requested(made)["memory"] = f"{self._dice.choice(SIZES)}Mi"
        return f"{name}: {refused(lambda: self._world.api.create(CLAIMS, made)) or 'created'}"

    def allocate(self) -> str:
        """A scheduler allocates one."""
        found = self.waiting(1)
        return self.allocating(found[0])() if found else "no claim"

    def waiting(self, most: int) -> Sequence[Object]:
        """Some claims without devices."""
        rows = self._all(allocated=False)
        return self._dice.sample(rows, min(len(rows), most))

    def allocating(self, claim: Object) -> Callable[[], str]:
        """A scheduler gives devices to a claim; chosen now and done later."""
        body = self._allocated(claim)
        name = claim["metadata"]["name"]

        def act() -> str:
            path = f"{CLAIMS}/{name}/status"
            why = refused(lambda: self._world.scheduler.replace(path, body))
            return f"claim {name} {_chosen(body)}: {str(why)[:160] if why else 'allocated'}"

        return act

    def end(self) -> str:
        """Claims are deallocated or deleted."""
        rows, api = self._all(allocated=True), self._world.api
        chosen = self._dice.sample(rows, min(len(rows), self._dice.choice((1, 2))))
        for claim in chosen:
            path = f"{CLAIMS}/{claim['metadata']['name']}"
            if self._dice.random() < 0.5:
                api.delete(path)
            else:
                api.merge(f"{path}/status", {"status": {"allocation": None}})
        return ", ".join(claim["metadata"]["name"] for claim in chosen)

    def forge(self) -> str:
        """A pod of the cluster sends a review that the API server did not send.

        Raises:
            AssertionError: it was allowed for what has devices already.
        """
        pods = self._world.pods()
        if pods and self._dice.random() < 0.5:
            return self._forge_binding(self._dice.choice(pods))
        allocated, others = self._all(allocated=True), self._all(allocated=False)
        rows = allocated if allocated and self._dice.random() < 0.8 else others
        return self._forge_status(self._dice.choice(rows)) if rows else "nothing to forge"

    def _forge_status(self, claim: Object) -> str:
        forged = self._allocated(claim)
        for result in forged["status"]["allocation"]["devices"]["results"]:
            if "consumedCapacity" in result and self._dice.random() < 0.5:
                result["consumedCapacity"]["memory"] = "1Mi"  # less than its request
        before = {**claim, "status": {}}
        request = {"subResource": "status", "object": forged, "oldObject": before}
        allowed = self._forged("/admission/claims", "UPDATE", claim, request)
        if allowed and "allocation" in claim.get("status", {}):
            raise AssertionError(f"{claim['metadata']['name']} would get other devices")
        return f"{claim['metadata']['name']} {_chosen(forged)}: {allowed}"

    def _forge_binding(self, pod: Object) -> str:
        node = self._dice.choice([*self._world.places])
        asked, cards = wanted(pod), self._world.places[node].cards
        hostile = claims.hostile(self._dice, asked, cards) if asked is not None else {}
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        binding = {
            "metadata": {**metadata, "annotations": hostile},
            "target": {"kind": "Node", "name": node},
        }
        request = {"subResource": "binding", "object": binding}
        allowed = self._forged("/admission/bindings", "CREATE", pod, request)
        if allowed and "nodeName" in pod["spec"]:
            raise AssertionError(f"{metadata['name']} would get other cards")
        return f"{metadata['name']} {node}: {allowed}"

    def _forged(self, path: str, operation: str, live: Object, request: Object) -> bool:
        """Whether a replica allows a review that this made up."""
        of = live["metadata"]
        named = {"name": of["name"], "namespace": of["namespace"], "operation": operation}
        review = {"uid": str(self._uuid()), **named, **request}
        body = {"apiVersion": REVIEW, "kind": "AdmissionReview", "request": review}
        text = self._world.ask(self._dice.randrange(2), path, body, secure=True)
        answer = json.loads(text) if text.startswith("{") else {}
        return bool(answer.get("response", {}).get("allowed"))

    def _all(self, *, allocated: bool) -> list[Object]:
        rows = self._world.api.get(CLAIMS)["items"]
        return [row for row in rows if ("allocation" in row.get("status", {})) == allocated]

    def _allocated(self, claim: Object) -> Object:
        """A claim with a device: as requested; at times whole, as of an old library, or unknown."""
        places = [place for place in self._world.places.values() if place.kind == "claimed"]
        place = self._dice.choice(places)
        device = place.device(self._dice.randrange(len(place.cards)))
        requested = _requested(claim)
        result = {"request": "share", "driver": DRIVER, "pool": place.name, "device": device}
        match self._dice.randrange(8):
            case 0:  # its library does not know shares
                pass
            case 1:
                result |= self._share(requested) | {"device": "gpu-unknown"}
            case _:
                result |= self._share(requested)
        status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": _only(place)}}
        return {**claim, "status": status}

    def _share(self, requested: Object) -> Object:
        consumed = {"cores": "100", **requested}
        return {"shareID": str(self._uuid()), "consumedCapacity": consumed}

    def _uuid(self) -> UUID:
        return UUID(int=self._dice.getrandbits(128), version=4)


def _requested(claim: Object) -> Object:
    found: Object = claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]
    return found


def _only(place: Place) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [place.name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _chosen(claim: Object) -> str:
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    share = "share" if "shareID" in result else "whole"
    return f"{result['pool']}/{result['device']} {share} {result.get('consumedCapacity', '')}"
