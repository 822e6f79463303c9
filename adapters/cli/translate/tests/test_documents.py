"""Pods and templates in documents of all kinds are translated; the rest stays."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.cli.input.source import Source
from adapters.cli.translate.tests.builders import (
    HAMI,
    KOORDINATOR,
    SHARE,
    at,
    pod,
    run,
    spec,
    template,
    translated,
)
from adapters.cli.translate.translation import translate
from adapters.dialects.request_writer import CardFacts


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((kind, "spec.template") for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job")),
        ("ReplicaSet", "spec.template"),
        ("CronJob", "spec.jobTemplate.spec.template"),
        ("Job", "spec.tasks[].template"),
        ("RayCluster", "spec.headGroupSpec.template"),
        ("RayCluster", "spec.workerGroupSpecs[].template"),
        ("PodTemplate", "template"),
        ("List", "items[]"),
    ],
)
def test_a_template_is_translated_wherever_it_is(kind: str, path: str) -> None:
    before = at(path, SHARE, kind)

    assert translated(before, "hami") == at(path, HAMI, kind)
    assert translated(before, "koordinator") == at(path, KOORDINATOR, kind)


def test_a_volcano_job_with_two_tasks_and_a_ray_cluster_are_translated_whole() -> None:
    job = {
        "kind": "Job",
        "spec": {"tasks": [{"template": template(SHARE)}, {"template": template(SHARE)}]},
    }

    assert translated(job) == {
        "kind": "Job",
        "spec": {"tasks": [{"template": template(HAMI)}, {"template": template(HAMI)}]},
    }


def test_init_containers_and_requests_are_translated() -> None:
    before = pod({"cpu": 1})
    before["spec"]["initContainers"] = [
        {"name": "i", "resources": {"limits": dict(SHARE), "requests": dict(SHARE)}}
    ]

    after = translated(before)

    assert after["spec"]["initContainers"][0]["resources"] == {"limits": HAMI, "requests": HAMI}
    assert after["spec"]["containers"] == before["spec"]["containers"]


def test_what_the_target_needs_is_put_where_there_was_none() -> None:
    before = {"kind": "Pod", "spec": spec(KOORDINATOR)}
    bare = {"kind": "Pod", "spec": spec(SHARE)}

    after = translated(before, "volcano")

    assert after["metadata"] == {"annotations": {"volcano.sh/vgpu-mode": "hami-core"}}
    assert "metadata" not in translated(bare)
    assert "metadata" not in json.loads(run("--to", "hami", text=json.dumps(bare)).stdout)


def test_amounts_of_nothing_leave_no_empty_section() -> None:
    before = pod(HAMI)
    before["spec"]["containers"].append(
        {"name": "d", "resources": {"limits": {"nvidia.com/gpu": 0}, "requests": {"cpu": 1}}}
    )

    after = translated(before, "volcano")

    assert after["spec"]["containers"][1]["resources"] == {"requests": {"cpu": 1}}


def test_pods_in_the_words_of_the_target_are_unchanged() -> None:
    text = yaml.safe_dump(pod(HAMI), indent=7)

    result = run("--to", "hami", text=text)

    assert (result.exit_code, result.stdout) == (0, text)


def test_everything_else_of_a_document_stays_byte_by_byte() -> None:
    text = """\
# before
kind: ConfigMap
data: {a:   b}
---
kind: Pod
metadata: {name: p, annotations: {volcano.sh/vgpu-mode: "hami-core", own: 'kept'}}
spec:
    containers:
        -   name: c   # main
            resources:
                limits:
                    volcano.sh/vgpu-number: 1  # one
                    cpu: "1"
                    # below
---

"""
    after = text.replace("volcano.sh/vgpu-mode", "nvidia.com/vgpu-mode")
    after = after.replace('"hami-core"', "hami-core").replace(
        "volcano.sh/vgpu-number: 1  # one",
        "nvidia.com/gpu: 1\n                    nvidia.com/gpumem-percentage: 100\n"
        "                    nvidia.com/gpucores: 0 # one",
    )

    found = run("--to", "hami", text=text).stdout

    assert [" ".join(line.split()) for line in found.splitlines()] == [
        " ".join(line.split()) for line in after.splitlines()
    ]
    assert found.split("---")[0] == text.split("---")[0]


def test_a_text_without_a_share_is_unchanged() -> None:
    text = "kind: Pod\nspec:   {containers: [{name: c}]}\n--- # next\n[nvidia.com/gpu: 1]\n"

    result = run("--to", "hami", text=text)

    assert (result.exit_code, result.stdout) == (0, text)
    assert result.stderr == "0 pods translated to hami, 0 with a loss\n"


def test_json_stays_json() -> None:
    text = "".join(json.dumps(each, indent=4) + "\n" for each in (pod(SHARE), {"kind": "Node"}))

    found = run("--to", "hami", text=text).stdout

    expected = (pod(HAMI), {"kind": "Node"})
    assert found == "".join(json.dumps(each, indent=4) + "\n" for each in expected)


def test_yaml_that_begins_like_json_is_yaml(tmp_path: Path) -> None:
    text = "{kind: Pod, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}"

    assert "vgpu-number: 1" in run("--to", "volcano", text=text).stdout
    (tmp_path / "a.json").write_text(text)
    result = run("--to", "volcano", "-f", tmp_path / "a.json")
    assert (result.exit_code, "is not JSON" in result.stderr) == (2, True)


def test_shared_anchors_are_translated_once() -> None:
    text = """\
kind: Job
spec:
  tasks:
  - template:
      spec:
        containers:
        - name: c
          resources: &gpu
            limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 1024}
  - template:
      spec:
        containers:
        - name: d
          resources: *gpu
"""
    result = run("--to", "hami", "--strict", text=text)

    assert result.exit_code == 0
    tasks = yaml.safe_load(result.stdout)["spec"]["tasks"]
    limits = [each["template"]["spec"]["containers"][0]["resources"]["limits"] for each in tasks]
    assert limits == [HAMI | {"nvidia.com/gpucores": 0}] * 2


amounts = st.fixed_dictionaries(
    {"volcano.sh/vgpu-number": st.integers(1, 8), "volcano.sh/vgpu-cores": st.integers(0, 100)},
    optional={"volcano.sh/vgpu-memory": st.integers(1, 81920)},
)


@settings(max_examples=30, deadline=None)
@given(amounts)
def test_a_manifest_is_the_same_after_a_round_trip(limits: dict[str, Any]) -> None:
    source = Source("p.json", json.dumps(pod(limits)), named=True)

    there = translate(source, "hami", CardFacts())
    back = translate(Source("p.json", there.text, named=True), "volcano", CardFacts())

    assert there.exact
    assert back.exact
    expected = dict(limits)
    if "volcano.sh/vgpu-memory" not in expected:
        expected["volcano.sh/vgpu-memory-percentage"] = 100
    assert json.loads(back.text) == pod(expected)
