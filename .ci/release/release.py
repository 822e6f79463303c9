"""Builds everything that a release consists of: ``make release``.

    python .ci/release/release.py FOLDER [--images auto|require|skip] [--url URL] [--project URL]
        [--plugins all|PLATFORM,...] [--pythons 3.11,...]

The folder is emptied first. The same commit, lock and Python give the same wheel, sdist and bills.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import artifacts
import krew
from artifacts import ReleaseError
from bill import bill
from changes import ChangesError, changes
from plugin_packages import PYTHONS, PackagesError
from version import ROOT, differing, version

SUMS = "SHA256SUMS"
NOTES = "RELEASE-NOTES.md"
BILLS = {"dragoman": "run.txt", "dragoman-node": "node.txt"}
"""By program: the lock that it is installed from."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the release is for.

    Attributes:
        images: ``auto`` builds them where an engine answers, ``require`` or fails, ``skip`` not.
        url: of the folder from which krew downloads the plugin; empty where it is not known.
        project: address of the project, for the chart; empty where it is not known.
        plugins: platforms of the kubectl plugin, or ``all``.
        pythons: on which the plugin runs.
    """

    images: str
    url: str
    project: str
    plugins: str
    pythons: tuple[str, ...]


def build(folder: Path, options: Options) -> None:
    """Build all artifacts and their checksums.

    Args:
        folder: is emptied.
        options: of the release.

    Raises:
        ReleaseError: the checkout is not ready for a release, or a tool failed.
        ChangesError: the version has no section in CHANGELOG.md.
        PackagesError: the plugin's packages cannot be downloaded.
        ValueError: there is no such platform.
    """
    platforms = krew.chosen(options.plugins)
    wrong = [*differing()]
    if wrong:
        raise ReleaseError("another version than pyproject.toml: " + ", ".join(wrong))
    number, epoch = version(), _epoch()
    notes = changes(ROOT / "CHANGELOG.md", number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / NOTES).write_text(notes)
    wheel = artifacts.distributions(folder, epoch)
    artifacts.single_file(folder, wheel, number, epoch)
    krew.plugin(folder, wheel, platforms, options.pythons, epoch, options.url)
    artifacts.chart(folder, epoch, options.project)
    for program, lock in BILLS.items():
        text = bill(
            ROOT / "requirements" / lock, program, number, datetime.fromtimestamp(epoch, UTC)
        )
        (folder / f"{program}-{number}.cdx.json").write_text(text)
    why = artifacts.without_engine() if options.images == "auto" else ""
    if why or options.images == "skip":
        print(f"no images: {why or 'skipped'}")
    else:
        artifacts.images(folder, number, epoch)
    (folder / SUMS).write_text(checksums(folder))


def checksums(folder: Path) -> str:
    """A line for each file, as ``sha256sum --check`` reads it."""
    files = sorted(each for each in folder.iterdir() if each.name != SUMS)
    return "".join(
        f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files
    )


def _epoch() -> int:
    """The time of the commit, which the artifacts state."""
    words = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)  # noqa: S603


def main() -> int:
    """Read the command line and build."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", choices=("auto", "require", "skip"), default="auto")
    parser.add_argument("--url", default="", help="of the published files, for krew's manifest")
    parser.add_argument("--project", default="", help="address of the project, for the chart")
    parser.add_argument("--plugins", default="all", help="platforms of the kubectl plugin")
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="on which the plugin runs")
    given = parser.parse_args()
    folder = given.folder.resolve()
    pythons = tuple(given.pythons.split(","))
    options = Options(given.images, given.url, given.project, given.plugins, pythons)
    try:
        build(folder, options)
    except (ReleaseError, ChangesError, PackagesError, ValueError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size:>12,} {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
