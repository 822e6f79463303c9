"""The kubectl plugin for krew: an archive of the command as one file, and its manifest."""

import gzip
import hashlib
import io
import platform
import sys
import tarfile
from pathlib import Path

from version import ROOT

MANIFEST = "krew-dragoman.yaml"
_TEMPLATE = ROOT / "configs" / "krew" / "dragoman.yaml"
# Go's names, which krew compares: sigs.k8s.io/krew internal/installation/platform.go.
_CPUS = {"x86_64": "amd64", "aarch64": "arm64"}

COMPLETION = """#!/bin/sh
# kubectl calls this to complete "kubectl dragoman"; a pex runs another entry point of its own.
PEX_MODULE=dragoman.start:completion exec kubectl-dragoman "$@"
"""


def plugin(folder: Path, command: Path, version: str, epoch: int, url: str = "") -> None:
    """Write the archive and the manifest.

    Args:
        folder: gets both.
        command: as one file, for the Python and platform that run this.
        version: of the command.
        epoch: time of all files of the archive, seconds since 1970.
        url: of the folder from which the archive will be downloaded; empty where it is not known
            yet: then the manifest has the archive's name, and is installed with ``--archive``.
    """
    machine = platform.machine()
    system, cpu = platform.system().lower(), _CPUS.get(machine, machine)
    archive = folder / f"kubectl-dragoman-{version}-{system}-{cpu}.tar.gz"
    archive.write_bytes(_archive(command, epoch))
    filled = {
        "VERSION": f"v{version}",
        "PYTHON": f"{sys.version_info.major}.{sys.version_info.minor}",
        "ARCHIVE_OS": system,
        "ARCHIVE_CPU": cpu,
        "ARCHIVE_URL": f"{url.rstrip('/')}/{archive.name}" if url else archive.name,
        "ARCHIVE_SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = _TEMPLATE.read_text().partition("apiVersion:")
    manifest = "".join(text[1:])
    for name, value in filled.items():
        manifest = manifest.replace(name, value)
    (folder / MANIFEST).write_text(manifest)


def _archive(command: Path, epoch: int) -> bytes:
    """Return the archive; the same files and time give the same bytes."""
    contents = {
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        "kubectl-dragoman": (command.read_bytes(), 0o755),
        "kubectl_complete-dragoman": (COMPLETION.encode(), 0o755),
    }
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, (content, mode) in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), mode, epoch
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=epoch)
