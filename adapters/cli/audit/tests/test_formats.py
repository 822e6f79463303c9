"""The report as a table, YAML and JSON."""

import json

import yaml

from adapters.cli.tests.builders import node, uuid, volcano_bound
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


def test_yaml_and_json_are_the_same_report() -> None:
    found = [command("audit", "-o", form, things=OVER).stdout for form in ("json", "yaml")]

    assert json.loads(found[0]) == yaml.safe_load(found[1])
    assert json.loads(found[0])["kind"] == "AuditReport"
