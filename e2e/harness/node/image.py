"""A container image without a registry: one static binary, as an OCI archive.

The same image is the pause image and the workload image; its entry point sleeps for ever.
"""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

NAME = "localhost/dragoman/busybox:1"
APPLETS = ("sh", "env", "cat", "ls", "sleep", "true")


def write_image(path: Path, busybox: Path) -> Path:
    """Write the archive that ``ctr images import`` reads.

    Args:
        path: of the archive.
        busybox: a static busybox.
    """
    plain = _layer(busybox)
    layer = gzip.compress(plain, compresslevel=1, mtime=0)
    configuration = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/bin/sleep", "2147483647"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(plain)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", configuration),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer)],
        }
    )
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["annotations"] = {"io.containerd.image.name": NAME}
    entry["platform"] = {"architecture": "amd64", "os": "linux"}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [entry]}),
    }
    for blob in (layer, configuration, manifest):
        files[f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}"] = blob
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            _add(archive, name, content, 0o644)
    return path


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        _add(archive, "bin/busybox", busybox.read_bytes(), 0o755)
        # The guides' commands are bash's; a name that busybox does not know.
        _add(archive, "bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n', 0o755)
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
