"""What a translation loses is named; what cannot be translated is an error."""

import json
from pathlib import Path

import pytest
import yaml

from adapters.cli.translate.tests.builders import HAMI, KOORDINATOR, SHARE, pod, report, run, spec
from adapters.cli.translate.translation import targets
from adapters.dialects import registry
from adapters.dialects.tests.acme import INFO as ACME
from adapters.dialects.tests.acme import RESOURCE, registered


def test_losses_are_named_in_a_table_and_as_json() -> None:
    text = yaml.safe_dump(pod(SHARE, annotations={"nvidia.com/use-gputype": "A100"}))

    result = run("--to", "koordinator", text=text)

    assert result.stderr == (
        "DOCUMENT   POD   FROM      LOSS            BEFORE   AFTER\n"
        "Pod/p      -     volcano   vendor          nvidia   any\n"
        "Pod/p      -     volcano   allowed types   A100     none\n"
        "1 pod translated to koordinator, 1 with a loss\n"
    )
    found = report("--to", "koordinator", "--card-vendor", "nvidia", text=text)
    assert found == [{"field": "allowed types", "before": "A100", "after": "none"}]


def test_strict_prints_no_manifest_where_something_is_lost() -> None:
    lossy = yaml.safe_dump(pod(SHARE))

    result = run("--to", "koordinator", "--strict", text=lossy)
    exact = run("--to", "hami", "--strict", text=lossy)

    assert (result.exit_code, result.stdout) == (1, "")
    assert (exact.exit_code, yaml.safe_load(exact.stdout)) == (0, pod(HAMI))


def test_results_and_unread_amounts_are_removed_and_named() -> None:
    text = yaml.safe_dump(
        pod(
            HAMI | {"nvidia.com/priority": 1},
            annotations={"hami.io/vgpu-devices-allocated": "x"},
        )
    )

    assert report("--to", "volcano", text=text) == [
        {"field": "container c: nvidia.com/priority", "before": "1", "after": "removed"},
        {
            "field": "annotation hami.io/vgpu-devices-allocated",
            "before": "x",
            "after": "removed",
        },
    ]


def test_a_label_of_the_dialect_is_removed_and_named() -> None:
    text = yaml.safe_dump(
        pod(KOORDINATOR, labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    )
    result = run("--to", "hami", "--card-vendor", "nvidia", text=text)

    assert "labels" not in yaml.safe_load(result.stdout)["metadata"]
    assert "isolation   HAMi-core   any" in result.stderr


def test_a_percentage_becomes_bytes_where_the_memory_of_a_card_is_known() -> None:
    half = {"koordinator.sh/gpu-memory-ratio": 50, "koordinator.sh/gpu-core": 50}
    text = yaml.safe_dump(pod(half))

    refused = run("--to", "metax", text=text)
    result = run("--to", "metax", "--card-memory", "64Gi", "--card-vendor", "metax", text=text)

    assert refused.exit_code == 2
    assert "container c: '50 % of the card's memory'" in refused.stderr.replace('"', "'")
    assert "state the memory of a card with --card-memory" in refused.stderr
    limits = yaml.safe_load(result.stdout)["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {
        "metax-tech.com/sgpu": 1,
        "metax-tech.com/vcore": 50,
        "metax-tech.com/vmemory": "32768Mi",
    }


MERGED = """\
base: &base {volcano.sh/vgpu-number: 1}
spec:
  containers:
  - name: c
    resources: {limits: {<<: *base}}
"""
"""A translation of the pod leaves the words that it merges."""


@pytest.mark.parametrize(
    ("words", "text", "problem"),
    [
        (["--to", "metax"], yaml.safe_dump(pod(SHARE)), "metax has those of metax only"),
        (["--to", "hami", "--card-memory", "x"], "", "--card-memory: 'x': must be an amount"),
        (["--to", "hami", "--card-memory", "0"], "", "--card-memory: '0': must be an amount"),
        (["--to", "hami", "--card-vendor", "x"], "", "'x': must be one of metax, nvidia"),
        (["--to", "hami"], MERGED, "cannot be written for hami: spec.containers[*].resources"),
        (["--to", "hami", "-f", "adapters"], "", "is a folder; give one file"),
        (["--to", "hami"], "a: [nvidia.com/gpu", "stdin:1: is not YAML"),
        (["--to", "hami"], "{{nvidia.com/gpu: {a: 1}}: 2}", "stdin:1: is not YAML"),
        (
            ["--to", "hami"],
            yaml.safe_dump(pod({"volcano.sh/vgpu-number": "x"})),
            "must be a number",
        ),
        (["--to", "hami"], yaml.safe_dump(pod(SHARE, labels=[1])), "labels"),
        (["--to", "hami"], yaml.safe_dump(pod(SHARE) | {"metadata": []}), "metadata"),
        (
            ["--to", "hami"],
            json.dumps(pod(SHARE, labels={"a": "\ud800"})),
            r"stdin: contains '\ud800', which is no character",
        ),
        (["--to", "hami"], "nvidia.com/gpu: " + "[" * 5000, "nvidia.com/gpu[0][0]"),
        (
            ["--to", "hami"],
            yaml.safe_dump({"spec": {"containers": spec(SHARE)["containers"] * 2}}),
            "names must be unique",
        ),
        (
            ["--to", "hami"],
            yaml.safe_dump(pod(SHARE | {"volcano.sh/vgpu-number": 5000})),
            "cannot be written for hami: spec.containers[c]",
        ),
        (["--to", "slurm"], "", "must be one of volcano, koordinator, metax, hami"),
    ],
)
def test_what_cannot_be_translated_is_an_error(
    words: list[str], text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[4])

    result = run(*words, text=text)

    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.replace("│", " ").split())


def test_a_dialect_without_a_writer_is_named() -> None:
    with registered(ACME):
        assert ACME.name not in targets()
        text = yaml.safe_dump(pod({RESOURCE: 1, "nvidia.com/gpu": 0}))
        result = run("--to", "koordinator", text=text)

    assert result.exit_code == 2
    assert "cannot be translated" in result.stderr


def test_every_dialect_of_the_registry_is_a_target() -> None:
    assert targets() == [*registry.names()]


@pytest.mark.parametrize(
    ("name", "target", "foreign"),
    [
        ("volcano", "koordinator", True),
        ("our-own", "hami", True),
        ("hami-scheduler", "hami", False),
        ("koord-scheduler", "koordinator", False),
        ("default-scheduler", "koordinator", False),
        (None, "koordinator", False),
    ],
)
def test_the_name_of_a_foreign_scheduler_stays_and_is_named(
    name: str | None, target: str, foreign: bool
) -> None:
    text = pod(SHARE)
    text["spec"] |= {} if name is None else {"schedulerName": name}
    words = ("--to", target, "--card-memory", "80Gi", "--card-vendor", "nvidia")

    result = run(*words, "--strict", text=yaml.safe_dump(text))
    plain = json.loads(run(*words, "-o", "json", text=yaml.safe_dump(text)).stdout)

    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout.split("---")[0])["spec"].get("schedulerName") == name
    assert (f"note: Pod/p: schedulerName stays {name}; no scheduler of" in result.stderr) == foreign
    assert plain["pods"][0]["foreignScheduler"] == (name if foreign else None)


def test_an_invalid_pod_stays_and_the_others_are_translated() -> None:
    good, bad = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}), pod(MANY)
    bad["metadata"]["name"] = "bad"
    text = yaml.safe_dump_all([good, bad])

    result = run("--to", "volcano", text=text)
    strict = run("--to", "volcano", "--strict", text=text)
    alone = run("--to", "volcano", text=yaml.safe_dump(bad))

    first, second = yaml.safe_load_all(result.stdout)
    assert first["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-memory"] == 1000
    assert second == bad
    for done in (result, strict, alone):
        assert done.exit_code == 2
        assert (
            "Pod/bad: spec.containers[c].resources.limits[nvidia.com/gpucores]: 999" in done.stderr
        )
    assert result.stderr.count("warning: ") == 1
    assert strict.stdout == alone.stdout == ""


MANY = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 999}
