"""Pods of all dialects become pods with claims of our driver, and back."""

import json
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
    report,
    run,
    template,
)
from adapters.cli.translate.translation import translate
from adapters.dialects.request_writer import CardFacts
from core.hardware.quantity import GIB

UUIDS = {"nvidia.com/use-gpuuuid": "GPU-0,GPU-1"}


def documents(text: str) -> list[Any]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


def to_claims(plain: object, *words: str) -> list[Any]:
    result = run("--to", "dra", *words, text=yaml.safe_dump(plain))
    assert result.exit_code == 0, result.stderr
    return documents(result.stdout)


def round_trip(text: str, target: str, cards: CardFacts = CardFacts()) -> str:  # noqa: B008
    there = translate(Source("p", text, named=True), "dra", cards)
    return translate(Source("p", there.text, named=True), target, cards).text


def test_a_pod_gets_a_template_of_its_claim_beside_it() -> None:
    made, claim = to_claims(pod(SHARE, namespace="team"))

    assert made["spec"] == {
        "containers": [{"name": "c", "resources": {"claims": [{"name": "c"}]}}],
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "p-c"}],
    }
    vendor = 'device.attributes["gpu.dragoman.dev"].vendor == "nvidia"'
    assert claim == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "p-c", "namespace": "team"},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "share",
                            "exactly": {
                                "deviceClassName": "share.dragoman.dev",
                                "selectors": [{"cel": {"expression": vendor}}],
                                "capacity": {"requests": {"memory": "1024Mi", "compute": "10"}},
                            },
                        }
                    ]
                }
            }
        },
    }


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((kind, "spec.template") for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job")),
        ("CronJob", "spec.jobTemplate.spec.template"),
        ("Job", "spec.tasks[].template"),
        ("RayCluster", "spec.workerGroupSpecs[].template"),
        ("PodTemplate", "template"),
        ("List", "items[]"),
    ],
)
@pytest.mark.parametrize(
    ("target", "limits"), [("volcano", SHARE), ("hami", HAMI), ("koordinator", KOORDINATOR)]
)
def test_a_template_is_the_same_after_a_round_trip(
    kind: str, path: str, target: str, limits: dict[str, Any]
) -> None:
    before = at(path, limits, kind)

    back = documents(round_trip(yaml.safe_dump(before), target))

    assert [_without_mode(each) for each in back] == [before]


def _without_mode(found: Any) -> Any:
    """Without the mode of cards, which a claim states and a pod usually does not."""
    if isinstance(found, dict):
        kept = {key: value for key, value in found.items() if "vgpu-mode" not in key}
        values = {key: _without_mode(value) for key, value in kept.items()}
        return {key: value for key, value in values.items() if value or key != "annotations"}
    return [_without_mode(each) for each in found] if isinstance(found, list) else found


def test_a_list_has_the_templates_among_its_items_and_loses_them_again() -> None:
    text = json.dumps({"kind": "List", "items": [pod(HAMI), {"kind": "Node"}]})

    there = translate(Source("p.json", text, named=True), "dra", CardFacts())
    back = translate(Source("p.json", there.text, named=True), "hami", CardFacts())

    kinds = [each["kind"] for each in json.loads(there.text)["items"]]
    assert kinds == ["Pod", "Node", "ResourceClaimTemplate"]
    assert _without_mode(json.loads(back.text)) == json.loads(text)


def test_equal_claims_share_a_template_and_others_have_their_own_name() -> None:
    larger = SHARE | {"volcano.sh/vgpu-memory": 2048}
    job = {
        "kind": "Job",
        "metadata": {"generateName": "train-"},
        "spec": {"tasks": [{"template": template(each)} for each in (SHARE, SHARE, larger)]},
    }

    made, *templates = to_claims(job)

    tasks = [each["template"]["spec"]["resourceClaims"][0] for each in made["spec"]["tasks"]]
    names = [each["resourceClaimTemplateName"] for each in tasks]
    assert names == ["train-c", "train-c", "train-c-2"]
    assert [each["metadata"]["name"] for each in templates] == ["train-c", "train-c-2"]


def test_claims_of_other_drivers_stay() -> None:
    before = pod(HAMI)
    nic = {"name": "c", "resourceClaimTemplateName": "nic"}
    before["spec"]["resourceClaims"] = [nic]
    before["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]

    made, claim = to_claims(before)
    back = documents(
        round_trip(yaml.safe_dump(before), "hami"),
    )

    entries = made["spec"]["resourceClaims"]
    assert entries == [nic, {"name": "c-share", "resourceClaimTemplateName": "p-c"}]
    assert claim["metadata"]["name"] == "p-c"
    assert [_without_mode(each) for each in back] == [before]


def test_several_cards_differ_and_a_part_in_percent_needs_the_memory_of_a_card() -> None:
    two = pod({"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-memory-ratio": 100})

    refused = run("--to", "dra", text=yaml.safe_dump(two))
    _, claim = to_claims(two, "--card-memory", "80Gi")

    assert (refused.exit_code, "--card-memory" in refused.stderr) == (2, True)
    devices = claim["spec"]["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["count"] == 2
    assert devices["requests"][0]["exactly"]["capacity"]["requests"]["memory"] == "40960Mi"
    assert devices["constraints"] == [
        {"requests": ["share"], "distinctAttribute": "gpu.dragoman.dev/uuid"}
    ]


@pytest.mark.parametrize(
    ("limits", "metadata", "lost"),
    [
        (SHARE | {"volcano.sh/vgpu-cores": 100}, {}, []),
        (
            HAMI,
            {"annotations": UUIDS | {"hami.io/gpu-scheduler-policy": "spread"}},
            [
                {
                    "field": "annotation hami.io/gpu-scheduler-policy",
                    "before": "spread",
                    "after": "removed",
                }
            ],
        ),
        (HAMI, {"annotations": UUIDS | {"nvidia.com/nouse-gputype": "V100"}}, []),
    ],
)
def test_losses_are_named(
    limits: dict[str, Any], metadata: dict[str, Any], lost: list[dict[str, str]]
) -> None:
    assert report("--to", "dra", text=yaml.safe_dump(pod(limits, **metadata))) == lost


def test_init_containers_lose_the_peak() -> None:
    before = pod(SHARE)
    before["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": dict(SHARE)}}]

    assert report("--to", "dra", text=yaml.safe_dump(before)) == [
        {
            "field": "cards of init containers",
            "before": "of later containers too",
            "after": "in addition, for the pod's whole life",
        }
    ]


def a_share_claim(name: str = "share", kind: str = "ResourceClaim", **more: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": "share.dragoman.dev", **more}
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec if kind == "ResourceClaim" else {"spec": spec},
    }


def claiming(*containers: tuple[str, ...], key: str = "resourceClaimName") -> dict[str, Any]:
    entries = sorted({claim for each in containers for claim in each})
    return {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "resourceClaims": [{"name": each, key: each} for each in entries],
            "containers": [
                {"name": f"c{n}", "resources": {"claims": [{"name": each} for each in used]}}
                for n, used in enumerate(containers)
            ],
        },
    }


def test_a_claim_of_one_pod_becomes_its_request() -> None:
    text = yaml.safe_dump_all([a_share_claim(), claiming(("share",), ())])

    (made,) = documents(run("--to", "hami", "--card-vendor", "nvidia", text=text).stdout)

    assert "resourceClaims" not in made["spec"]
    whole = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 100, "nvidia.com/gpucores": 0}
    resources = [each["resources"] for each in made["spec"]["containers"]]
    assert resources == [{"limits": whole}, {"claims": []}]


def test_pods_with_claims_are_unchanged_where_claims_are_the_target() -> None:
    text = yaml.safe_dump_all([a_share_claim(), claiming(("share",)), claiming(("elsewhere",))])

    result = run("--to", "dra", text=text)

    assert (result.exit_code, result.stdout) == (0, text)


OTHER = a_share_claim() | {
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}
}
DEPLOYMENT = {"kind": "Deployment", "spec": {"template": {"spec": claiming(("share",))["spec"]}}}
MIXED = claiming(("share",))
MIXED["spec"]["containers"].append({"name": "d", "resources": {"limits": SHARE}})
MERGED = """\
base: &base {resourceClaims: [{name: share, resourceClaimName: share}]}
spec:
  <<: *base
  containers: [{name: c, resources: {claims: [{name: share}]}}]
kind: Pod
metadata: {name: p}
"""


def test_claims_of_other_classes_are_no_shares() -> None:
    text = yaml.safe_dump_all([OTHER, claiming(("share",))])

    result = run("--to", "hami", text=text)

    assert (result.exit_code, result.stdout) == (0, text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ([claiming(("share",))], "names the ResourceClaim share, which the input lacks"),
        ([a_share_claim(), claiming(("share",), ("share",))], "is of the containers c0 and c1"),
        ([a_share_claim(), a_share_claim("b"), claiming(("share", "b"))], "has several claims"),
        ([a_share_claim(), claiming(("share",)), claiming(("share",))], "is of several pods"),
        ([a_share_claim(), DEPLOYMENT], "is of several pods"),
        ([a_share_claim(), MIXED], "has claims and resources of volcano"),
        (
            [
                a_share_claim(),
                claiming(("share",)) | {"spec": {"containers": [], "resourceClaims": [1]}},
            ],
            "spec.resourceClaims",
        ),
        (
            [
                a_share_claim(),
                {
                    "kind": "Pod",
                    "spec": {
                        "resourceClaims": [],
                        "containers": [{"name": "c", "resources": {"claims": 1}}],
                    },
                },
            ],
            "claims",
        ),
        ([a_share_claim() | {"spec": {"devices": 1}}], "spec: "),
        (
            [
                a_share_claim(),
                claiming() | {"spec": claiming(("share",))["spec"] | {"containers": []}},
            ],
            "no container uses it",
        ),
        ([a_share_claim(count=0), claiming(("share",))], "count: 0: must be 1 or more"),
    ],
)
def test_claims_that_no_dialect_has_a_word_for_are_errors(
    text: list[dict[str, Any]], problem: str
) -> None:
    result = run("--to", "hami", text=yaml.safe_dump_all(text))

    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.replace("│", " ").split())


def test_merged_claims_are_an_error() -> None:
    result = run("--to", "hami", text=f"{MERGED}---\n{yaml.safe_dump(a_share_claim())}")

    assert result.exit_code == 2
    assert "spec.resourceClaims[share]: no container uses it" in result.stderr


amounts = st.fixed_dictionaries(
    {"nvidia.com/gpu": st.integers(1, 8), "nvidia.com/gpucores": st.integers(0, 99)},
    optional={"nvidia.com/gpumem": st.integers(1, 80 * 1024)},
)
texts = st.lists(st.sampled_from(["A100", "H100", 'a"b']), min_size=1, unique=True).map(",".join)
annotations = st.fixed_dictionaries(
    {"nvidia.com/vgpu-mode": st.just("hami-core")},
    optional={
        "nvidia.com/use-gpuuuid": texts,
        "nvidia.com/nouse-gpuuuid": texts,
        "nvidia.com/use-gputype": texts,
    },
)


@settings(max_examples=30, deadline=None)
@given(amounts, annotations, st.booleans())
def test_a_manifest_is_the_same_after_a_round_trip(
    limits: dict[str, Any], texts: dict[str, str], is_json: bool
) -> None:
    if "nvidia.com/gpumem" not in limits:
        limits = {
            "nvidia.com/gpu": limits["nvidia.com/gpu"],
            "nvidia.com/gpumem-percentage": 100,
        } | limits
    before = pod(
        limits, annotations={key: ",".join(sorted(each.split(","))) for key, each in texts.items()}
    )
    text = json.dumps(before) if is_json else yaml.safe_dump(before)
    cards = CardFacts(80 * GIB, "nvidia")

    there = translate(Source("p", text, named=True), "dra", cards)
    back = translate(Source("p", there.text, named=True), "hami", cards)

    assert there.exact
    assert back.exact
    assert documents(back.text) == [before]
