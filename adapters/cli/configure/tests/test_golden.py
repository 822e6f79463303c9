"""Real configurations of the three schedulers: what is added to them, and that it comes out again.

``make golden`` writes the outputs.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.cli.configure.command import configure, default, unconfigure
from adapters.cli.configure.options import ConfigureOptions, Scheduler, SchedulerMode
from adapters.cli.input.source import Source

GOLDEN = Path(__file__).parent / "golden"
CONFIGS = Path(__file__).parents[4] / "configs"
PRESENT = ConfigureOptions()
NATIVE = ConfigureOptions(mode=SchedulerMode.NATIVE)
STATIC = {
    "kube-scheduler-config": (Scheduler.KUBE, PRESENT),
    "kube-scheduler-preemption-config": (Scheduler.KUBE, ConfigureOptions(preemption=True)),
    "koord-scheduler-config": (Scheduler.KOORD, PRESENT),
    "koord-scheduler-preemption-config": (Scheduler.KOORD, ConfigureOptions(preemption=True)),
    "koord-scheduler-config-with-deviceshare": (Scheduler.KOORD, NATIVE),
    "volcano-scheduler-configmap": (Scheduler.VOLCANO, PRESENT),
    "volcano-scheduler-configmap-native": (Scheduler.VOLCANO, NATIVE),
}

CASES = sorted(path.name.removesuffix(".in.yaml") for path in GOLDEN.glob("*.in.yaml"))


def given(case: str) -> tuple[Scheduler, Source]:
    text = (GOLDEN / f"{case}.in.yaml").read_text()
    return Scheduler(case.partition(".")[0]), Source(f"{case}.in.yaml", text, named=True)


def source(text: str) -> Source:
    return Source("result", text, named=True)


def meaning(text: str) -> Any:
    """What the scheduler reads: all documents, and the one inside of a ConfigMap decoded."""
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        if document["kind" if "kind" in document else "tiers"] == "ConfigMap":
            document["data"] = {k: yaml.safe_load(v) for k, v in document["data"].items()}
    return documents


@pytest.mark.parametrize("case", CASES)
def test_what_is_added_is_as_recorded(case: str, rewrite_golden: bool) -> None:
    made = configure(*given(case), PRESENT).after

    file = GOLDEN / f"{case}.out.yaml"
    if rewrite_golden:
        file.write_text(made)
    assert made == file.read_text()


@pytest.mark.parametrize("case", CASES)
def test_a_second_run_changes_no_byte(case: str) -> None:
    scheduler, text = given(case)
    once = configure(scheduler, text, PRESENT).after

    assert configure(scheduler, source(once), PRESENT).after == once


@pytest.mark.parametrize("case", CASES)
def test_undo_gives_the_meaning_of_the_original_back(case: str) -> None:
    scheduler, text = given(case)
    once = configure(scheduler, text, PRESENT).after

    back = unconfigure(scheduler, source(once))

    assert meaning(back.after) == meaning(text.text)
    assert back.notes == []
    assert "dragoman" not in back.after


@pytest.mark.parametrize("name", STATIC)
def test_a_file_of_configs_is_what_the_command_prints(name: str, rewrite_golden: bool) -> None:
    scheduler, options = STATIC[name]
    made = configure(scheduler, default(scheduler), options).after

    file = CONFIGS / f"{name}.yaml"
    head = own_comment(file.read_text())
    if rewrite_golden:
        file.write_text(head + made)
    assert file.read_text() == head + made


@pytest.mark.parametrize("scheduler", Scheduler)
def test_undo_of_a_new_file_is_the_installers_default(scheduler: Scheduler) -> None:
    made = configure(scheduler, default(scheduler), PRESENT).after

    back = unconfigure(scheduler, source(made)).after

    assert meaning(back) == meaning(default(scheduler).text)


def own_comment(text: str) -> str:
    """The comment of a file before the first line that the command prints."""
    lines = text.splitlines(keepends=True)
    starts = ("# dragoman-configure:", "# As kubeadm", "apiVersion:")
    return "".join(lines[: next(at for at, row in enumerate(lines) if row.startswith(starts))])
