"""Converts a pod that is about to be created: it names claims, which the leader creates.

Nothing is written here, so that a dry run and a pod that is denied later leave no claim.
"""

from hashlib import sha256
from typing import Any

from adapters.dialects.dialect import DialectError
from adapters.dialects.dra.claim_entries import BY_NAME, claims_in_use, containers, write_entries
from adapters.dialects.translation.conversion import (
    KEY,
    Conversion,
    Inexact,
    converted,
    is_converted,
    stated,
)
from adapters.service.decide.conversion_policy import ConversionPolicy
from adapters.service.decide.service import Service
from adapters.wire import admission
from adapters.wire.admission import AdmissionRequest, Patch
from adapters.wire.decode import body
from adapters.wire.decode.decoder import Decoder
from adapters.wire.dra_pod import ClaimingPod
from adapters.wire.kube import Pod

_LONGEST = 160
"""Characters of a pod's name in that of its claim, which has 253 at most."""

_ANY = Decoder(dict[str, Any])
_CLAIMING_POD = Decoder(ClaimingPod)


class PodConverter:
    """Converts the pods that a policy selects."""

    def __init__(self, service: Service, policy: ConversionPolicy) -> None:
        """Convert pods of a service."""
        self._service = service
        self._policy = policy

    def convert(self, pod: Pod, review: AdmissionRequest) -> Patch | Inexact | None:
        """The patch that converts a pod; None where the policy does not select it.

        Args:
            pod: of the review; its request is valid.
            review: whose uid makes the names of the claims unique.
        """
        if not self._policy.selects(pod):
            return None
        conversion = self._policy.convert(pod)
        return _patch(pod, review, conversion) if isinstance(conversion, Conversion) else conversion

    def forged(self, pod: Pod, review: AdmissionRequest) -> str | None:
        """Why a pod has a record that this service would not write; None where it would.

        The API server asks again after another webhook changed a pod. A record of the author's
        that passes gives the pod what it would have got by its words.
        """
        if not is_converted(pod):
            return None
        field = f"metadata.annotations[{KEY}]"
        if not self._policy.selects(pod):
            return f"{field}: pods of this namespace or this scheduler are not converted; remove it"
        dialects = self._service.pod_requests.dialects
        try:
            claims = converted(pod, dialects)
        except DialectError as error:
            return f"{error}; remove it"
        if any(dialect.matches(pod) for dialect in dialects):
            return f"{field}: the pod has resources of a dialect, too; remove it"
        used = claims_in_use(body.read(admission.object_of(review), _CLAIMING_POD))
        if not used.issuperset((name, claim) for name, (claim, _) in claims.items()):
            return f"{field}: names claims that the containers do not use; remove it"
        return None


def _patch(pod: Pod, review: AdmissionRequest, conversion: Conversion) -> Patch:
    content = body.read(admission.object_of(review), _ANY)
    suffix = sha256(review.uid.encode()).hexdigest()[:10]
    metadata = content["metadata"]
    own = str(metadata.get("name") or metadata.get("generateName"))[:_LONGEST].rstrip("-.")
    claims = {name: f"{own}-{name}-{suffix}" for name in conversion.specs}
    record = stated(pod, conversion, claims)
    for container in containers(content):
        resources = container.get("resources") or {}
        for section in resources.keys() & {"limits", "requests"}:
            amounts = resources[section] or {}
            resources[section] = {
                name: amount for name, amount in amounts.items() if name not in conversion.resources
            }
    write_entries(content, claims, BY_NAME)
    patch = admission.add_entries("annotations", pod.metadata.annotations, {KEY: record})
    spec = content["spec"]
    patch.append({"op": "add", "path": "/spec/resourceClaims", "value": spec["resourceClaims"]})
    patch += [
        {"op": "replace", "path": f"/spec/{field}/{index}/resources", "value": entry["resources"]}
        for field in ("initContainers", "containers")
        for index, entry in enumerate(spec.get(field) or ())
        if entry["name"] in claims
    ]
    return patch
