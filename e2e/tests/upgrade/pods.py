"""What runs on a cluster before it changes from the peers to Dragoman: nodes, pods, records."""

from collections.abc import Mapping

from e2e.harness.names import CORE, RATIO
from e2e.harness.schedulers.stock_sharing import CARD, HANDSHAKE
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import (
    Described,
    DialectRecords,
    described,
    gpus,
    koordinator,
    metax,
    volcano,
)

CORES = "volcano.sh/vgpu-cores"
SGPU, VCORE, VMEMORY = (f"metax-tech.com/{word}" for word in ("sgpu", "vcore", "vmemory"))
HINT = "scheduling.koordinator.sh/device-allocate-hint"
WHOLE = str(CARD)
OF_VOLCANO = ("gpu-v", "gpu-lost", "gpu-h", "gpu-p")
VOLCANO_PODS: Mapping[str, tuple[str, dict[str, str]]] = {
    "v-share": ("gpu-v", {NUMBER: "1", MEMORY: "4000", CORES: "20"}),
    "v-memory-0": ("gpu-v", {NUMBER: "1", MEMORY: "0"}),
    "v-number-0": ("gpu-v", {NUMBER: "0"}),
    "v-lost": ("gpu-lost", {NUMBER: "1", MEMORY: "4000"}),
}
KOORD_PODS: Mapping[str, tuple[str, dict[str, str]]] = {
    "k-half": ("gpu-k", {CORE: "50", RATIO: "50"}),
    "k-whole": ("gpu-k", {CORE: "100", RATIO: "100"}),
    "k-hint": ("gpu-k", {CORE: "50", RATIO: "50"}),
}
# What HAMi v2.10.0 writes, by its own sources: its scheduler is not in the test bed.
HAMI_PODS: Mapping[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "m-share": (
        "gpu-m",
        {SGPU: "1", VCORE: "60", VMEMORY: "4"},
        {
            "hami.io/metax-sgpu-devices-allocated": "GPU-gpu-m-0,Metax-SGPU,4096,60:;",
            "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-gpu-m-0","compute":60,'
            '"vRam":4096}]]',
        },
    ),
    "m-vcore-0": (
        "gpu-m",
        {SGPU: "1", VCORE: "0", VMEMORY: "8"},
        {
            "hami.io/metax-sgpu-devices-allocated": "GPU-gpu-m-0,Metax-SGPU,8192,0:;",
            "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-gpu-m-0","vRam":8192}]]',
        },
    ),
    "m-without-vcore": (
        "gpu-m",
        {SGPU: "1"},
        {"hami.io/metax-sgpu-devices-allocated": "GPU-gpu-m-1,Metax-SGPU,81920,100:;"},
    ),
    "h-nvidia": (
        "gpu-h",
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        {"hami.io/vgpu-devices-allocated": "GPU-gpu-h-1,NVIDIA,3000,30:;"},
    ),
    "p-plain": ("gpu-p", {"nvidia.com/gpu": "1"}, {}),
}
BEFORE = (*VOLCANO_PODS, *KOORD_PODS, *HAMI_PODS)


def nodes() -> list[Described]:
    counts = {"gpu-v": 3, "gpu-lost": 2, "gpu-h": 2, "gpu-p": 2}
    handshake = DialectRecords(annotations=HANDSHAKE)
    return [
        *(described(name, volcano(gpus(name, n)), handshake) for name, n in counts.items()),
        described("gpu-m", metax(gpus("gpu-m", 3))),
        described("gpu-k", koordinator(gpus("gpu-k", 4))),
    ]
