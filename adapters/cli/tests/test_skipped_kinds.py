"""A dump has more kinds than the command reads: they are skipped, counted and named."""

import json
from pathlib import Path

import pytest

from adapters.cli.tests.builders import Plain, node, pod, stream, volcano, write
from adapters.cli.tests.command import command

OTHERS: list[Plain] = [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c"}},
    {"apiVersion": "example.com/v1", "kind": "Device", "metadata": {"name": "d"}},
]
SKIPPED = (
    "skipped objects of kinds that are not read:"
    " 1 Deployment, 1 Device of example.com/v1, 2 Service\n"
)


def as_list(*things: Plain) -> Plain:
    """What ``kubectl get -o json`` prints."""
    return {"apiVersion": "v1", "kind": "List", "items": [*things]}


@pytest.mark.parametrize(
    "words", [("top",), ("pending",), ("schedule",), ("audit",), ("whatif", "--add", "node-a=1")]
)
def test_other_kinds_of_a_list_are_skipped_and_counted(words: tuple[str, ...]) -> None:
    done = command(*words, things=[as_list(node(), *OTHERS, pod("p", volcano(1)))])

    assert done.exit_code == 0
    assert done.stderr == f"note: {SKIPPED}"


def test_jobs_of_a_dump_are_not_mentioned_because_one_command_reads_them() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    volcano_job = job | {"apiVersion": "batch.volcano.sh/v1alpha1"}

    for words in (("top",), ("defrag",)):
        done = command(*words, things=[as_list(node(), job)])
        assert (done.exit_code, done.stderr) == (0, "")
    done = command("defrag", things=[as_list(node(), volcano_job)])
    assert done.stderr == ""
    done = command("schedule", things=[node(), job])
    assert "pass the Pods that it creates" in done.stderr


def test_what_kubectl_get_all_prints_has_no_nodes_and_a_warning_says_so() -> None:
    bound = pod("a", volcano(1), spec={"nodeName": "node-a"})

    done = command("top", "pods", things=[as_list(bound, *OTHERS)])

    assert done.exit_code == 0
    assert done.stderr == (
        f"note: {SKIPPED}"
        "warning: the input has pods and no nodes, so nothing is known of cards:"
        " add the output of kubectl get nodes\n"
        "note: no pods have cards\n"
    )


def test_other_kinds_in_a_folder_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "nodes.json", stream(as_list(node())))
    write(tmp_path, "services.json", stream({"kind": "ServiceList", "items": OTHERS[:2]}))
    write(tmp_path, "deployment.yaml", json.dumps(OTHERS[2]))

    done = command("top", "-f", tmp_path)

    assert done.exit_code == 0
    assert done.stderr == (
        "note: skipped objects of kinds that are not read: 1 Deployment, 1 ServiceList\n"
    )


def test_a_list_of_other_kinds_alone_is_an_error_that_names_the_first() -> None:
    done = command("schedule", things=[as_list(*OTHERS[2:])])

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "dragoman: stdin:1: unknown kind Deployment of apps/v1; supported"
    )


def test_an_object_of_another_kind_in_a_file_of_its_own_is_an_error() -> None:
    done = command("schedule", things=[node(), OTHERS[2]])

    assert done.exit_code == 2
    assert "unknown kind Deployment of apps/v1" in done.stderr


CLAIM_KINDS: list[Plain] = [
    {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}}
    for kind in ("DeviceClass", "ResourceClaimTemplate")
] + [
    {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClassList", "items": [{}, {}]},
    {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": {}},
]


@pytest.mark.parametrize(
    "words",
    [("schedule",), ("audit",), ("top",), ("pending",), ("defrag",), ("explain", "pod", "p")],
)
def test_what_stands_beside_claims_is_skipped_wherever_it_is(words: tuple[str, ...]) -> None:
    done = command(*words, things=[*CLAIM_KINDS, node(), pod("p", volcano(1))])

    assert done.exit_code == 0, done.output
    assert done.stderr == (
        "note: skipped objects of kinds that are not read:"
        " 1 ComputeDomain, 3 DeviceClass, 1 ResourceClaimTemplate\n"
    )


def test_what_stands_beside_claims_is_nothing_to_answer_from() -> None:
    done = command("top", things=CLAIM_KINDS)

    assert done.exit_code == 2
    assert "unknown kind DeviceClass of resource.k8s.io/v1" in done.stderr
