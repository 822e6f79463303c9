"""What a test of monitoring needs besides the pods: records of use, busy cards, refused calls."""

import http.client
import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import yaml

from adapters.agent.metrics.hami_region import MAGIC, VERSION_1
from adapters.agent.tests.stand_in import built
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.chart import CHART
from e2e.harness.cluster.prometheus import Prometheus, Target
from e2e.harness.node.real_node import RealNode
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import REPOSITORY, Run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service

MIB = 1 << 20
_UUID = 96


def expressions(values: Mapping[str, str]) -> dict[str, list[str]]:
    """The expressions of each panel, by dashboard and title, with these values of variables."""
    found: dict[str, list[str]] = {}
    for file in sorted((CHART / "files/dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            found[f"{file.stem}: {panel['title']}"] = [
                re.sub(r"\$(\w+)", lambda name: values[name[1]], target["expr"])
                for target in panel["targets"]
            ]
    return found


def alerts() -> list[Object]:
    """The groups of alerts."""
    text = (REPOSITORY / "configs/prometheus-alerts.yaml").read_text()
    groups: list[Object] = yaml.safe_load(text)["spec"]["groups"]
    return groups


def wait_for_data(
    prometheus: Prometheus, values: Mapping[str, str], between: Callable[[], object]
) -> None:
    """Wait until every expression of the dashboards returns data, with these values of variables.

    Args:
        prometheus: that is asked.
        values: of the dashboards' variables.
        between: called before each look; it keeps the cluster busy.

    Raises:
        AssertionError: some do not.
    """
    empty = {(panel, one) for panel, each in expressions(values).items() for one in each}

    def has_data() -> bool:
        between()
        empty.difference_update([each for each in empty if prometheus.query(each[1])])
        return not empty

    with suppress(TimeoutError):
        within(90, has_data)
    assert not empty, "these have no data"


def record_uses(
    node: RealNode, held: Iterable[Object], used: int, limit: int | None = None
) -> None:
    """Write HAMi-core's record of each container that it limits."""
    for row in held:
        for name in {grant["container"] for grant in row["grants"]}:
            folder = node.host.folder / "vgpu/containers" / f"{row['uid']}_{name}"
            if folder.is_dir():
                mine = [grant for grant in row["grants"] if grant["container"] == name]
                record_use(folder, mine, used, limit)


def record_use(folder: Path, grants: Sequence[Object], used: int, limit: int | None = None) -> None:
    """Write what HAMi-core would: each granted card with its limit, and one process that uses it.

    Args:
        folder: the container's.
        grants: of the container.
        used: bytes of each card.
        limit: bytes of each card; None for those of the grant.
    """
    data = bytearray(VERSION_1.size + 1)
    struct.pack_into("<iII", data, 0, MAGIC, 1, 2)
    struct.pack_into("<Q", data, VERSION_1.cards, len(grants))
    struct.pack_into("<i", data, VERSION_1.count, 1)
    struct.pack_into("<ii", data, VERSION_1.processes, 7, 8)
    for place, grant in enumerate(grants):
        uuid = grant["card"].encode()
        start = VERSION_1.uuids + _UUID * place
        data[start : start + len(uuid)] = uuid
        struct.pack_into("<Q", data, VERSION_1.limits + 8 * place, limit or grant["memory"])
        memory = VERSION_1.processes + 8 + VERSION_1.memory * place
        struct.pack_into("<5Q", data, memory, 0, 0, used, 0, used)
        compute = VERSION_1.processes + VERSION_1.util + VERSION_1.util_size * place + 16
        struct.pack_into("<Q", data, compute, 20)
    (folder / f"{folder.name}.cache").write_bytes(data)


@contextmanager
def driver(run: Run, node: str) -> Iterator[int]:
    """An agent with NVIDIA's library, or what plays it, and no runtime; its port for metrics."""
    (port,) = free_ports(1)
    folder = run.folder / "driver"
    folder.mkdir()
    config = folder / "node.json"
    settings = {
        "node": node,
        "socket": str(folder / "no-runtime.sock"),
        "ledger": {"file": str(folder / "ledger.json")},
        "monitor": {"listen": f"127.0.0.1:{port}"},
    }
    config.write_text(json.dumps(settings))
    environment = {
        "LD_LIBRARY_PATH": str(built().parent),
        "NVML_STAND_IN_CARDS": "2",
        "PYTHONPATH": str(REPOSITORY),
    }
    command: list[str | Path] = [sys.executable, "-P", "-m", "adapters.agent", config]
    process = run.start("driver", command, environment=environment)
    try:
        yield port
    finally:
        process.stop()
        run.processes.remove(process)


def scraped(service: int, *agents: int) -> list[Target]:
    """What Prometheus scrapes, with the labels that the operator adds."""
    jobs = [("dragoman", service), *(("dragoman-node", port) for port in agents)]
    targets = [
        Target(job, port, (("namespace", "dragoman-system"), ("pod", f"{job}-{port}")))
        for job, port in jobs
    ]
    return [*targets, Target("dragoman-usage", service, (), "/metrics/usage")]


def provoke_refusals(service: Service, node: str) -> None:
    """A body that is too long, and a filter for a pod that fits no node."""
    container = {"name": "main", "resources": {"limits": {"volcano.sh/vgpu-number": "9"}}}
    large = {"name": "large", "namespace": "default", "uid": "large"}
    pod = {"metadata": large, "spec": {"containers": [container]}}
    with closing(http.client.HTTPConnection("127.0.0.1", service.clear, timeout=10)) as port:
        port.request("POST", "/extender/bind", b"x" * (2 * MIB))
        assert port.getresponse().status == http.client.REQUEST_ENTITY_TOO_LARGE
    service.ask("/extender/filter", {"Pod": pod, "NodeNames": [node]})
