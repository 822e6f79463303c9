"""Starts the command of the kubectl plugin: ``python3 -I start.py command|completion WORD...``.

``packages.tar.xz`` beside this file has the packages for several Pythons. At the first start, those
for the running one are unpacked: beside this file, else, where it may not be written, into the
user's cache.
"""

import os
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCHIVE = HERE / "packages.tar.xz"
TAG = re.compile(r"\.cpython-(\d+)-")
MINE = f"{sys.version_info.major}{sys.version_info.minor}"
OTHERS = ("serve", "demo", "node", "mover")
"""Commands that start programs, whose packages the archive does not have."""
ADVICE = "install dragoman for it"
FAILED = 2


def packages() -> Path:
    """The folder with the packages for this Python, unpacked now where it does not exist.

    Raises:
        OSError: no folder can be written.
    """
    name = f"{(HERE / 'packages.sha256').read_text().strip()[:16]}-cp{MINE}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
    folders = [HERE / name, cache / name]
    for folder in folders:
        if folder.is_dir():
            return folder
    problem: OSError | None = None
    for folder in folders:
        try:
            _unpack(folder)
        except OSError as error:
            problem = error
        else:
            return folder
    raise problem or OSError("no folder")


def _unpack(folder: Path) -> None:
    """Unpack what this Python needs; the folder appears when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        with tarfile.open(ARCHIVE, "r:xz") as content:
            if hasattr(tarfile, "data_filter"):  # from 3.11.4 on
                content.extraction_filter = tarfile.data_filter
            for member in content:
                tag = TAG.search(member.name)
                if tag is None or tag[1] == MINE:
                    content.extract(member, made)
        made.chmod(0o755)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def main() -> None:
    """Unpack where needed, and start."""
    entry, *words = sys.argv[1:]
    if words[:1] and words[0] in OTHERS:
        sys.stderr.write(f"kubectl-dragoman: {words[0]} is no command of the plugin; {ADVICE}\n")
        raise SystemExit(FAILED)
    try:
        folder = packages()
    except (OSError, ImportError, tarfile.TarError) as error:
        sys.stderr.write(f"kubectl-dragoman: its packages cannot be unpacked: {error}\n")
        raise SystemExit(FAILED) from None
    sys.path.insert(0, str(folder))
    sys.argv = ["kubectl-dragoman", *words]
    from dragoman import start

    getattr(start, entry)()


if __name__ == "__main__":
    main()
