"""A small real API server: lists of objects by pages, over HTTP, in a thread of its own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from adapters.cli.tests.builders import Plain

PATHS = {
    "Job": "/apis/batch/v1/jobs",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "Event": "/api/v1/namespaces/default/events",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "ConfigMap": "/api/v1/configmaps",
    "Device": "/apis/scheduling.koordinator.sh/v1alpha1/devices",
    "NodeLedger": "/apis/dragoman.dev/v1alpha1/nodeledgers",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceTaintRule": "/apis/resource.k8s.io/v1/devicetaintrules",
    "ShareQuota": "/apis/dragoman.dev/v1alpha1/sharequotas",
}


def _path(thing: Plain) -> str:
    if thing["kind"] == "PodGroup":  # of several APIs
        return f"/apis/{thing['apiVersion']}/podgroups"
    return PATHS[thing["kind"]]


@dataclass
class ApiServer:
    """Answers GET of the kinds that it knows; 403 for the paths in ``forbidden``.

    Attributes:
        objects: by path of the collection.
        kubeconfig: of a user who may read everything else.
        verbs: of all requests so far, with their paths.
        texts: answers of other paths, such as those of pods behind the server's proxy.
    """

    objects: dict[str, list[Plain]]
    kubeconfig: Path
    forbidden: set[str] = field(default_factory=set)
    verbs: list[tuple[str, str]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def answer(self, target: str) -> tuple[int, Plain | str]:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path in self.forbidden:
            return 403, {"kind": "Status", "reason": "Forbidden", "message": "not allowed"}
        if parts.path in self.texts:
            return 200, self.texts[parts.path]
        if parts.path not in self.objects:
            return 404, {"kind": "Status", "reason": "NotFound"}
        named = query.get("fieldSelector", "").partition("=")[2]
        items = [
            each
            for each in self.objects[parts.path]
            if not named or each["metadata"]["name"] == named
        ]
        start = int(query.get("continue", "0"))
        end = start + int(query["limit"])
        token = str(end) if end < len(items) else ""
        return 200, {"metadata": {"continue": token}, "items": items[start:end]}


@contextmanager
def api_server(folder: Path, *things: Plain, namespace: str = "") -> Iterator[ApiServer]:
    """Serve objects; Devices and NodeLedgers are unknown unless there are any."""
    objects: dict[str, list[Plain]] = {PATHS[kind]: [] for kind in ("Node", "Pod", "ConfigMap")}
    for thing in things:
        objects.setdefault(_path(thing), []).append(thing)
    server = ApiServer(objects, folder / "kubeconfig")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.verbs.append((self.command, urlsplit(self.path).path))
            status, body = server.answer(self.path)
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    address = f"http://127.0.0.1:{listening.server_port}"
    server.kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": address}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "lab", "context": context}],
                "current-context": "lab",
            }
        )
    )
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
