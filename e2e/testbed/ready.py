"""Whether the end-to-end tests can run here; if not, why, in one line.

python -m e2e.testbed.ready
"""

import shutil
import sys

from e2e.testbed import cache
from e2e.testbed.versions import components


def obstacle() -> str:
    """Why not, or the empty string. What else is missing, its own tests say."""
    known = components()
    missing = [name for name in ("etcd", "kubernetes") if not cache.is_built(known[name])]
    if not missing:
        return ""
    how = "make testbed builds it" if shutil.which("go") else "which takes Go; none is installed"
    return f"end-to-end tests left out: the test bed is not built, {how}"


if __name__ == "__main__":
    if reason := obstacle():
        print(reason)
        sys.exit(1)
