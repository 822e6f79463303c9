"""The kubectl plugin for krew: an archive for each platform, and the manifest.

An archive has the packages for all Pythons that have wheels of them, and a script that starts the
command on the first of these Pythons that it finds.
"""

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import plugin_packages as packages
from plugin_packages import Platform
from version import ROOT

MANIFEST = "krew-dragoman.yaml"
LARGEST = 25_000_000
"""Bytes of an archive, at most."""

_TEMPLATE = ROOT / "configs" / "krew" / "dragoman.yaml"
_PROGRAMS = Path(__file__).with_name("plugin")


def plugin(
    folder: Path,
    wheel: Path,
    platforms: Sequence[Platform],
    pythons: Sequence[str],
    epoch: int,
    url: str = "",
) -> None:
    """Write the archives and the manifest.

    Args:
        folder: gets them.
        wheel: of the command.
        platforms: of the archives.
        pythons: on which the plugin runs, as ``3.11``.
        epoch: time of all files of the archives, seconds since 1970.
        url: of the folder from which the archives will be downloaded; empty where it is not known
            yet: then the manifest has the archives' names, and is installed with ``--archive``.

    Raises:
        PackagesError: the packages of a platform cannot be downloaded, or are too large.
    """
    version = wheel.name.split("-")[1]
    sums: dict[Platform, tuple[str, str]] = {}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        archives = pool.map(lambda each: _archive(wheel, each, pythons, epoch), platforms)
        for platform, content in zip(platforms, archives, strict=True):
            name = f"kubectl-dragoman-{version}-{platform.name}.tar.gz"
            if len(content) > LARGEST:
                raise packages.PackagesError(
                    f"{name} has {len(content):,} bytes, above {LARGEST:,}"
                )
            (folder / name).write_bytes(content)
            address = f"{url.rstrip('/')}/{name}" if url else name
            sums[platform] = address, hashlib.sha256(content).hexdigest()
    (folder / MANIFEST).write_text(manifest(version, pythons, sums))


def manifest(version: str, pythons: Sequence[str], sums: Mapping[Platform, tuple[str, str]]) -> str:
    """The manifest; ``sums`` has each archive's address and SHA-256."""
    head, _, entry = _TEMPLATE.read_text().partition("  platforms:\n")
    head = "".join(head.partition("apiVersion:")[1:])
    text = head.replace("VERSION", f"v{version}").replace("PYTHONS", span(pythons))
    entries = (
        entry.replace("ARCHIVE_OS", platform.os)
        .replace("ARCHIVE_CPU", platform.cpu)
        .replace("ARCHIVE_URL", address)
        .replace("ARCHIVE_SHA256", digest)
        for platform, (address, digest) in sums.items()
    )
    return f"{text}  platforms:\n{''.join(entries)}"


def span(pythons: Sequence[str]) -> str:
    """Such as ``3.11 to 3.14``."""
    return pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"


def _archive(wheel: Path, platform: Platform, pythons: Sequence[str], epoch: int) -> bytes:
    """An archive; the same wheels, files and time give the same bytes."""
    with tempfile.TemporaryDirectory() as name:
        wheels = packages.download(ROOT / "requirements" / "run.txt", platform, pythons, Path(name))
        print(f"archive of {platform.name}", flush=True)
        content = packages.packed(packages.merged([wheel, *wheels]), epoch)
    starter = (_PROGRAMS / "kubectl-dragoman").read_text()
    numbers = ", ".join(f"({each.replace('.', ', ')})" for each in pythons)
    starter = starter.replace("PYTHONS", f"{numbers},").replace("RANGE", span(pythons))
    starter = starter.replace("NAMES", " ".join(f"python{each}" for each in reversed(pythons)))
    files = {
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        "kubectl-dragoman": (starter.encode(), 0o755),
        "kubectl_complete-dragoman": (
            (_PROGRAMS / "kubectl_complete-dragoman").read_bytes(),
            0o755,
        ),
        "packages.sha256": (hashlib.sha256(content).hexdigest().encode(), 0o644),
        "packages.tar.xz": (content, 0o644),
        "start.py": ((_PROGRAMS / "start.py").read_bytes(), 0o644),
    }
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, (text, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(text), mode, epoch
            tar.addfile(member, io.BytesIO(text))
    return gzip.compress(plain.getvalue(), mtime=epoch)


def chosen(names: str) -> list[Platform]:
    """The platforms of a list such as ``linux-amd64,darwin-arm64``; all for ``all``.

    Raises:
        ValueError: there is no such platform.
    """
    known = {each.name: each for each in packages.PLATFORMS}
    if names == "all":
        return [*known.values()]
    wrong = [each for each in names.split(",") if each not in known]
    if wrong:
        raise ValueError(f"no platform {', '.join(wrong)}; platforms: {', '.join(known)}")
    return [known[each] for each in names.split(",")]
