"""A service without a cluster whose node agents are an HTTP server of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

PROGRAM = """
from functools import partial
import adapters.service.compose as compose
from adapters.cluster.api.plain import PlainReader
from adapters.service.in_cluster.agent_metrics import AgentMetrics
http = PlainReader(patience=20.0)
agents = AgentMetrics(lambda node: node, lambda node: http.get("127.0.0.1", {port}, "/" + node))
compose.Cluster = partial(compose.Cluster, agents=agents)
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

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            node = self.path.removeprefix("/")
            found.asked.append(node)
            body = found.texts.get(node, "").encode()
            self.send_response(200 if body else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Agents(PROGRAM.format(port=server.server_address[1]))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
