"""Admission of pods: defaults, void devices, and rejections."""

import pytest

from adapters.cli.demo.schedulers import patched
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.tests.reviews import METAX, admit, response
from adapters.service.tests.builders import (
    Json,
    a_pod,
    a_service,
    decoded,
    review,
    run,
)
from adapters.stores.memory import MemoryQuotas
from core.hardware.quantity import GIB
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota


def test_devices_are_voided_for_containers_that_request_a_share_and_no_others() -> None:
    pod = a_pod()
    pod["spec"]["initContainers"] = [
        {"name": "warm", "resources": {"limits": {"volcano.sh/vgpu-number": 1}}, "env": []}
    ]
    pod["spec"]["containers"].append(
        {"name": "log", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    )

    answer = run(admit(pod))

    made = patched(pod, response(answer)["patch"])
    closed = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "DRAGOMAN_SHARE", "value": "1"},
    ]
    assert made["spec"]["initContainers"][0]["env"] == closed
    assert made["spec"]["containers"][0]["env"] == closed
    assert made["spec"]["containers"][1] == pod["spec"]["containers"][1]


def test_visible_devices_of_the_author_are_overwritten_wherever_they_are() -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "OTHER", "value": "1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
    ]

    made = patched(pod, response(run(admit(pod)))["patch"])

    values = [(one["name"], one.get("value")) for one in made["spec"]["containers"][0]["env"]]
    assert values == [
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("OTHER", "1"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("DRAGOMAN_SHARE", "1"),
    ]


async def admit_requiring(pod: Json) -> Json:
    bench = await a_service()
    return await decoded(Admission(bench.service, "dragoman").pods(review(pod)))


def test_containers_that_request_a_share_require_the_agent_if_configured() -> None:
    pod = a_pod(limits=METAX)
    pod["spec"]["containers"].append({"name": "log"})

    made = patched(pod, response(run(admit_requiring(pod)))["patch"])
    none = patched(pod, response(run(admit(pod)))["patch"])

    name = pod["spec"]["containers"][0]["name"]
    assert made["metadata"]["annotations"] == {
        **none["metadata"]["annotations"],
        f"required-plugins.noderesource.dev/container.{name}": '["dragoman"]',
    }


def test_required_plugins_that_the_runtime_cannot_parse_are_rejected() -> None:
    pod = a_pod(annotations={"required-plugins.noderesource.dev": "audit"})

    answer = response(run(admit_requiring(pod)))

    assert not answer["allowed"]
    assert "metadata.annotations[required-plugins.noderesource.dev]" in answer["status"]["message"]


def test_a_default_of_the_dialect_is_written_where_the_author_wrote_nothing() -> None:
    made = patched(a_pod(limits=METAX), response(run(admit(a_pod(limits=METAX))))["patch"])
    said = a_pod(limits=METAX, annotations={"metax-tech.com/sgpu-qos-policy": "fixed-share"})
    kept = patched(said, response(run(admit(said)))["patch"])

    assert made["metadata"]["annotations"] == {"metax-tech.com/sgpu-qos-policy": "best-effort"}
    assert kept["metadata"]["annotations"] == said["metadata"]["annotations"]


def test_what_hamis_webhook_adds_is_added() -> None:
    pod = a_pod(limits={"nvidia.com/gpumem": 100, "nvidia.com/priority": 0})
    (container,) = pod["spec"]["containers"]
    container["env"] = [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]

    answer = response(run(admit(pod)))

    (made,) = patched(pod, answer["patch"])["spec"]["containers"]
    assert made["resources"]["limits"] == {
        **container["resources"]["limits"],
        "nvidia.com/gpu": "1",
    }
    assert {one["name"]: one["value"] for one in made["env"]} == {
        "CUDA_TASK_PRIORITY": "0",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "DRAGOMAN_SHARE": "1",
    }
    assert "without nvidia.com/gpu: it gets 1" in answer["warnings"][0]


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (a_pod(cores=150), "volcano.sh/vgpu-cores"),
        (a_pod(limits={**METAX, "volcano.sh/vgpu-number": 1}), "mixes the dialects"),
        (a_pod(annotations={"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1,1:"}), "only the scheduler"),
        (
            a_pod(limits={"cpu": 1}, annotations={"dragoman.dev/allocation": "[]"}),
            "only the scheduler",
        ),
    ],
)
def test_invalid_and_forged_pods_are_denied_with_a_sentence(pod: Json, said: str) -> None:
    found = response(run(admit(pod)))

    assert found["allowed"] is False
    assert said in found["status"]["message"]


def test_a_result_label_of_the_author_is_denied_too() -> None:
    pod = a_pod()
    pod["metadata"]["labels"] = {"hami.io/vgpu-node": "n1"}

    assert response(run(admit(pod)))["allowed"] is False


def test_a_pod_with_a_node_name_is_denied() -> None:
    pod, plain = a_pod(), a_pod(limits={"cpu": 1})
    pod["spec"]["nodeName"] = plain["spec"]["nodeName"] = "n1"

    assert "spec.nodeName" in response(run(admit(pod)))["status"]["message"]
    assert response(run(admit(plain)))["allowed"] is True


def test_a_pod_without_a_share_and_an_update_pass_untouched() -> None:
    for answer in (run(admit(a_pod(limits={"cpu": 1}))), run(admit(a_pod(cores=150), "UPDATE"))):
        assert response(answer) == {"uid": "r1", "allowed": True}


def test_the_author_is_warned_of_misspelled_and_uncounted_names() -> None:
    shared = a_pod(annotations={"volcano.sh/vgpu-mod": "mig"})
    strange = a_pod(limits={"huawei.com/Ascend910B": 1})

    assert response(run(admit(shared)))["warnings"] == [
        "metadata.annotations[volcano.sh/vgpu-mod]: no dialect reads it; "
        "did you mean volcano.sh/vgpu-mode?"
    ]
    answer = response(run(admit(strange)))
    assert (answer["allowed"], len(answer["warnings"])) == (True, 1)
    assert "does not count this resource" in answer["warnings"][0]


def test_a_pod_that_alone_exceeds_the_quota_of_its_namespace_is_denied() -> None:
    async def answers(memory: int) -> Json:
        limits = QuotaLimits(memory=6 * GIB)
        quotas = MemoryQuotas((Quota("default", limits, counted=True),))
        bench = await a_service(quotas=quotas)
        await bench.see_quota()
        admission = Admission(bench.service)
        return (await decoded(admission.pods(review(a_pod(memory=memory)))))["response"]

    assert run(answers(6144))["allowed"]
    denied = run(answers(7168))
    assert (denied["allowed"], denied["status"]["message"]) == (
        False,
        "quota of namespace default: the pod counts 7 GiB of memory, and the limit is 6 GiB",
    )


def test_a_privileged_pod_with_a_share_of_hami_is_denied_with_field_value_and_remedy() -> None:
    pod = a_pod(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000})
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}

    answer = run(admit(pod))["response"]

    assert not answer["allowed"]
    assert answer["status"]["message"].startswith(
        "spec.containers[main].securityContext.privileged: True: must be false or absent"
    )
