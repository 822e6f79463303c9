"""A report that is written piece by piece is the same as one that is written at once."""

import json
from array import array

import orjson
import pytest
import yaml

from adapters.cli.output.report import HEAD, NodeTexts, PodLine, PodResult, pod_fields
from adapters.cli.output.streamed_report import json_report, yaml_report
from adapters.cli.tests.builders import node, pod, run, stream, volcano
from core.requests.request import PodRef

NAMES = ("n1", "node-b.example.com", "123", "true", "null", "a: b", "- c", "ö", "x" * 200, "q\"'")
TEXTS = ("no cards", "8 of 8 cards: memory 2 GiB short", "tab\there", "line\nbreak", "ü", "", "# x")


def texts(by_node: dict[str, str]) -> NodeTexts:
    known = list(dict.fromkeys(by_node.values()))
    ids = array("i", map(known.index, by_node.values()))
    return NodeTexts(tuple(by_node), ids, known)


def lines(count: int) -> list[PodLine]:
    """Pods with reasons: the first ones for the same nodes, the last one for others."""
    same = texts(dict.fromkeys(("n1", "n2"), "no cards"))
    odd = texts({name: TEXTS[at % len(TEXTS)] for at, name in enumerate(NAMES)})
    reasons = [same, NodeTexts(same.names, same.ids, ("other: 'text'",)), odd, NodeTexts()]
    return [
        PodLine(PodRef("ml", f"p{at}", f"uid-{at}"), PodResult.REJECTED, "none", reasons=each)
        for at, each in enumerate(reasons[:count])
    ]


def at_once(pods: list[PodLine]) -> dict[str, object]:
    return {**HEAD, "pods": [pod_fields(pod, dict(pod.reasons)) for pod in pods], "cards": []}


@pytest.mark.parametrize("count", range(5))
def test_json_has_the_bytes_of_a_report_that_is_written_at_once(count: int) -> None:
    found = b"".join(json_report(lines(count), ()))

    assert found == orjson.dumps(
        at_once(lines(count)), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


@pytest.mark.parametrize("count", range(5))
def test_yaml_has_the_bytes_of_a_report_that_is_written_at_once(count: int) -> None:
    found = b"".join(yaml_report(lines(count), ()))

    whole = yaml.dump(
        at_once(lines(count)),
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        width=1 << 20,
    )
    assert found.decode() == whole


def test_each_node_has_its_text() -> None:
    found = texts({"a": "x", "b": "y", "c": "x"})

    assert list(found.items()) == [("a", "x"), ("b", "y"), ("c", "x")]
    assert (found["c"], len(found), list(found)) == ("x", 3, ["a", "b", "c"])


def test_excluded_nodes_follow_the_rejected_ones_in_the_report() -> None:
    cordoned = node("b", cards=1, more={"spec": {"unschedulable": True}})
    things = (cordoned, node("a", cards=1), pod(limits=volcano(99999)))

    found = run("-f", "-", "-o", "json", stdin=stream(*things))

    nodes = json.loads(found.stdout)["pods"][0]["explanation"]["nodes"]
    assert list(nodes) == ["a", "b"]
    assert nodes["b"] == "unschedulable"
