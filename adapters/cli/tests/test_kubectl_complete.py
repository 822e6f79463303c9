"""Completion below kubectl, by the protocol of its plugins."""

import os
import subprocess
import sys

import pytest

RUN = "from adapters.cli.main import complete; complete()"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["au"], ["audit", ":4"]),
        (["top", "na"], ["namespaces", ":4"]),
        (["top", ""], ["nodes", "cards", "pods", "namespaces", ":4"]),
        (["top", "--so"], ["--sort", "--sort-by", ":4"]),
        (["audit", "-f", ""], [":0"]),
    ],
)
def test_kubectl_gets_words_and_a_directive(words: list[str], answer: list[str]) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RUN, *words],
        capture_output=True, text=True, check=True, env={**os.environ},
    )  # fmt: skip

    assert done.stdout.splitlines() == answer
    assert done.stderr == ""
