"""A wall clock of its own for a process, which jumps when a test says so."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.testbed.compiler import c_compiler

_SOURCE = Path(__file__).with_name("shifted_clock.c")


@dataclass(frozen=True, slots=True)
class Clock:
    """One process's wall clock.

    Attributes:
        environment: with which the process must be started.
    """

    environment: dict[str, str]
    _file: Path

    @classmethod
    def create(cls, folder: Path, name: str) -> "Clock":
        """A clock that is right.

        Raises:
            NotBuiltError: there is no C compiler.
        """
        library = folder / "shifted_clock.so"
        compiler = c_compiler("a clock that jumps")
        if not library.exists():
            words = ["-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
            subprocess.run([compiler, *words], check=True)
        clock = cls(
            {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(folder / f"{name}.clock")},
            folder / f"{name}.clock",
        )
        clock.jump(0)
        return clock

    def jump(self, seconds: int) -> None:
        """From now on it is that many seconds fast; slow, where that is negative."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))
