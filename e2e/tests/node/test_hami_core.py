"""HAMi-core itself on a real card: it reads its bounds as the agent writes them.

Needs a card, its driver and the library: HAMi-core is C, is built with CUDA's headers, and is in no
package that the test bed could take it from. ``DRAGOMAN_HAMI_CORE`` says where a built one is.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.agent.injection import hami_core as hami
from adapters.agent.metrics.hami_region import read
from core.hardware.quantity import GIB
from core.requests.limits import CardLimit

LIBRARY = Path(os.environ.get("DRAGOMAN_HAMI_CORE", hami.LIBRARY))
CARD = Path("/dev/nvidia0")
DRIVER = "libcuda.so.1"

ASK = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *words):
    status = getattr(cuda, name)(*words)
    if status:
        raise SystemExit(f"{name}: {status}")
context, free, total, place = (ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(),
                               ctypes.c_void_p())
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(1 << 28))
more = cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(2 << 30))
print(total.value, more)
"""


def obstacle() -> str:
    """What is missing, in words; empty for nothing."""
    if not CARD.exists():
        return f"{CARD} is not there: this machine has no card"
    if not LIBRARY.is_file():
        return f"{LIBRARY} is not there: DRAGOMAN_HAMI_CORE must name a built libvgpu.so"
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return f"{DRIVER} cannot be loaded: the driver is not installed"
    return ""


@pytest.mark.skipif(bool(obstacle()), reason=obstacle())
def test_hami_core_keeps_to_the_bounds_that_the_agent_writes(tmp_path: Path) -> None:
    half = CardLimit("any", 0, GIB, 50, memory_limited=True, compute_limited=True)
    bounds = hami.limit_env([half])
    cache = tmp_path / "uid_main.cache"
    Path("/tmp/vgpulock").mkdir(mode=0o777, exist_ok=True)
    environment = {hami.CACHE: str(cache), hami.PRELOAD: str(LIBRARY)}

    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | bounds | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    total, refused = done.stdout.split()[-2:]
    assert int(total) == GIB
    assert refused in ("2", "-1")  # CUDA_ERROR_OUT_OF_MEMORY; -1 in HAMi 2.4 and 2.5
    (card,) = read(cache).cards
    assert card.limit == GIB
