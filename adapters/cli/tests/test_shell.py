"""The command in a shell: help, completion, kubectl plugin, pipes."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from adapters.cli.main import app
from adapters.cli.tests.builders import node, pod, run, stream, volcano

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(command.name or "" for command in app.registered_commands)
TYPES = re.compile(r"<\w+>|list\[|\[\[|\{")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_shows_types_of_python(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "-h"]).stdout

    assert shown.startswith("Usage: ")
    assert TYPES.findall(shown) == []


@pytest.mark.parametrize(
    "command", ["audit", "explain", "pending", "top", "translate", "whatif", "who"]
)
def test_the_help_has_an_example_and_the_exit_status(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "-h"]).stdout

    assert f"Example: dragoman {command}" in shown
    assert "Exit status: 0" in shown


@pytest.mark.parametrize(
    ("words", "completed"),
    [("dragoman au", "audit"), ("dragoman top na", "namespaces"), ("dragoman top --us", "--used")],
)
def test_a_shell_completes_commands_arguments_and_options(words: str, completed: str) -> None:
    """By the protocol of the script that ``dragoman --install-completion`` installs in bash."""
    protocol = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_DRAGOMAN_COMPLETE": "complete_bash",
    }

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['dragoman']; from adapters.cli.main import main; main()",
        ],
        env=os.environ | protocol,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert done.stdout.split() == [completed]


def test_kubectl_finds_the_command_as_a_plugin() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-dragoman"] == scripts["dragoman"]

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['/usr/bin/kubectl-dragoman', 'top', '-h'];"
            " from adapters.cli.main import main; main()",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert done.stdout.startswith("Usage: kubectl dragoman top [OPTIONS]")


def test_the_krew_manifest_is_complete() -> None:
    """The checks are krew's. Source: sigs.k8s.io/krew internal/index/validation/validate.go."""
    plain = yaml.safe_load((ROOT / "configs" / "krew" / "dragoman.yaml").read_text())

    assert (plain["kind"], plain["metadata"]["name"]) == ("Plugin", "dragoman")
    assert len(plain["spec"]["shortDescription"]) <= 50
    (platform,) = plain["spec"]["platforms"]
    assert platform["bin"] == "kubectl-dragoman"
    assert {"uri", "sha256", "selector"} <= platform.keys()


def test_a_table_for_another_program_never_wraps() -> None:
    pods = [pod(f"a-pod-with-a-name-that-is-long-{number}", volcano(99999)) for number in range(2)]
    name = "a-node-with-a-very-long-name-that-fills-half-of-a-usual-terminal-on-its-own"

    shown = run("-f", "-", stdin=stream(node(name), *pods)).stdout

    assert f"    {name}: 2 of 2 cards: memory 89999 MiB short" in shown.splitlines()
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
