"""Container images without a registry: from programs of the test bed, and from Debian roots."""

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e.kind.engine import Engine, EngineError
from e2e.testbed import cache
from e2e.testbed.versions import ROOT, components

PREFIX = "localhost/dragoman-e2e"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def digest(*parts: str | bytes | Path) -> str:
    """Name of what is made from these parts; of a path, its content."""
    found = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part
        found.update(
            hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()
        )
    return found.hexdigest()[:16]


def made_of(*names: str) -> list[str]:
    """What parts of the test bed are, in words that change with their content."""
    return [cache.place(components()[name]).name for name in names]


def scratch(
    engine: Engine, image: str, files: Mapping[str, Path | str], entrypoint: Iterable[str] = ()
) -> str:
    """Import an image that contains only these files.

    Args:
        engine: that gets it.
        image: its name.
        files: by their path in the image; a text is where a symbolic link leads.
        entrypoint: the command; none for an image whose users name one.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("dev", "etc", "proc", "run", "sys", "tmp"):
            row = tarfile.TarInfo(name)
            row.type, row.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(row)
        for path, source in sorted(files.items()):
            row = tarfile.TarInfo(path.lstrip("/"))
            if isinstance(source, str):
                row.type, row.linkname = tarfile.SYMTYPE, source
                archive.addfile(row)
                continue
            row.size, row.mode = (
                source.stat().st_size,
                0o755 if os.access(source, os.X_OK) else 0o644,
            )
            with source.open("rb") as file:
                archive.addfile(row, file)
    words = ", ".join(f'"{word}"' for word in entrypoint)
    changes = [f"--change=ENV PATH={PATH}", f"--change=ENTRYPOINT [{words}]"]
    engine.docker("import", *changes, "-", image, content=buffer.getvalue())
    return image


def debian_name(part: str) -> str:
    """Name of the image of a Debian root of the test bed."""
    return f"{PREFIX}/{part}-root:{cache.place(components()[part]).name.rpartition('-')[2]}"


def debian(engine: Engine, part: str) -> str:
    """Import a Debian root of the test bed once, and return the image's name.

    Raises:
        EngineError: it cannot be imported.
    """
    place, image = cache.place(components()[part]), debian_name(part)
    if engine.has(image):
        return image
    words = ["tar", "--create", f"--directory={place / ROOT}", "."]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as archive:
        done = subprocess.run(
            ["docker", "import", f"--change=ENV PATH={PATH}", "-", image],
            stdin=archive.stdout,
            capture_output=True,
            check=False,
            env=engine.environment(),
        )
    if done.returncode or archive.returncode:
        raise EngineError(f"docker import {image}: {done.stderr.decode()[-500:]}")
    return image
