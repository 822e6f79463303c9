"""What the documentation's ``docker build`` needs: the base image that our Dockerfile names."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.kind import images
from e2e.kind.engine import Engine

BASE = "python:3.11-slim-bookworm"
HERE = Path(__file__).parent / "product"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


def name() -> str:
    """The name of the image that our own engine has under the base image's name."""
    root = images.debian_name("python")
    return f"{images.PREFIX}/python:{images.digest(root, HERE / 'Dockerfile', TRUSTED)}"


def provide_base(engine: Engine) -> None:
    """Give our own engine Debian's Python under the base image's name; others fetch it.

    Raises:
        EngineError: it cannot be built.
    """
    if not engine.own:
        return
    root, image = images.debian(engine, "python"), name()
    if not engine.has(image):
        with TemporaryDirectory(prefix="dragoman-kind-") as context:
            shutil.copy2(TRUSTED, Path(context) / TRUSTED.name)
            engine.docker(
                *("build", f"--file={HERE / 'Dockerfile'}", f"--build-arg=ROOT={root}"),
                *(f"--tag={image}", context),
            )
    engine.docker("tag", image, BASE)
