"""``-o jsonpath`` and ``custom-columns`` write what kubectl writes of the same objects."""

import json
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from typer.testing import CliRunner

from adapters.cli.main import app
from e2e.testbed import cache

TOP = ("top", "cards", "-f", "docs/reference/cli/over-allocated.yaml")
TEMPLATES = (
    "{.items[*].node}",
    "{.items[0].uuid}",
    "{.items[-1].card}",
    "{.items[1:].state}",
    "{.items[*].usedMiB}{'\\n'}",
    "{.items[0]['model']}",
    "{.items[*].nothing}|{.nothing}",
    "cards: {range .items[*]}{.index}{\"\\t\"}{.state}{'\\n'}{end}",
    "{range .items[*]}{@.uuid}; {end}{.items[*].sharers}",
    "no expression",
    "{.items[",
    "{.items[x]}",
    "{items}",
    "{end}",
    "{range .items[*]}{.index}",
    "{.items[99999999999999999999999]}",
    "{.items[0].dialects}",
)
COLUMNS = (
    "NODE:.node",
    "N:.node,A LONG HEADER:.model,NONE:.nothing,NULL:.usedCompute",
    "NODE:node,STATE:{.state}",
    "NODE",
    "NODE:.node[",
    "A LIST:.dialects",
    "EACH:.dialects[*]",
)


class _Answers(BaseHTTPRequestHandler):
    items: object = ()

    def do_GET(self) -> None:
        """Answer as an API server with one kind."""
        group = {"groupVersion": "x.dev/v1", "version": "v1"}
        kind = {"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["list"]}
        answers: dict[str, object] = {
            "/api": {"kind": "APIVersions", "versions": []},
            "/apis": {
                "kind": "APIGroupList",
                "groups": [{"name": "x.dev", "versions": [group], "preferredVersion": group}],
            },
            "/apis/x.dev/v1": {
                "kind": "APIResourceList", "groupVersion": "x.dev/v1", "resources": [kind],
            },
        }  # fmt: skip
        things = {"apiVersion": "x.dev/v1", "kind": "ThingList", "items": self.items}
        body = json.dumps(answers.get(self.path.partition("?")[0], things)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    made = {"apiVersion": "x.dev/v1", "kind": "Thing"}
    plain = json.loads(CliRunner().invoke(app, [*TOP, "-o", "json"]).stdout)
    _Answers.items = [{**made, **each} for each in plain["items"]]
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.mark.parametrize(
    "output",
    [*(f"jsonpath={each}" for each in TEMPLATES), *(f"custom-columns={each}" for each in COLUMNS)],
)
def test_lists_are_written_as_kubectl_writes_them(server: str, output: str) -> None:
    kubectl = cache.binary("kubernetes", "kubectl")
    words = [str(kubectl), f"--server={server}", "get", "things", "-o", output]

    theirs = subprocess.run(words, capture_output=True, text=True, env={"HOME": "/nonexistent"})
    ours = CliRunner().invoke(app, [*TOP, "-o", output])

    assert (ours.exit_code, theirs.returncode) in ((0, 0), (2, 1)), theirs.stderr
    if ours.exit_code == 0:
        assert ours.stdout == theirs.stdout
    else:
        assert "must be" in ours.stderr
