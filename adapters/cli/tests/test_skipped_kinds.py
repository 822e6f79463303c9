"""A dump has more kinds than the command reads: they are skipped, counted and named."""

import json
from pathlib import Path

import pytest

from adapters.cli.tests.builders import Plain, node, pod, stream, volcano, write
from adapters.cli.tests.command import command

OTHERS: list[Plain] = [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}},
    {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "c"}},
    {"apiVersion": "example.com/v1", "kind": "Device", "metadata": {"name": "d"}},
]
SKIPPED = "skipped: 4 objects of kinds without pods (Device of example.com/v1, Ingress, Service)\n"


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


@pytest.mark.parametrize(
    "words", [("top",), ("pending",), ("schedule",), ("audit",), ("explain", "pod", "p")]
)
def test_other_kinds_of_a_file_of_several_documents_are_skipped_and_counted(
    words: tuple[str, ...],
) -> None:
    done = command(*words, things=[OTHERS[0], node(), *OTHERS[1:], pod("p", volcano(1))])

    assert done.exit_code == 0
    assert done.stderr == f"note: {SKIPPED}"


def test_workloads_of_a_dump_are_not_mentioned_because_some_commands_read_them() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    volcano_job = job | {"apiVersion": "batch.volcano.sh/v1alpha1"}

    for words in (("top",), ("defrag",)):
        done = command(*words, things=[as_list(node(), job)])
        assert (done.exit_code, done.stderr) == (0, "")
    done = command("defrag", things=[as_list(node(), volcano_job)])
    assert done.stderr == ""


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
    write(tmp_path, "ingress.yaml", json.dumps(OTHERS[2]))

    done = command("top", "-f", tmp_path)

    assert done.exit_code == 0
    assert done.stderr == ("note: skipped: 3 objects of kinds without pods (Ingress, Service)\n")


def test_a_list_of_other_kinds_alone_is_an_error_that_names_the_first() -> None:
    done = command("schedule", things=[as_list(*OTHERS[2:])])

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "dragoman: stdin:1: unknown kind Ingress of networking.k8s.io/v1; supported"
    )


def test_a_file_of_which_nothing_is_read_is_an_error(tmp_path: Path) -> None:
    nodes = write(tmp_path, "nodes.json", stream(node()))
    typo = write(tmp_path, "typo.json", stream({"kind": "Nodee"}, {"kind": "Podd"}))

    done = command("schedule", "-f", nodes, "-f", typo)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"dragoman: {typo}:1: unknown kind Nodee; supported kinds are")


CLAIM_KINDS: list[Plain] = [
    {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}}
    for kind in ("PodSchedulingContext", "ResourcePoolStatusRequest")
] + [
    {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "PodSchedulingContextList",
        "items": [{}, {}],
    },
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
        "note: skipped: 5 objects of kinds without pods"
        " (ComputeDomain, PodSchedulingContext, ResourcePoolStatusRequest)\n"
    )


def test_what_stands_beside_claims_is_nothing_to_answer_from() -> None:
    done = command("top", things=CLAIM_KINDS)

    assert done.exit_code == 2
    assert "unknown kind PodSchedulingContext of resource.k8s.io/v1" in done.stderr
