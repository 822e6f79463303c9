"""Mutating admission webhooks that are answered by a recorder."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.target import Target
from e2e.harness.doubles.recorder import Call, Recorder

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@contextmanager
def webhook(
    plane: Target,
    recorder: Recorder,
    verb: str,
    resources: Sequence[str],
    label: str,
    *,
    group: str = "",
    operation: str = "CREATE",
) -> Iterator[None]:
    """Send what is created in labelled namespaces to the recorder, for the length of a block.

    The API server asks webhooks in the order of the names of their configurations.

    Args:
        plane: whose API server calls it.
        recorder: that answers, over TLS.
        verb: under which the recorder gets the reviews.
        resources: of the group, as in ``pods/binding``.
        label: that the namespaces have, with an empty value.
        group: of the API; the core group, if it is not stated.
        operation: on them, if they are not created.
    """
    name = f"{verb}.dragoman.dev"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
                "namespaceSelector": {"matchLabels": {label: ""}},
                "rules": [
                    {
                        "operations": [operation],
                        "apiGroups": [group],
                        "apiVersions": ["v1"],
                        "resources": list(resources),
                    }
                ],
                "clientConfig": {
                    "url": f"{recorder.url}/{verb}",
                    "caBundle": base64.b64encode(
                        plane.authority.pair.certificate.read_bytes()
                    ).decode(),
                },
            }
        ],
    }
    plane.api.create(CONFIGURATIONS, configuration)
    try:
        yield
    finally:
        plane.api.delete(f"{CONFIGURATIONS}/{name}")


def allow(call: Call, *patch: Object) -> Object:
    """Allow the request, changed by JSON patch operations if there are any."""
    if not patch:
        return _review(call, {"allowed": True})
    text = base64.b64encode(json.dumps(patch).encode()).decode()
    return _review(call, {"allowed": True, "patchType": "JSONPatch", "patch": text})


def refuse(call: Call, message: str, code: int = 409) -> Object:
    """Reject the request with a message and an HTTP status code."""
    return _review(call, {"allowed": False, "status": {"message": message, "code": code}})


def _review(call: Call, response: Object) -> Object:
    uid = call.json()["request"]["uid"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, **response},
    }
