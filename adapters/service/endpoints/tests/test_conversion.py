"""Admission of pods that are converted to claims."""

import json

import pytest

from adapters.cli.demo.schedulers import patched
from adapters.dialects.translation.conversion import KEY
from adapters.service.decide.conversion_policy import ConversionPolicy
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.conversion import PodConverter
from adapters.service.endpoints.tests.reviews import METAX, admit, patch_of, response
from adapters.service.tests.builders import Bench, Json, a_pod, a_service, decoded, review, run
from adapters.stores.quotas import MemoryQuotas
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota


async def asked(
    pod: Json,
    *,
    namespaces: tuple[str, ...] = ("*",),
    bench: Bench | None = None,
    dry: bool = False,
) -> Json:
    bench = bench or await a_service()
    policy = ConversionPolicy(bench.service, namespaces, ["default-scheduler"])
    admission = Admission(bench.service, converter=PodConverter(bench.service, policy))
    return await decoded(admission.pods(review(pod, dry=dry)))


def converted(pod: Json) -> Json:
    return patched(pod, response(run(asked(pod)))["patch"])


def a_training_pod() -> Json:
    pod = a_pod("train", cores=30)
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"]["cpu"] = "2"
    resources["requests"] = dict(resources["limits"])
    pod["spec"]["containers"].append({"name": "log", "resources": {"limits": {"cpu": "1"}}})
    return pod


def test_resources_become_a_claim_that_the_pod_names() -> None:
    made = converted(a_training_pod())

    (entry,) = made["spec"]["resourceClaims"]
    main, log = made["spec"]["containers"]
    assert entry["name"] == "main"
    assert entry["resourceClaimName"].startswith("train-main-")
    amounts = {"cpu": "2"}
    assert main["resources"] == {
        "limits": amounts,
        "requests": amounts,
        "claims": [{"name": "main"}],
    }
    assert "env" not in main
    assert log == {"name": "log", "resources": {"limits": {"cpu": "1"}}}
    record = json.loads(made["metadata"]["annotations"][KEY])
    stated = {
        "volcano.sh/vgpu-number": 1,
        "volcano.sh/vgpu-memory": 4000,
        "volcano.sh/vgpu-cores": 30,
    }
    claim = entry["resourceClaimName"]
    main_record = {"claim": claim, "limits": stated, "requests": stated}
    assert record == {"containers": {"main": main_record}}


def test_claims_of_the_author_stay_and_a_generated_name_is_the_claims() -> None:
    pod = a_training_pod()
    pod["metadata"] |= {"generateName": "web-", "name": ""}
    pod["spec"]["resourceClaims"] = [{"name": "main", "resourceClaimName": "net"}]
    pod["spec"]["containers"][1]["resources"]["claims"] = [{"name": "main"}]

    made = converted(pod)

    first, second = made["spec"]["resourceClaims"]
    assert first == {"name": "main", "resourceClaimName": "net"}
    assert second["name"] == "main-share"
    assert second["resourceClaimName"].startswith("web-main-")
    assert made["spec"]["containers"][0]["resources"]["claims"] == [{"name": "main-share"}]


def test_a_converted_pod_is_admitted_again_without_a_change() -> None:
    again = run(asked(converted(a_training_pod())))

    assert response(again)["allowed"]
    assert not patch_of(again)


def test_admission_writes_nothing_on_a_dry_run_and_otherwise() -> None:
    bench = run(a_service())

    for dry in (True, False):
        assert patch_of(run(asked(a_training_pod(), bench=bench, dry=dry)))

    assert not bench.cluster.events
    assert not any(ledger.allocations for ledger in bench.service.ledgers.inventory)


def test_a_pod_that_claims_do_not_express_stays_and_its_author_is_warned() -> None:
    pod = a_pod(limits=METAX)

    answer = run(asked(pod))

    made = patched(pod, response(answer)["patch"])
    assert made == patched(pod, response(run(admit(pod)))["patch"])
    assert (
        "not converted to ResourceClaims: QoS policy: best-effort, then any"
        in response(answer)["warnings"]
    )


def test_pods_of_other_namespaces_and_schedulers_stay() -> None:
    other = a_training_pod()
    other["spec"]["schedulerName"] = "volcano"

    elsewhere = run(asked(a_training_pod(), namespaces=("ml",)))

    for answer in (elsewhere, run(asked(other))):
        assert response(answer)["allowed"]
        assert not any("resourceClaims" in each["path"] for each in patch_of(answer))


def test_a_pod_of_a_namespace_with_a_quota_stays() -> None:
    async def answer() -> Json:
        quotas = MemoryQuotas((Quota("default", QuotaLimits(memory=1 << 40), counted=True),))
        bench = await a_service(quotas=quotas)
        await bench.see_quota()
        return await asked(a_training_pod(), bench=bench)

    assert any("ShareQuota" in each for each in response(run(answer()))["warnings"])


def damaged(change: str) -> Json:
    """A converted pod with one thing changed by its author."""
    pod = converted(a_training_pod())
    annotations, spec = pod["metadata"]["annotations"], pod["spec"]
    match change:
        case "amount":
            annotations[KEY] = annotations[KEY].replace("4000", "-1")
        case "claim":
            spec["resourceClaims"][0]["resourceClaimName"] = "another"
        case "use":
            del spec["containers"][0]["resources"]["claims"]
        case "resources":
            spec["containers"][1]["resources"]["limits"]["volcano.sh/vgpu-number"] = 1
        case _:
            spec["schedulerName"] = change
    return pod


@pytest.mark.parametrize("change", ["amount", "claim", "use", "resources", "volcano"])
def test_a_record_that_admission_would_not_write_is_denied(change: str) -> None:
    answer = response(run(asked(damaged(change))))

    assert not answer["allowed"]
    assert f"metadata.annotations[{KEY}]" in answer["status"]["message"]


def test_a_record_is_denied_where_nothing_is_converted() -> None:
    answer = response(run(admit(converted(a_training_pod()))))

    assert not answer["allowed"]
    assert f"metadata.annotations[{KEY}]" in answer["status"]["message"]
