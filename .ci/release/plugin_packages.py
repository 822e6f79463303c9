"""The packages of the kubectl plugin: wheels of one platform for several Pythons, in one archive.

The wheels of a package for several Pythons differ in their compiled modules alone, whose names have
the Python's tag, so that one folder has room for all of them. xz finds what they have in common;
gzip, the only compression that krew knows, does not (40 MB in place of 20).
"""

import io
import lzma
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Every package of the lock has wheels for each of them."""

SERVICE_ONLY = frozenset(
    {
        "cffi", "cryptography", "grpcio", "grpcio-health-checking", "grpcio-reflection",
        "httptools", "protobuf", "pycparser", "uvicorn", "uvloop",
    }
)  # fmt: skip
"""Packages of the lock that only ``serve`` and ``demo`` import, which the plugin does not have."""

_WINDOWS = frozenset({"colorama"})
_DICTIONARY = 64 << 20
"""Bytes in which xz finds repetitions: a compiled module and its equals for the other Pythons."""

_UNUSED = re.compile(
    r"/tests?/|\.(?:a|lib|h|c|cc|pyi|pxd|pyx)$|\.dist-info/(?!METADATA$|licenses/|LICENSE)"
    r"|^numpy/(?:f2py|random|fft|testing|ma|polynomial|ctypeslib|distutils|_pyinstaller)/"
    r"|_simd\.cpython|_(?:multiarray|umath|operand_flag|rational|struct_ufunc)_tests\.cpython"
    r"|^kubernetes/aio/"
)
"""What the command imports nothing of."""


class PackagesError(RuntimeError):
    """The packages cannot be downloaded, or do not fit into one folder."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform, by the words of Go, which krew compares.

    Attributes:
        os: such as ``linux``.
        cpu: such as ``amd64``.
        tags: of wheels that run there, as pip names them.
    """

    os: str
    cpu: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as ``linux-amd64``."""
        return f"{self.os}-{self.cpu}"


def _linux(machine: str) -> tuple[str, ...]:
    """Wheels for glibc from 2.28 on, which Debian 10 and RHEL 8 have."""
    old = ("manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_26")
    return tuple(f"{each}_{machine}" for each in (*old, "manylinux_2_27", "manylinux_2_28"))


PLATFORMS = (
    Platform("linux", "amd64", _linux("x86_64")),
    Platform("linux", "arm64", _linux("aarch64")),
    Platform(
        "darwin", "amd64", ("macosx_10_9_x86_64", "macosx_10_13_x86_64", "macosx_11_0_x86_64")
    ),
    Platform("darwin", "arm64", ("macosx_11_0_arm64",)),
)


def download(lock: Path, platform: Platform, pythons: Iterable[str], folder: Path) -> list[Path]:
    """The wheels of a lock, by pip and with the lock's hashes.

    Raises:
        PackagesError: one of them has no such wheel, or cannot be reached.
    """
    pins = folder / "plugin.txt"
    pins.write_text("\n".join(requirements(lock.read_text())))
    for python in pythons:
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        words += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--implementation=cp"]
        words += [f"--platform={tag}" for tag in platform.tags]
        words += [f"--python-version={python}", "-d", str(folder), "-r", str(pins)]
        print(f"packages of {platform.name} for Python {python}", flush=True)
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            why = done.stderr.strip() or done.stdout.strip()
            raise PackagesError(f"packages of {platform.name} for Python {python}: {why}")
    return sorted(folder.glob("*.whl"))


def requirements(lock: str) -> Iterator[str]:
    """The requirements of a lock that the plugin needs, without markers, the first of each package.

    The lock has two versions of a package of which the newer one does not run on the oldest Python;
    the older one, which comes first, runs on all of them.
    """
    seen: set[str] = set()
    for block in re.findall(r"^\S+==(?:.*\\\n)+.*", lock, re.MULTILINE):
        name = block.partition("==")[0]
        if name not in SERVICE_ONLY | _WINDOWS | seen:
            seen.add(name)
            yield re.sub(r" ; [^\\]+", " ", block, count=1)


def merged(wheels: Iterable[Path]) -> dict[str, bytes]:
    """The files of some wheels, as they are in one folder.

    Raises:
        PackagesError: two of them have different files of one name, and Python would import one.
    """
    found: dict[str, bytes] = {}
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith("/") or _UNUSED.search(name):
                    continue
                content = wheel.read(name)
                # numpy states in it how each wheel was built; nothing reads that.
                if found.setdefault(name, content) != content and name != "numpy/__config__.py":
                    raise PackagesError(f"{path.name} has another {name}")
    return found


def packed(files: dict[str, bytes], epoch: int) -> bytes:
    """A tar archive as xz, with files of one name side by side; the same in every build."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name in sorted(files, key=lambda name: (name.rpartition("/")[2].split(".")[0], name)):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(files[name]), 0o644, epoch
            tar.addfile(member, io.BytesIO(files[name]))
    chain = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": _DICTIONARY}]
    return lzma.compress(plain.getvalue(), format=lzma.FORMAT_XZ, filters=chain)
