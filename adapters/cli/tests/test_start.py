"""What each command imports: a command starts as fast as the packages that it needs."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from adapters.cli.commands.options import PolicyOption
from adapters.cli.main import app
from adapters.cli.tests.builders import node, pod, stream, volcano
from adapters.dialects.dialect import SchedulingPolicy

ROOT = Path(__file__).parents[3]

RUN = """
import sys
before = set(sys.modules)
from adapters.cli.main import main
sys.argv = ["dragoman", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted(sys.modules.keys() - before), file=sys.stderr)
"""

IMPORT_NAMES = {"pyyaml": "yaml", "ruamel-yaml": "ruamel"}
"""Import names of dependencies whose package has another name."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = (re.match(r"[\w-]+", each) for each in PROJECT["dependencies"])
DEPENDENCIES = {
    IMPORT_NAMES.get(name[0], name[0].replace("-", "_")) for name in NAMES if name
} | {"asyncio", "grpc", "ssl"}  # fmt: skip
"""Packages of others that count; and of the standard library two that are large."""

SIGNATURES = {
    "adapters.cli.commands", "adapters.cli.configure", "adapters.cli.input", "adapters.cli.main",
    "typer",
}  # fmt: skip
"""All that the version and the help may import."""

PARSED = SIGNATURES | {"pydantic"}
"""Also what typer imports when it parses a command's own arguments."""

READING = PARSED | {
    "adapters.accounting", "adapters.answer", "adapters.cli.fleet", "adapters.dialects",
    "adapters.repairs", "adapters.stores", "adapters.wire", "core", "msgspec", "numpy", "yaml",
}  # fmt: skip
"""Also what reads a cluster from files."""

LISTS = READING | {
    "rich", "adapters.cli.output", "adapters.cli.view", "orjson",
}  # fmt: skip
TRANSLATES = PARSED | {
    "adapters.cli.output", "adapters.cli.translate", "adapters.dialects", "adapters.wire",
    "core", "msgspec", "orjson", "ruamel", "yaml",
}  # fmt: skip
PLACES = READING | {
    "adapters.cli.output", "adapters.cli.schedule", "orjson",
}  # fmt: skip

COMMANDS = sorted(command.name or "" for command in app.registered_commands)


def imported(*words: str, stdin: str = "", **environment: str) -> set[str]:
    """The dependencies that a command imports, and our own rooms."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RUN, *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | environment,
    )
    modules = done.stderr.splitlines()[-1].split()
    assert "adapters.cli.main" in modules, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return {room(module) for module in modules} - {""}


def room(module: str) -> str:
    """A module's dependency, or its room; empty for all else."""
    match module.split("."):
        case ["adapters", "cli", name, *_]:
            return f"adapters.cli.{name}"
        case ["adapters", name, *_] if name != "cli":
            return f"adapters.{name}"
        case [name, *_] if name == "core" or name in DEPENDENCIES:
            return name
        case _:
            return ""


@pytest.mark.parametrize("words", ["--version", "--help", *(f"{name} -h" for name in COMMANDS)])
def test_version_and_help_import_signatures_only(words: str) -> None:
    allowed = PARSED if words.endswith(" -h") else SIGNATURES

    assert imported(*words.split()) <= allowed


def test_completion_imports_signatures_only() -> None:
    protocol = {"COMP_WORDS": "dragoman top na", "COMP_CWORD": "2"}

    assert imported(_DRAGOMAN_COMPLETE="complete_bash", **protocol) <= PARSED


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("schedule -f - -o json", PLACES),
        ("schedule -f - -o yaml", PLACES),
        ("schedule -f -", PLACES),
        ("whatif -f - --remove node-b", LISTS | PLACES | {"adapters.cli.whatif"}),
        ("defrag -f -", LISTS | PLACES | {"adapters.cli.defrag"}),
        ("top -f -", LISTS),
        ("who node-a -f -", LISTS),
        ("pending -f -", LISTS),
        ("explain pod pod-a -n default -f -", LISTS | {"adapters.cli.explain"}),
        ("audit -f -", LISTS | {"adapters.cli.audit"}),
        ("translate --to hami -f -", TRANSLATES),
    ],
)
def test_a_command_that_reads_files_imports_nothing_of_clusters_and_servers(
    words: str, allowed: set[str]
) -> None:
    things = stream(node(), node("node-b"), pod("pod-a", volcano(1)))

    assert imported(*words.split(), stdin=things) <= allowed


def test_configure_imports_no_dialect() -> None:
    allowed = PARSED | {
        "adapters.cli.output", "adapters.wire", "msgspec", "ruamel",
        "yaml",
    }  # fmt: skip

    assert imported("configure", "kube-scheduler", "--new") <= allowed


def test_the_policies_of_the_options_are_those_of_the_dialects() -> None:
    assert [each.value for each in PolicyOption] == [each.value for each in SchedulingPolicy]
