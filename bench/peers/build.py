"""Builds the programs that have a peer's plugin in them, with the test bed's pins of its modules.

A program's source is beside this file; its module is the test bed's, where the compiler sees it by
an overlay. So there is one pin of each peer, and the test bed's cache holds the result.
"""

import json
import os
import subprocess
from pathlib import Path

from e2e.testbed.cache import root
from e2e.testbed.golang import BuildError, go
from e2e.testbed.versions import HERE

SOURCES = Path(__file__).parent
PACKAGE = "peer"


def built(name: str) -> Path:
    """The program of a peer; the compiler's own cache makes the second time fast.

    Args:
        name: of the component of the test bed, such as ``volcano``.

    Raises:
        BuildError: with the last lines that the compiler wrote.
    """
    folder = root() / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    module, target = HERE / name, folder / name
    overlay = folder / f"{name}.json"
    seen = module / PACKAGE / "main.go"
    overlay.write_text(json.dumps({"Replace": {str(seen): str(SOURCES / name / "main.go")}}))
    words = [go(), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    words += ["-overlay", str(overlay), "-o", str(target), f"./{PACKAGE}"]
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"}
    done = subprocess.run(  # noqa: S603
        words, cwd=module, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{name}: " + "\n".join(done.stderr.splitlines()[-8:]))
    return target
