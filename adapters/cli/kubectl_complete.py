"""``kubectl_complete-dragoman``: completes ``kubectl dragoman``.

kubectl calls the program of this name with the words after ``kubectl dragoman``; the last one is to
be completed. The answer has a word on each line; its last line is a sum of directives. Source:
k8s.io/kubectl pkg/cmd/plugin/plugin_completion.go, spf13/cobra completions.go (ShellCompDirective).
"""

import io
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress

from adapters.cli.main import app

NO_FILES = ":4"
"""ShellCompDirectiveNoFileComp: do not offer the names of files."""

DEFAULT = ":0"
"""ShellCompDirectiveDefault: offer the names of files."""


def main() -> None:
    """Answer kubectl."""
    sys.stdout.write(answer(sys.argv[1:]))


def answer(words: Sequence[str]) -> str:
    """Return the answer, by the protocol of the completion of bash.

    Args:
        words: after ``kubectl dragoman``; the last one is incomplete, and may be empty.
    """
    *done, incomplete = words or ("",)
    os.environ["_DRAGOMAN_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join(["dragoman", *done, *filter(None, (incomplete,))])
    os.environ["COMP_CWORD"] = str(len(done) + 1)
    found = io.StringIO()
    with redirect_stdout(found), suppress(SystemExit):
        app(prog_name="dragoman")
    lines = found.getvalue().split()
    return "\n".join([*lines, NO_FILES if lines else DEFAULT]) + "\n"
