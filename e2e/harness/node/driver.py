"""NVIDIA's driver and HAMi-core on a machine without a card: C programs, built at each use."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.hardware.card import Card
from core.hardware.quantity import MIB
from e2e.testbed.compiler import c_compiler

PROGRAM = "/lib64/program"
LOADED_FROM = {"LD_LIBRARY_PATH": "/lib64"}
"""The environment of a container in which ``Driver.folder`` is mounted at ``/lib64``."""

_SOURCES = Path(__file__).parent / "stand_ins"
_FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")
_NEEDED = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True, slots=True)
class Driver:
    """What NVIDIA's container toolkit would mount, and what a program there needs besides.

    Attributes:
        folder: with NVIDIA's two libraries, the program, and the C library.
        hami_core: that one of ``DRAGOMAN_HAMI_CORE``, or else a stand-in.
        real: whether it is HAMi-core itself.
    """

    folder: Path
    hami_core: Path
    real: bool

    @classmethod
    def build(cls, folder: Path, cards: Sequence[Card], multiprocessors: Sequence[int]) -> "Driver":
        """Build it.

        Args:
            folder: a new one.
            cards: of the machine, in the order of their places on the bus.
            multiprocessors: of each card: CUDA counts those with the most first.

        Raises:
            NotBuiltError: there is no C compiler.
        """
        compiler = c_compiler("what plays NVIDIA's driver")
        folder.mkdir()
        (folder / "cards.h").write_text(
            "".join(
                f'{{"{card.uuid}", "{card.model}", {card.memory // MIB}, {each}, '
                f"{0x10 + card.index}, {minor_of(card, cards)}}},\n"
                for card, each in zip(cards, multiprocessors, strict=True)
            )
        )

        def built(source: str, name: str, *flags: str) -> Path:
            words = [compiler, *_FLAGS, f"-I{folder}", *flags, "-o", str(folder / name)]
            subprocess.run([*words, str(_SOURCES / source)], check=True)
            return folder / name

        cuda = built("driver.c", "libcuda.so.1", "-shared", "-fPIC")
        # One file for both: what CUDA allocates, NVML shows.
        (folder / "libnvidia-ml.so.1").symlink_to(cuda.name)
        named = os.environ.get("DRAGOMAN_HAMI_CORE")
        hami_core = Path(named) if named else built("hami_core.c", "hami", "-shared", "-fPIC")
        for each in (built("program.c", Path(PROGRAM).name), hami_core):
            _copy_needed(each, folder)
        return cls(folder, hami_core, bool(named))


def minor_of(card: Card, cards: Sequence[Card]) -> int:
    """The number of a card's device node: not its place on the bus, as on many machines."""
    return len(cards) - 1 - card.index


def _copy_needed(binary: Path, folder: Path) -> None:
    """Copy the libraries that it is linked with, and their loader."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    for path in map(Path, _NEEDED.findall(listed)):
        if not (folder / path.name).exists():
            shutil.copy(path, folder / path.name)
