"""The environment and mounts that set HAMi-core's limits.

Source: HAMi-core src/multiprocess/multiprocess_memory_limit.c:95-213. A limit with a card's number
overrides the one without; 0 and absence mean no limit; numbers without a suffix are bytes.
"""

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from adapters.agent.injection.plan import AdjustmentPlan
from adapters.agent.injection.profiles import HamiCore, Preload
from adapters.agent.nri.model import Mount, NriContainer, names_and_values
from core.hardware.quantity import MIB
from core.requests.limits import CardLimit, GrantError

MEMORY = "CUDA_DEVICE_MEMORY_LIMIT"
COMPUTE = "CUDA_DEVICE_SM_LIMIT"
CACHE = "CUDA_DEVICE_MEMORY_SHARED_CACHE"
ORDER = "CUDA_DEVICE_ORDER"
BY_BUS = "PCI_BUS_ID"
PRELOAD = "LD_PRELOAD"

LIBRARY = "/usr/local/vgpu/libvgpu.so"
"""Where the library looks for itself in the container."""

PRELOAD_FILE = "/etc/ld.so.preload"

NEUTRAL = {
    "ACTIVE_OOM_KILLER": "true",
    "CUDA_DISABLE_CONTROL": "false",
    "CUDA_REDIRECT": "",
    "GPU_CORE_UTILIZATION_POLICY": "default",
}
"""Variables by which a container weakens or avoids its limits, with the values that do not.
Source: HAMi-core 8f3a89c src/multiprocess/multiprocess_memory_limit.c:1029-1055, src/libvgpu.c:95;
CUDA_DISABLE_CONTROL is read by HAMi's device plugin and by earlier libraries."""

OVERRIDE = "overrideEnv"
"""A file in the root whose lines the library reads after the environment."""

UNENFORCED = {"c0f9da6": "2.6", "3506e62": "2.7"}
"""Commits of the library that limit nothing where ``CUDA_VISIBLE_DEVICES`` leaves out one of
several cards, with HAMi's releases; Volcano's device plugin 1.11 has the second one. Seen by
running eight commits on stand-ins of the driver (28 November 2026)."""

_COMMIT = re.compile(rb"GIT_HASH_([0-9a-f]{7})")
"""A symbol of the library (HAMi-core CMakeLists.txt and src/static_config.h.in)."""

MAX_CARDS = 16
"""The library's arrays are that long (src/multiprocess/multiprocess_memory_limit.h:59)."""

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def limit_env(cards: Sequence[CardLimit]) -> dict[str, str]:
    """Set the limits of the cards, in the order in which the container numbers them.

    Each card has a limit of memory, also where it is all of the card: ``cuDeviceTotalMem`` is the
    limit in every version of the library, 0 bytes where none is set (src/cuda/device.c).

    Where all cards have the same limits, they are set with and without the card's number: Volcano's
    device plugin sets the former (volcano-vgpu-device-plugin pkg/plugin/server.go:438-451),
    Koordinator's hook the latter (koordinator pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:77-130).

    Raises:
        GrantError: the container has more cards than the library can limit.
    """
    if len(cards) > MAX_CARDS:
        raise GrantError(f"HAMi-core limits at most {MAX_CARDS} cards, not {len(cards)}")
    env: dict[str, str] = {}
    memories: set[int] = set()
    computes: set[int] = set()
    for number, card in enumerate(cards):
        compute = card.compute if card.compute_limited else 0
        memories.add(card.memory)
        computes.add(compute)
        whole, rest = divmod(card.memory, MIB)
        env[f"{MEMORY}_{number}"] = str(card.memory) if rest else f"{whole}m"
        if compute:
            env[f"{COMPUTE}_{number}"] = str(compute)
    if len(memories) == 1:
        env[MEMORY] = str(*memories)
    if len(computes) == 1 and 0 not in computes:
        env[COMPUTE] = str(*computes)
    if len(cards) > 1:
        env[ORDER] = BY_BUS
    return env


def library_plan(hami: HamiCore, pod: str, container: NriContainer) -> AdjustmentPlan:
    """Return the mounts and variables that load the library.

    Args:
        hami: its paths on this node.
        pod: uid of the pod.
        container: with the ``LD_PRELOAD`` of its image and of earlier plugins.

    Raises:
        GrantError: a name is not usable in a path.
    """
    own = cache_dir_name(pod, container.name)
    cache = f"{hami.caches}/{own}"
    names = (variable.partition("=")[0] for variable in container.env)
    neutralized = {name: NEUTRAL[name] for name in names if name in NEUTRAL}
    env = {CACHE: f"{hami.cache}/{own}.cache", **neutralized}
    mounts = [
        Mount(LIBRARY, "bind", hami.library, ("rbind", "ro")),
        Mount(hami.cache, "bind", cache, ("rbind", "rw")),
        Mount("/tmp/vgpulock", "bind", hami.lock, ("rbind", "rw")),  # noqa: S108
    ]
    if hami.preload is Preload.FILE:
        mounts.append(Mount(PRELOAD_FILE, "bind", hami.preload_file, ("rbind", "ro")))
    else:
        so_far = re.split(r"[:\s]+", names_and_values(container.env).get(PRELOAD, ""))
        env[PRELOAD] = ":".join((LIBRARY, *[name for name in so_far if name and name != LIBRARY]))
    return AdjustmentPlan(env, tuple(mounts), shared_dirs=(hami.lock,), scratch_dir=cache)


def unenforced_release(library: str) -> str:
    """Return the release of a library on the host that is in ``UNENFORCED``; empty for others."""
    try:
        status = os.stat(library)  # noqa: PTH116
        return _unenforced(library, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        return ""


@lru_cache(4)
def _unenforced(library: str, *_version: int) -> str:
    commit = _COMMIT.search(Path(library).read_bytes())
    return "" if commit is None else UNENFORCED.get(commit[1].decode(), "")


def cache_dir_name(pod: str, container: str) -> str:
    """Return the name of a container's own folder, from which the monitor reads pod and container.

    Raises:
        GrantError: a name is not usable in a path.
    """
    for name in (pod, container):
        if not _SAFE.fullmatch(name):
            raise GrantError(f"{name!r} is not usable in the name of a folder")
    return f"{pod}_{container}"
