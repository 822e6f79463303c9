"""A service without a cluster whose node agents are an HTTP server of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from adapters.service.web.dashboard.tests.http_server import answering

PROGRAM = """
from functools import partial
import adapters.service.main as compose
from adapters.cluster.api.client import PlainReader
from adapters.service.in_cluster.agent_metrics import AgentMetrics
http = PlainReader(patience=20.0)
agents = AgentMetrics(lambda node: node, lambda node: http.get("127.0.0.1", {port}, "/" + node))
compose.Cluster = partial(compose.Cluster, agents=agents.reports)
from adapters.cli.main import main
main()
"""
"""``dragoman serve``, with the reader that it has in a cluster; the path names the node."""


@dataclass
class Agents:
    """The server.

    Attributes:
        program: runs a service that asks it.
        texts: metrics by node; other nodes have no agent.
        asked: the nodes that the service asked about.
    """

    program: str
    texts: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def report(self, node: str, cards: dict[str, int], pods: dict[tuple[str, str], int]) -> None:
        """Report bytes that are used, by card, and by pod and card."""
        lines = [
            f'hami_host_gpu_memory_used_bytes{{node="{node}",device_uuid="{card[:40]}"}} {used}'
            for card, used in cards.items()
        ]
        for (pod, card), used in pods.items():
            namespace, _, name = pod.partition("/")
            labels = f'node="{node}",namespace="{namespace}",pod="{name}",container="main"'
            lines.append(
                f'dragoman_container_memory_used_bytes{{{labels},uuid="{card[:40]}"}} {used}'
            )
        self.texts[node] = "".join(f"{line}\n" for line in lines)


@contextmanager
def agents() -> Iterator[Agents]:
    """Agents that know nothing yet."""

    def answer(path: str) -> tuple[int, bytes]:
        node = path.removeprefix("/")
        found.asked.append(node)
        body = found.texts.get(node, "").encode()
        return 200 if body else 503, body

    with answering(answer) as port:
        found = Agents(PROGRAM.format(port=port))
        yield found
