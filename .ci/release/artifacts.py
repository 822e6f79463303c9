"""Builds the artifacts of a release, each by the tool of its kind."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from version import ROOT

PLATFORMS = "linux/amd64,linux/arm64"
IMAGES = ("service", "node")


class ReleaseError(RuntimeError):
    """A tool is missing or failed."""


def run(*words: str | Path, epoch: int, cwd: Path = ROOT) -> None:
    """Run a tool, with the time that its output states.

    Raises:
        ReleaseError: it failed.
    """
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    done = subprocess.run(words, cwd=cwd, env=environment, check=False)  # noqa: S603
    if done.returncode:
        raise ReleaseError(f"{words[0]} ended with status {done.returncode}")


def distributions(folder: Path, epoch: int) -> Path:
    """The wheel and the sdist; the wheel's path."""
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, epoch=epoch)
    (wheel,) = folder.glob("*.whl")
    return wheel


def single_file(folder: Path, wheel: Path, version: str, epoch: int) -> Path:
    """The command with everything that it imports, for the Python and platform that build it.

    The packages are those of ``.venv``, which make installed from the lock with its hashes.

    Returns:
        its path.
    """
    platform = sysconfig.get_platform().replace("-", "_")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    made = folder / f"dragoman-{version}-{python}-{platform}.pex"
    with tempfile.TemporaryDirectory() as name:
        with zipfile.ZipFile(wheel) as content:
            content.extractall(name)
        words = ("--venv-repository", ROOT / ".venv", "-r", ROOT / "requirements" / "run.txt")
        entry = ("--sources-directory", name, "--entry-point", "dragoman.start:command")
        run(sys.executable, "-m", "pex", *words, *entry, "--output-file", made, epoch=epoch)
    return made


def chart(folder: Path, epoch: int, project: str = "") -> None:
    """The chart's package, by the helm of the path or of the test bed.

    Args:
        folder: in which it is put.
        epoch: the time that it states.
        project: address of the project, its ``home`` and ``sources``; empty for none.

    Raises:
        ReleaseError: there is no helm.
    """
    with tempfile.TemporaryDirectory() as name:
        copied = shutil.copytree(ROOT / "charts" / "dragoman", Path(name) / "dragoman")
        if project:
            with (copied / "Chart.yaml").open("a") as file:
                file.write(f"home: {project}\nsources: [{project}]\n")
        run(_helm(), "package", copied, "--destination", folder, epoch=epoch)


def images(folder: Path, version: str, epoch: int) -> None:
    """One OCI archive for each image, for all platforms.

    Raises:
        ReleaseError: no engine with buildx answers, or a build failed.
    """
    if why := without_engine():
        raise ReleaseError(why)
    for target in IMAGES:
        archive = folder / f"dragoman-{target}-{version}.oci.tar"
        words = (
            "--platform",
            PLATFORMS,
            "--target",
            target,
            "--output",
            f"type=oci,dest={archive}",
        )
        run("docker", "buildx", "build", *words, ".", epoch=epoch)


def without_engine() -> str:
    """Why no image can be built here; empty where an engine with buildx answers."""
    for words in (("docker", "version"), ("docker", "buildx", "version")):
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        except FileNotFoundError:
            return "docker is not installed"
        if done.returncode:
            return f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}"
    return ""


def _helm() -> str | Path:
    from e2e.testbed import cache
    from e2e.testbed.cache import NotBuiltError

    found = shutil.which("helm")
    try:
        return found or cache.binary("helm", "helm")
    except NotBuiltError:
        raise ReleaseError("helm is not installed; install it, or run make testbed") from None
