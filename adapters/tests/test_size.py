"""``make size`` counts, and traces its walks."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_figure_is_counted_and_every_walk_is_traced() -> None:
    words = [sys.executable, ".ci/size.py"]

    ended = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603

    assert ended.stderr == ""
    rows = {line[:40].strip(): line[40:50].strip() for line in ended.stdout.splitlines()}
    assert len(rows) == 11
    assert all(figure.replace(",", "").isdigit() for figure in rows.values()), rows
