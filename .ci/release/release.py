"""Builds everything that a release consists of: ``make release``.

    python .ci/release/release.py FOLDER [--images auto|require|skip] [--url URL] [--project URL]

The folder is emptied first. The same commit, lock and Python give the same wheel, sdist and bills.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import artifacts
from artifacts import ReleaseError
from bill import bill
from changes import ChangesError, changes
from krew import plugin
from version import ROOT, differing, version

SUMS = "SHA256SUMS"
NOTES = "RELEASE-NOTES.md"
BILLS = {"dragoman": "run.txt", "dragoman-node": "node.txt"}
"""By program: the lock that it is installed from."""


def build(folder: Path, images: str, url: str, project: str) -> None:
    """Build all artifacts and their checksums.

    Args:
        folder: is emptied.
        images: ``auto`` builds them where an engine answers, ``require`` or fails, ``skip`` not.
        url: of the folder from which krew downloads the plugin; empty where it is not known.
        project: address of the project, for the chart; empty where it is not known.

    Raises:
        ReleaseError: the checkout is not ready for a release, or a tool failed.
        ChangesError: the version has no section in CHANGELOG.md.
    """
    wrong = [*differing()]
    if wrong:
        raise ReleaseError("another version than pyproject.toml: " + ", ".join(wrong))
    number, epoch = version(), _epoch()
    notes = changes(ROOT / "CHANGELOG.md", number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / NOTES).write_text(notes)
    wheel = artifacts.distributions(folder, epoch)
    command = artifacts.single_file(folder, wheel, number, epoch)
    plugin(folder, command, number, epoch, url)
    artifacts.chart(folder, epoch, project)
    for program, lock in BILLS.items():
        text = bill(
            ROOT / "requirements" / lock, program, number, datetime.fromtimestamp(epoch, UTC)
        )
        (folder / f"{program}-{number}.cdx.json").write_text(text)
    why = artifacts.without_engine() if images == "auto" else ""
    if why or images == "skip":
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
    options = parser.parse_args()
    folder = options.folder.resolve()
    try:
        build(folder, options.images, options.url, options.project)
    except (ReleaseError, ChangesError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size:>12,} {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
