"""A room for an engine: namespaces, control groups and a network of its own.

    python -m e2e.kind.room FOLDER ROOT DATA COMMAND...

FOLDER is a run's, seen inside under its own path, ROOT a Debian root, which is not changed, DATA
what the command keeps below ``/var/lib/docker``. All of it ends with the first process; the
machine's mounts, interfaces and packet filter are not touched.
"""

import os
import sys
from pathlib import Path

from e2e.harness.processes import cgroups

SCRIPT = Path(__file__).with_name("room.sh")
NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--propagation=private")


def main(words: list[str]) -> None:
    """Join control groups of the run, then become the first process of new namespaces."""
    folder = Path(words[0])
    for group in cgroups.enter(folder):
        (group / "cgroup.procs").write_text(str(os.getpid()))
    first = ["unshare", *NAMESPACES, "--fork", "--kill-child=KILL", "--", "bash", str(SCRIPT)]
    os.execvp(first[0], [*first, *words])  # noqa: S606 - it becomes that process


if __name__ == "__main__":
    main(sys.argv[1:])
