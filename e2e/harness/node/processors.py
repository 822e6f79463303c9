"""More processors than there are, for pods that request many and use none."""

import os
from pathlib import Path

NODES = Path("/sys/devices/system/node")
"""Where a kubelet counts them, and what a folder made here is mounted over."""


def write(folder: Path, count: int) -> None:
    """Make a folder in which a kubelet counts ``count`` NUMA nodes.

    It counts folders and takes the numbers of processors, which it gives to control groups, from
    their names: ``cpu1`` and ``cpu01`` are one processor that counts as two.
    Source: github.com/google/cadvisor lib/utils/sysinfo/sysinfo.go, GetNodesInfo.
    """
    node, there = folder / "node0", os.cpu_count() or 1
    (node / "hugepages").mkdir(parents=True)
    for name in ("meminfo", "distance"):
        (node / name).write_text((NODES / "node0" / name).read_text())
    for number in range(count):
        processor = number % there
        topology = node / f"cpu{'0' * (number // there)}{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(str(number))  # one thread each, or they are found out
        (topology / "physical_package_id").write_text("0")
