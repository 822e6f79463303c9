"""NVIDIA's library without a card: ``nvml_stand_in.c``, built once."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

from adapters.agent.hardware.nvml import Nvml
from e2e.testbed.compiler import c_compiler

_SOURCE = Path(__file__).with_name("nvml_stand_in.c")


@cache
def built() -> Path:
    """The library, under the name by which the agent opens it.

    Raises:
        NotBuiltError: there is no C compiler.
    """
    compiler = c_compiler("what plays NVIDIA's library")
    target = Path(tempfile.mkdtemp(prefix="nvml-")) / "libnvidia-ml.so.1"
    flags = ("-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    words = [compiler, *flags, "-o", str(target), str(_SOURCE)]
    subprocess.run(words, check=True)  # noqa: S603  # words are our own
    return target


@cache
def _library() -> Any:
    return ctypes.CDLL(str(built()))


def begin(cards: int = 2, *, mig: bool = False) -> Any:
    """The library with ``cards`` new cards."""
    library = _library()
    library.stand_in_begin(cards, int(mig))
    return library


def nvml(library: Any) -> Nvml:
    """Let a library be the driver's, and return the agent's end of it."""
    replace_library(library)
    return Nvml()


def replace_library(library: Any) -> None:
    """Let the binding call a library; None: it opens the driver's own at the next call."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
