"""The environment and mounts by which HAMi-core learns its bounds.

Source: HAMi-core src/multiprocess/multiprocess_memory_limit.c:95-213. A bound with a card's number
goes before the one without; 0 and absence mean none; numbers without a suffix are bytes.
"""

import re
from collections.abc import Sequence

from adapters.node.hook.plan import AdjustmentPlan
from adapters.node.hook.profiles import HamiCore, Preload
from adapters.node.nri.model import Mount, NriContainer, names_and_values
from core.hardware.quantity import MIB
from core.requests.limits import CardLimit, GrantError

MEMORY = "CUDA_DEVICE_MEMORY_LIMIT"
COMPUTE = "CUDA_DEVICE_SM_LIMIT"
CACHE = "CUDA_DEVICE_MEMORY_SHARED_CACHE"
ORDER = "CUDA_DEVICE_ORDER"
BY_BUS = "PCI_BUS_ID"
PRELOAD = "LD_PRELOAD"

LIBRARY = "/usr/local/vgpu/libvgpu.so"
"""Where the library looks for itself, inside."""

PRELOAD_FILE = "/etc/ld.so.preload"

MOST_CARDS = 16
"""The library has no room for more (src/multiprocess/multiprocess_memory_limit.h:59)."""

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def bounds(cards: Sequence[CardLimit]) -> dict[str, str]:
    """The bounds of the cards, which the container counts in this order.

    With and without the card's number where all are alike, because Volcano's node side sets the
    one (volcano-vgpu-device-plugin pkg/plugin/server.go:438-451) and Koordinator's the other
    (koordinator pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:77-130).

    Raises:
        GrantError: there are more cards than the library can bound.
    """
    if len(cards) > MOST_CARDS:
        raise GrantError(f"HAMi-core bounds {MOST_CARDS} cards at most, not {len(cards)}")
    env: dict[str, str] = {}
    memories: set[int] = set()
    computes: set[int] = set()
    for place, card in enumerate(cards):
        memory = card.memory if card.memory_limited else 0
        compute = card.compute if card.compute_limited else 0
        memories.add(memory)
        computes.add(compute)
        if memory:
            env[f"{MEMORY}_{place}"] = _amount(memory)
        if compute:
            env[f"{COMPUTE}_{place}"] = str(compute)
    if len(memories) == 1 and 0 not in memories:
        env[MEMORY] = str(*memories)
    if len(computes) == 1 and 0 not in computes:
        env[COMPUTE] = str(*computes)
    if len(memories) > 1 or len(computes) > 1:
        env[ORDER] = BY_BUS
    return env


def preloaded(hami: HamiCore, pod: str, container: NriContainer) -> AdjustmentPlan:
    """What the library itself needs.

    Args:
        hami: where it is on this node.
        pod: uid of the pod.
        container: with the ``LD_PRELOAD`` that it has so far.

    Raises:
        GrantError: the names cannot be used in a path.
    """
    own = folder(pod, container.name)
    cache = f"{hami.caches}/{own}"
    env = {CACHE: f"{hami.cache}/{own}.cache"}
    mounts = [
        Mount(LIBRARY, "bind", hami.library, ("rbind", "ro")),
        Mount(hami.cache, "bind", cache, ("rbind", "rw")),
        Mount("/tmp/vgpulock", "bind", hami.lock, ("rbind", "rw")),  # noqa: S108
    ]
    if hami.preload is Preload.FILE:
        mounts.append(Mount(PRELOAD_FILE, "bind", hami.preload_file, ("rbind", "ro")))
    else:
        so_far = names_and_values(container.env).get(PRELOAD, "")
        env[PRELOAD] = _before(LIBRARY, so_far)
    return AdjustmentPlan(env, tuple(mounts), folders=(hami.lock,), scratch_dirs=cache)


def folder(pod: str, container: str) -> str:
    """The name of a container's own folder, by which the monitor finds pod and container again.

    Raises:
        GrantError: the names cannot be used in a path.
    """
    for name in (pod, container):
        if not _SAFE.fullmatch(name):
            raise GrantError(f"{name!r} cannot be the name of a folder")
    return f"{pod}_{container}"


def _amount(memory: int) -> str:
    return str(memory) if memory % MIB else f"{memory // MIB}m"


def _before(library: str, preload: str) -> str:
    others = [name for name in re.split(r"[:\s]+", preload) if name and name != library]
    return ":".join((library, *others))
