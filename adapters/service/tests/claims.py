"""ResourceClaims whose scheduler has allocated devices, and the reviews of their status."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.tests.builders import a_card_device, a_slice
from adapters.service.endpoints.claim_admission import ClaimAdmission
from adapters.service.tests.builders import Bench, body, run
from adapters.wire.dra import (
    CelSelector,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    ResourceClaim,
    ResourceSlice,
)
from adapters.wire.kube import Metadata
from core.ledger.node_ledger import NodeLedger
from core.requests.request import PodRef

CLASS = DeviceClass(
    Metadata(name="cards"),
    DeviceClassSpec((DeviceSelector(CelSelector("device.driver == 'gpu.nvidia.com'")),)),
)


def a_claim(*results: object, uid: str = "u1", nodes: Sequence[str] = ("n1",)) -> Any:
    """``team/c`` with these devices."""
    field = {"key": "metadata.name", "operator": "In", "values": list(nodes)}
    return {
        "metadata": {"name": "c", "namespace": "team", "uid": uid},
        "status": {
            "allocation": {
                "devices": {"results": list(results)},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }
        },
    }


def a_claim_of_one_card(*results: object, uid: str = "u1", **exactly: object) -> Any:
    """An allocated claim and its request: one device of the class."""
    return asking(a_claim(*results, uid=uid), **exactly)


def asking(claim: Any, **exactly: object) -> Any:
    """The claim with a request of one device of the class."""
    request = {"name": "r", "exactly": {"deviceClassName": "cards", **exactly}}
    return {**claim, "spec": {"devices": {"requests": [request]}}}


class LiveClaims:
    """An API server's claims.

    Attributes:
        failure: what every read raises; None where the server answers.
    """

    def __init__(self, *claims: Any) -> None:
        self.failure: OSError | None = None
        self._by_name: dict[str, ResourceClaim] = {}
        for each in claims:
            self.put(each)

    def put(self, claim: Any) -> None:
        found = msgspec.json.decode(body(claim), type=ResourceClaim)
        self._by_name[f"{found.metadata.namespace}/{found.metadata.name}"] = found

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        if self.failure is not None:
            raise self.failure
        return self._by_name.get(str(claim))


class AskedClaims(LiveClaims):
    """An API server that has every claim, without devices."""

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        metadata = Metadata(name=claim.name, namespace=claim.namespace, uid=claim.uid)
        return await super().get(claim) or ResourceClaim(metadata)


def bare(claim: Any) -> Any:
    """The claim without an allocation."""
    return {"metadata": claim["metadata"]}


def claim_review(claim: Any, old: Any = None, verb: str = "UPDATE", *, dry: bool = False) -> bytes:
    """The review of its status; before, it had no allocation."""
    request = {
        "uid": "r",
        "operation": verb,
        "subResource": "status",
        "dryRun": dry,
        "object": claim,
        "oldObject": bare(claim) if old is None else old,
    }
    return body(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


def slice_of(node: str, *devices: dict[str, object]) -> ResourceSlice:
    """A node's slice; without devices, that of two cards of 8 GiB, as ``a_node`` has them."""
    cards = (a_card_device(f"gpu-{i}", f"GPU-{node}-{i}", "8Gi") for i in range(2))
    made = a_slice(*(devices or cards))
    metadata = made.metadata.__replace__(name=node)
    return made.__replace__(metadata=metadata, spec=made.spec.__replace__(node_name=node))


class ClaimBench:
    """A service that is asked about claims of some slices, and an API server that has them.

    Attributes:
        live: what the API server has.
    """

    def __init__(
        self, bench: Bench, *slices: ResourceSlice, live: LiveClaims | None = None
    ) -> None:
        self.bench = bench
        self.live = live or AskedClaims()
        self.catalog = ClaimCache(lambda _: None)
        for each in slices:
            self.catalog.put_slice(each)
        self.catalog.put_class(CLASS)
        self.endpoint = ClaimAdmission(bench.service, self.catalog, self.live)

    def ask(self, claim: Any, old: Any = None, *, dry: bool = False, verb: str = "UPDATE") -> Any:
        """The answer, as the API server gets it."""
        review = claim_review(claim, old, verb, dry=dry)
        return json.loads(run(self.endpoint.statuses(review)))["response"]

    def ledger(self, node: str = "n1") -> NodeLedger:
        stored = run(self.bench.store.read(node))
        assert stored is not None
        return stored.ledger
