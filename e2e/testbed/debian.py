"""Fetch Debian packages and unpack them, without touching what the machine has installed.

apt works on lists of its own in a folder that is thrown away; where from is taken from the
machine's own sources, and the signatures are checked with its own keyring.
"""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.testbed.golang import BuildError
from e2e.testbed.versions import DebianComponent


@dataclass(frozen=True, slots=True)
class Apt:
    """A package manager with its own lists."""

    options: tuple[str, ...]
    folder: Path

    def fetch(self, component: DebianComponent, target: Path) -> str:
        """Unpack the component's package into a folder, and say its version.

        Raises:
            BuildError: apt could not get it.
        """
        wanted = f"{component.package}/{component.suite}"
        with TemporaryDirectory(dir=self.folder) as debs:
            _call("apt-get", *self.options, "--quiet=2", "download", wanted, cwd=Path(debs))
            (archive,) = Path(debs).glob("*.deb")
            _call("dpkg-deb", "--extract", str(archive), str(target), cwd=target)
            return _call("dpkg-deb", "--field", str(archive), "Version", cwd=target).strip()


@contextmanager
def apt(suites: Iterable[str]) -> Iterator[Apt]:
    """An apt that knows these suites, for the length of a block.

    Raises:
        BuildError: this is no Debian, or the lists could not be fetched.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise BuildError("apt-get and dpkg-deb are not installed")
    archive = mirror()
    with TemporaryDirectory(prefix="dragoman-apt-") as name:
        folder = Path(name)
        for part in ("lists/partial", "archives/partial"):
            (folder / part).mkdir(parents=True)
        lines = [f"deb {archive} {suite} main\n" for suite in sorted(set(suites))]
        (folder / "sources.list").write_text("".join(lines))
        settings = {
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder,
            "Dir::Cache::archives": folder / "archives",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        _call("apt-get", *options, "--quiet=2", "update", cwd=folder)
        yield Apt(options=tuple(options), folder=folder)


def mirror() -> str:
    """Where this machine gets Debian's main archive from."""
    rows = _call(
        "apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)",
        "Created-By: Packages", cwd=Path("/"),
    )  # fmt: skip
    for row in rows.splitlines():
        release, component, address = row.split()
        if component == "main" and "-" not in release and "/debian" in address:
            return address
    raise BuildError("apt's sources name no Debian archive")


def _call(*words: str, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(f"{words[0]} {words[-1]}: " + "\n".join(lines[-4:]))
    return done.stdout
