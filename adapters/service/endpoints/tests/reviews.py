"""Admission reviews, and what their answers change."""

import json
from base64 import b64decode

from adapters.cli.demo.schedulers import patched
from adapters.service.endpoints.admission import Admission
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_service,
    decoded,
    review,
)

METAX = {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 10, "metax-tech.com/vmemory": 4}


def response(answer: Json) -> Json:
    return answer["response"]


def patch_of(answer: Json) -> Json:
    text = response(answer).get("patch")
    return json.loads(b64decode(text)) if text else []


def bound(pod: Json, node: str, answer: Json, chosen: dict[str, str] | None = None) -> Json:
    return patched(a_binding(pod["metadata"]["name"], node, chosen), response(answer).get("patch"))


async def admit(pod: Json, operation: str = "CREATE") -> Json:
    bench = await a_service()
    return await decoded(Admission(bench.service).pods(review(pod, operation)))


async def bind(
    bench: Bench,
    name: str,
    node: str,
    annotations: dict[str, str] | None = None,
    *,
    dry: bool = False,
) -> Json:
    request = review(a_binding(name, node, annotations), sub="binding", dry=dry)
    return await decoded(Admission(bench.service).bindings(request))
