"""A pod stays in its gang, whatever dialect it gets."""

from typing import Any

import msgspec
import pytest
import yaml

from adapters.cli.tests.gangs import APIS, group, member
from adapters.cli.translate.tests.builders import HAMI, SHARE, report, run, translated
from adapters.dialects.gangs import GROUPS, MIN_AVAILABLE, any_gang_of, task_of
from adapters.wire.kube import Pod, annotations

TARGETS = ("hami", "koordinator")

KOORDINATOR = {
    "gang.scheduling.koordinator.sh/name": "g",
    MIN_AVAILABLE: "3",
    GROUPS: '["default/g"]',
}


def shared(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with a share that every dialect can say."""
    pod["spec"]["containers"][0]["resources"]["limits"] = dict(SHARE)
    return pod


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("api", APIS)
def test_a_translated_pod_names_its_gang_and_nothing_is_lost(api: str, target: str) -> None:
    before = shared(member("a", api))
    before["metadata"].setdefault("annotations", {})["volcano.sh/task-spec"] = "worker"
    text = yaml.safe_dump_all([group(api, 3, minTaskMember={"worker": 1}), before])

    result = run("--to", target, "--card-vendor", "nvidia", text=text)

    assert result.exit_code == 0, result.stderr
    first, after, *_ = yaml.safe_load_all(result.stdout)
    pod = msgspec.convert(after, Pod)
    assert first == group(api, 3, minTaskMember={"worker": 1})
    assert any_gang_of(pod) == any_gang_of(msgspec.convert(before, Pod))
    assert task_of(pod) == "worker"
    assert pod.spec.scheduler_name == before["spec"].get("schedulerName")


@pytest.mark.parametrize("target", TARGETS)
def test_what_koordinators_annotations_say_of_a_gang_stays(target: str) -> None:
    before = shared(member("a", metadata={"annotations": KOORDINATOR}))

    after = yaml.safe_load(
        run("--to", target, "--card-vendor", "nvidia", text=yaml.safe_dump(before)).stdout.split(
            "\n---\n"
        )[0]
    )

    assert annotations(msgspec.convert(after, Pod)).items() >= KOORDINATOR.items()
    assert report("--to", "hami", text=yaml.safe_dump(before)) == []


def test_the_template_of_a_workload_stays_in_its_gang() -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "resources": {"limits": dict(SHARE)}}]},
    }
    job = {"kind": "Job", "spec": {"minAvailable": 3, "tasks": [{"template": template}]}}

    after = translated(job)

    assert after["spec"]["minAvailable"] == 3
    (task,) = after["spec"]["tasks"]
    assert task["template"]["metadata"] == {"labels": labels}
    assert task["template"]["spec"]["containers"][0]["resources"]["limits"] == HAMI
