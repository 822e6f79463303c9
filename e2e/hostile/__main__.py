"""``python -m e2e.hostile MINUTES [SEED]``: one line at the end, status 1 if it was not clean."""

import sys
import tempfile
from pathlib import Path

from e2e.hostile.run import Plan, run


def main(minutes: float, seed: int = 1) -> int:
    """Attack for ``minutes`` minutes, a quarter of it, at most ten, to warm up."""
    seconds = minutes * 60
    warm = min(600, seconds / 4)
    settle = min(60, max(seconds / 20, 1))
    plan = Plan(seconds - warm - 2 * settle, warm, settle, seed)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        result = run(Path(folder), plan, lambda line: print(line, file=sys.stderr, flush=True))
        if result.faults:
            text = (Path(folder) / "log").read_text(errors="replace")
            print(*text[-20_000:].splitlines()[-20:], sep="\n", file=sys.stderr)
    print(result.line())
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *map(int, sys.argv[2:3])))
