"""Containers and resources are found by their shape, and what stays is named."""

import json
from typing import Any

import pytest
import yaml

from adapters.cli.translate.tests.builders import HAMI, SHARE, run, spec

WHOLE = {"koordinator.sh/gpu": 100}


def put(steps: str, found: Any, kind: str) -> dict[str, Any]:
    for step in reversed(steps.split(".")):
        found = {step.removesuffix("[]"): [found] if step.endswith("[]") else found}
    return {"kind": kind, "metadata": {"name": "n"}, **found}


def resources(limits: dict[str, Any]) -> dict[str, Any]:
    return {"cpu": 1, "resources": {"limits": {"cpu": "4", **limits}}}


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("InferenceService", "spec.predictor.model"),
        ("InferenceService", "spec.transformer"),
        ("Workflow", "spec.templates[].container"),
        ("SparkApplication", "spec.executor"),
        ("TrainJob", "spec.trainer"),
    ],
)
def test_the_resources_of_one_container_are_translated_wherever_they_are(
    kind: str, path: str
) -> None:
    text = yaml.safe_dump(put(path, resources(HAMI), kind))

    result = run("--to", "volcano", "--strict", text=text)

    assert result.exit_code == 0, result.stderr
    assert yaml.safe_load(result.stdout) == put(path, resources(SHARE), kind)
    assert "1 pod translated to volcano, 0 with a loss" in result.stderr


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("InferenceService", "spec.predictor"),
        ("Workflow", "spec.templates[].containerSet"),
        ("ServingRuntime", "spec"),
    ],
)
def test_containers_are_translated_wherever_they_are(kind: str, path: str) -> None:
    result = run("--to", "hami", "--strict", text=yaml.safe_dump(put(path, spec(SHARE), kind)))

    assert result.exit_code == 0, result.stderr
    assert yaml.safe_load(result.stdout) == put(path, spec(HAMI), kind)


@pytest.mark.parametrize("found", [resources(WHOLE), spec(WHOLE)])
def test_what_needs_an_annotation_of_unknown_pods_stays_and_is_named(found: dict[str, Any]) -> None:
    text = yaml.safe_dump(put("spec.predictor", found, "InferenceService"))

    result = run("--to", "volcano", text=text)
    strict = run("--to", "volcano", "--strict", text=text)

    assert (result.exit_code, result.stdout) == (0, text)
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert "warning: InferenceService/n spec.predictor" in strict.stderr
    assert "koordinator.sh/gpu is not translated: the annotations of its pods" in strict.stderr
    assert "need volcano.sh/vgpu-mode" in strict.stderr


@pytest.mark.parametrize(
    ("document", "place", "word"),
    [
        (put("spec.hard", {"requests.nvidia.com/gpumem": 9}, "ResourceQuota"), "spec.hard", None),
        (put("spec.limits[]", {"max": {"nvidia.com/gpumem": 9}}, "LimitRange"), None, None),
        (put("data", {"pod.yaml": "limits: {nvidia.com/gpumem: 9}"}, "ConfigMap"), None, None),
        (put("spec", {"args": ["--gpu=nvidia.com/gpucores:30"]}, "X"), None, "nvidia.com/gpucores"),
        (put("spec.overhead", {"nvidia.com/gpumem": 1}, "RuntimeClass"), "spec.overhead", None),
        (put("spec.resources.limits", {"nvidia.com/gpumem": "much"}, "X"), None, None),
    ],
)
def test_strict_names_every_word_that_stays(
    document: dict[str, Any], place: str | None, word: str | None
) -> None:
    text = yaml.safe_dump(document)

    result = run("--to", "volcano", "--strict", text=text)
    report = json.loads(run("--to", "volcano", "-o", "json", text=text).stdout)

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{document['kind']}/n" in result.stderr
    assert (word or "nvidia.com/gpumem") in result.stderr
    (left,) = report["left"]
    assert left["word"] == (word or "nvidia.com/gpumem")
    assert place is None or left["path"] == place
    assert report["text"] == text


def test_what_is_no_request_does_not_stay() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps(spec(HAMI))
            },
        },
        "spec": spec(HAMI),
        "status": {"containerStatuses": [{"allocatedResources": HAMI}]},
    }
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": HAMI}}
    plain = {"kind": "X", "spec": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}
    own = {"kind": "X", "spec": {"resources": {"limits": SHARE}}}

    for document in (pod, node, plain, own):
        result = run("--to", "volcano", "--strict", text=yaml.safe_dump(document))
        assert result.exit_code == 0, result.stderr
        assert "warning" not in result.stderr


@pytest.mark.parametrize("name", ["koordinator", "hami"])
@pytest.mark.parametrize("digits", [4301, 5000])
def test_a_number_of_thousands_of_digits_is_an_error(name: str, digits: int) -> None:
    for text in (json.dumps, yaml.safe_dump):
        document = text({"kind": "Pod", "spec": spec({**SHARE, "volcano.sh/vgpu-cores": "NUMBER"})})
        long = document.replace('"NUMBER"', "1" * digits).replace("NUMBER", "1" * digits)

        result = run("--to", name, text=long)

        assert result.exit_code == 2, result.exception
        assert "stdin:" in result.stderr
