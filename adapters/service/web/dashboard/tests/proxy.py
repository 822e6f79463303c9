"""A reverse proxy that serves the service below a path, as an Ingress does."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PASSED = ("Content-Type", "ETag", "Cache-Control", "Content-Encoding", "Content-Security-Policy")


@contextmanager
def below(prefix: str, port: int) -> Iterator[str]:
    """The URL of a proxy that removes ``prefix`` and has nothing beside it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            known = {name: self.headers[name] for name in self.headers if name != "Host"}
            upstream.request("GET", self.path.removeprefix(prefix), headers=known)
            answer = upstream.getresponse()
            body = answer.read()
            upstream.close()
            self.send_response(answer.status)
            for name in PASSED:
                if value := answer.getheader(name):
                    self.send_header(name, value)
            if answer.status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
