"""``--service``: the scheduling service answers in the words of the command itself."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.cli.tests.command import command
from adapters.service.tests.process import EXAMPLE, Running, serving

ROWS = [
    ("pending",),
    ("top", "pods"),
    ("who", "nvidia-1"),
    ("who", "nvidia-1/0"),
    ("who", "nvidia-1:0"),
]
PODS = ["koord-running", "volcano-notebook", "metax-mistaken"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("service"), "--store", "memory") as running:
        yield running


@pytest.mark.parametrize("words", ROWS, ids=" ".join)
def test_a_list_of_the_service_is_that_of_the_command(
    service: Running, words: tuple[str, ...]
) -> None:
    asked = command(*words, "-n", "default", "--service", service.address, "--sort", "pod")
    own = command(*words, "-n", "default", "-f", EXAMPLE, "--sort", "pod")

    assert asked.exit_code == 0, asked.stderr
    titles, *rows = asked.stdout.splitlines()
    expected = own.stdout.splitlines()
    assert titles == expected[0]
    if words != ("pending",):  # the background evaluation begins after some seconds
        assert [titles, *rows] == expected
    else:
        assert [row.split()[:3] for row in rows] == [row.split()[:3] for row in expected[1:]]


@pytest.mark.parametrize("name", PODS)
def test_an_explanation_of_the_service_is_that_of_the_command(service: Running, name: str) -> None:
    asked = command("explain", name, "-n", "default", "--service", service.address)
    own = command("explain", name, "-n", "default", "-f", EXAMPLE)

    assert asked.exit_code == own.exit_code, asked.stderr
    assert asked.stdout.splitlines() == own.stdout.splitlines()[: len(asked.stdout.splitlines())]
    plain = command("explain", name, "-n", "default", "--service", service.address, "-o", "json")
    assert json.loads(plain.stdout)["pod"] == f"default/{name}"


@pytest.mark.parametrize(
    "words",
    [
        ("pending", "--service", "http://gpu.example.com"),
        ("pending", "--service", "http://127.0.0.1@gpu.example.com"),
        ("pending", "--service", "http://127.0.0.1.gpu.example.com"),
        ("pending", "--service", "ftp://127.0.0.1"),
        ("pending", "--service", "https://"),
        ("pending", "--service", "http://127.0.0.1:no"),
        ("pending", "--service", "http://127.0.0.1/?a=b"),
        ("pending", "--service", "http://127.0.0.1", "-A"),
        ("pending", "--service", "http://127.0.0.1", "-f", "x"),
        ("top", "nodes", "--service", "http://127.0.0.1"),
        ("top", "pods", "--used", "--service", "http://127.0.0.1"),
        ("top", "pods", "-l", "a=b", "--service", "http://127.0.0.1"),
        ("explain", "p", "-A", "--service", "http://127.0.0.1"),
    ],
)
def test_what_cannot_be_asked_of_the_service_is_bad_input(words: tuple[str, ...]) -> None:
    result = command(*words, *(() if "-A" in words else ("-n", "default")))

    assert result.exit_code == 2
    assert "--service" in result.stderr


class Desk(http.server.BaseHTTPRequestHandler):
    """A service that asks for a token, or answers whatever a test wants."""

    status, location, free = 200, "", False
    seen: list[str | None]

    def do_GET(self) -> None:
        token = self.headers.get("Authorization")
        type(self).seen.append(token)
        status = self.status if token or self.free else 401
        self.send_response(status)
        if self.location:
            self.send_header("Location", self.location)
        body = b"{}" if status == 200 else b'{"error":"says no"}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def desk(*, status: int = 200, location: str = "", free: bool = False) -> Iterator[type[Desk]]:
    """A desk whose ``location`` is where it redirects to; it has its port in ``url``."""
    fields = {"status": status, "location": location, "free": free, "seen": []}
    made = type("OneDesk", (Desk,), fields)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(folder: Path, user: dict[str, object]) -> Path:
    path = folder / "config"
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return path


def pending(config: Path, at: type[Desk]) -> tuple[int, str, list[str | None]]:
    url = at.url  # type: ignore[attr-defined]
    result = command("pending", "--kubeconfig", config, "--service", url)
    assert result.stdout == ("" if result.exit_code else result.stdout)
    return result.exit_code, result.stderr.strip(), at.seen


def test_the_token_is_sent_only_to_a_service_that_asks_for_it(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, {"token": "mine"})

    with desk() as asking:
        status, said, seen = pending(config, asking)
    with desk(free=True) as free:
        assert pending(config, free)[2] == [None]

    assert (status, seen[0], seen[-1]) == (0, None, "Bearer mine")
    assert "no pods wait in namespace ml" in said


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    with desk(free=True) as other, desk(status=302, location=f"{other.url}/") as first:  # type: ignore[attr-defined]
        status, said, _ = pending(kubeconfig(tmp_path, {"token": "mine"}), first)

    assert (status, other.seen) == (2, [])
    assert "302" in said


def test_a_refusal_is_one_line_without_the_token(tmp_path: Path) -> None:
    with desk(status=403) as refusing:
        status, said, _ = pending(kubeconfig(tmp_path, {"token": "mine"}), refusing)

    assert status == 2
    assert said.endswith(": 403: says no")
    assert "mine" not in said
    assert "\n" not in said


def test_a_user_without_a_token_learns_what_is_needed(tmp_path: Path) -> None:
    with desk() as asking:
        status, said, _ = pending(kubeconfig(tmp_path, {}), asking)

    assert status == 2
    assert "needs a token" in said
