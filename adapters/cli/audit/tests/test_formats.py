"""The report as a table, SARIF and JUnit."""

import json
from pathlib import Path
from xml.etree import ElementTree

import yaml

from adapters.cli.audit.finding import RULES
from adapters.cli.tests.builders import node, stream, uuid, volcano_bound, write
from adapters.cli.tests.command import command

OVER = [node(), volcano_bound("a", 6000), volcano_bound("b", 5000)]
TEXT = "10.7 of 9.8 GiB are allocated: default/a (volcano) 5.9 GiB, default/b (volcano) 4.9 GiB"


def test_the_table_has_a_line_for_each_finding_the_remedy_and_a_summary() -> None:
    result = command("audit", things=OVER)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "LEVEL   RULE                    NODE     POD   FINDING",
        f"error   memory-over-allocated   node-a   -     {TEXT}",
        "",
        "memory-over-allocated: End one of the pods, or let one scheduler decide for all of them.",
        "",
        "1 node, 2 cards, 2 pods with cards: 1 finding",
    ]


def test_the_wide_table_has_the_card() -> None:
    line = command("audit", "-o", "wide", "--no-headers", things=OVER).stdout

    assert line.split()[:5] == ["error", "memory-over-allocated", "node-a", uuid(0), "-"]
    assert line.count("\n") == 1


def test_sarif_names_rule_level_place_and_object(tmp_path: Path) -> None:
    path = write(tmp_path, "dump.json", stream(*OVER))

    (run,) = json.loads(command("audit", "-f", path, "-o", "sarif").stdout)["runs"]

    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] == "error"
    assert result["message"]["text"] == f"node node-a, card {uuid(0)}: {TEXT}"
    assert result["locations"] == [
        {
            "logicalLocations": [{"fullyQualifiedName": f"node/node-a/card/{uuid(0)}"}],
            "physicalLocation": {
                "artifactLocation": {"uri": str(path)},
                "region": {"startLine": 1},
            },
        }
    ]


def test_junit_has_a_test_case_for_each_rule_and_a_failure_for_each_broken_one() -> None:
    result = command("audit", "-o", "junit", things=OVER)

    suite = ElementTree.fromstring(result.stdout)[0]  # noqa: S314 - our own text
    cases = {case.get("name"): case.find("failure") for case in suite}
    assert list(cases) == list(RULES)
    failed = {name: failure for name, failure in cases.items() if failure is not None}
    assert list(failed) == ["memory-over-allocated"]
    assert failed["memory-over-allocated"].text == f"node node-a, card {uuid(0)}: {TEXT}"
    assert (suite.get("tests"), suite.get("failures")) == (str(len(RULES)), "1")


def test_yaml_and_json_are_the_same_report() -> None:
    found = [command("audit", "-o", form, things=OVER).stdout for form in ("json", "yaml")]

    assert json.loads(found[0]) == yaml.safe_load(found[1])
    assert json.loads(found[0])["kind"] == "AuditReport"
