"""``--execute`` against an API server on which others write the status of the plan."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import Result

from adapters.cli.defrag import execution
from adapters.cli.tests.api_server import PATHS
from adapters.cli.tests.builders import Plain, node, pod, volcano, volcano_bound
from adapters.cli.tests.command import as_plain, command

PLANS = "/apis/dragoman.dev/v1alpha1/moveplans"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command waits for a short time only."""
    monkeypatch.setattr(execution, "POLL", 0.01)
    monkeypatch.setattr(execution, "TAKE_UP", 0.2)
    monkeypatch.setattr(execution, "SIGN_OF_LIFE", 0.2)


def things() -> list[Plain]:
    """Two pods move, so that one fits."""
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "of-web", "controller": True}
    nodes = [node(cards=1), node("node-b", cards=1)]
    held = [volcano_bound(name, 4000, ownerReferences=[owner]) for name in ("a", "c")]
    waits = pod("waits", volcano(9000), metadata={"namespace": "ml", "uid": "uid-waits"})
    return [*nodes, *held, waits, volcano_bound("b", 2000, on="node-b")]


def a_plan() -> Plain:
    return as_plain("defrag", things=things())


@dataclass
class Plans:
    """An API server with MovePlans.

    Attributes:
        statuses: what the status is at each reading of the plan in turn; the last one stays. None
            for a plan that is gone.
        objects: by name.
        refusal: of a creation, where it is not 0.
        reading: called at each reading of the plan.
        created: how many were created.
        lists: other objects, by path.
    """

    statuses: list[Plain | None]
    objects: dict[str, Plain] = field(default_factory=dict)
    refusal: int = 0
    reading: Callable[[], None] = lambda: None
    created: int = 0
    lists: dict[str, list[Plain]] = field(default_factory=dict)

    def create(self, body: Plain) -> tuple[int, Plain]:
        if self.refusal:
            return self.refusal, {"reason": "Some", "message": "no"}
        name = body["metadata"]["name"]
        if name in self.objects:
            return 409, {"reason": "AlreadyExists", "message": f"{name} already exists"}
        self.created += 1
        self.objects[name] = body | {"metadata": {"name": name, "resourceVersion": "1"}}
        return 201, self.objects[name]

    def get(self, path: str) -> tuple[int, Plain]:
        if not path.startswith(PLANS):
            items = self.lists.get(path)
            return (404, {}) if items is None else (200, {"metadata": {}, "items": items})
        name = path.removeprefix(PLANS).strip("/")
        if not name:
            return 200, {"metadata": {}, "items": [*self.objects.values()]}
        self.reading()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status is None or name not in self.objects:
            return 404, {"reason": "NotFound", "message": "not found"}
        return 200, self.objects[name] | {"status": status}


@contextmanager
def serving(plans: Plans, folder: Path) -> Iterator[Path]:
    """Serve until the block ends; gives the kubeconfig."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*plans.get(self.path.partition("?")[0]))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(*plans.create(json.loads(body)))

        def _answer(self, status: int, body: Plain) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """An interrupted command reads no answer."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "lab",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config))
    try:
        yield file
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def executed(plans: Plans, folder: Path, plan: Plain | None = None) -> Result:
    file = folder / "plan.json"
    file.write_text(json.dumps(plan or a_plan()))
    with serving(plans, folder) as kubeconfig:
        return command("defrag", "--execute", file, "--kubeconfig", kubeconfig)


def status(phase: str, step: int = 0, *steps: Plain, reason: str = "") -> Plain:
    return {"phase": phase, "step": step, "steps": [*steps], "reason": reason, "updatedAt": "x"}


BEGUN = {"step": 1, "evictedAt": "2026-11-26T12:00:00Z"}
DONE = BEGUN | {"replacement": "c2", "readyAt": "2026-11-26T12:00:18Z"}
SKIPPED = {"step": 2, "skipped": True}
NAME = str(a_plan()["metadata"]["name"])


def test_a_plan_is_created_and_followed_to_its_end_with_a_line_for_each_step(
    tmp_path: Path,
) -> None:
    plans = Plans([
        status(""), status("Held"), status("Ready"), status("Evict", 1),
        status("Evicted", 1, BEGUN), status("Ready", 1, DONE), status("Evict", 2, DONE),
        status("Placing", 2, DONE, SKIPPED), status("Finished", 2, DONE, SKIPPED),
    ])  # fmt: skip

    result = executed(plans, tmp_path)

    assert result.exit_code == 0, result.output
    assert plans.created == 1
    assert result.stdout == (
        f"plan {NAME}: 2 moves\n"
        "step 1 of 2: default/c of ReplicaSet/web from node-a to node-b: c2 is ready after 18 s\n"
        "step 2 of 2: default/a of ReplicaSet/web from node-a to node-b: skipped, there is nothing"
        " to move any more\n"
        "ml/waits has its cards on node-a\n"
        f"plan {NAME}: finished\n"
    )
    assert result.stderr == ""


def test_the_steps_of_a_dry_run_are_those_that_are_reported_and_nothing_is_created(
    tmp_path: Path,
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(a_plan()))

    result = command("defrag", "--execute", file, "--dry-run", "--kubeconfig", "/no/such/file")

    assert result.exit_code == 0
    assert result.stdout == (
        "step 1 of 2: default/c of ReplicaSet/web from node-a to node-b\n"
        "step 2 of 2: default/a of ReplicaSet/web from node-a to node-b\n"
        "ml/waits has its cards on node-a\n"
    )


def test_a_plan_that_stops_says_why_and_what_it_waited_for(tmp_path: Path) -> None:
    waits = "maxUnavailable: another pod of ReplicaSet/web is not ready"
    plans = Plans([
        status("Evict", 1, reason=waits), status("Evict", 1, reason=waits),
        status("Stopped", 1, reason="default/a: its PodDisruptionBudget allows no disruption"),
    ])  # fmt: skip

    result = executed(plans, tmp_path)

    assert result.exit_code == 1
    assert result.stdout.endswith(
        f"plan {NAME}: stopped at step 1 of 2: default/a: its PodDisruptionBudget allows no"
        " disruption\n"
    )
    assert result.stderr == f"note: step 1 of 2: evicts the pod: {waits}\n"


def test_a_plan_whose_targets_are_gone_promises_nothing_of_them(tmp_path: Path) -> None:
    left = "moves 2 to 2 are left out: what they make room for is bound or gone"

    result = executed(Plans([status("Finished", 1, DONE, reason=left)]), tmp_path)

    assert result.exit_code == 0
    assert result.stdout.endswith(f"after 18 s\nplan {NAME}: finished: {left}\n")


def test_a_plan_that_is_there_goes_on(tmp_path: Path) -> None:
    plans = Plans([status("Finished", 2, DONE, SKIPPED)], {NAME: a_plan()})

    result = executed(plans, tmp_path)

    assert (result.exit_code, plans.created) == (0, 0)
    assert f"note: plan {NAME} is there already, and goes on\n" in result.stderr


@pytest.mark.parametrize("seconds", [900, "x"])
def test_a_plan_of_that_name_with_another_spec_is_an_error(tmp_path: Path, seconds: object) -> None:
    other = a_plan()
    other["spec"]["podSeconds"] = seconds

    result = executed(Plans([status("")], {NAME: other}), tmp_path)

    assert result.exit_code == 2
    assert f"MovePlan {NAME}: there is one of this name with another spec" in result.stderr
    assert "goes on" not in result.stderr


def test_a_cluster_without_moveplans_is_named_as_such(tmp_path: Path) -> None:
    result = executed(Plans([None], refusal=404), tmp_path)

    assert result.exit_code == 2
    assert "the cluster has no MovePlans: install their definition" in result.stderr


def test_what_the_api_server_says_of_a_plan_that_it_refuses_is_said(tmp_path: Path) -> None:
    result = executed(Plans([None], refusal=403), tmp_path)

    assert result.exit_code == 2
    assert result.stderr == "dragoman: cluster lab: 403 Some: no\n"


def test_a_plan_that_no_service_begins_with_ends_the_command_and_stays(tmp_path: Path) -> None:
    result = executed(Plans([{}]), tmp_path)

    assert result.exit_code == 2
    assert "no service began with the plan in 0 s: defrag.enabled of the chart is" in result.stderr
    assert "the plan goes on; the same command follows it again, and kubectl delete moveplan" in (
        result.stderr
    )


def test_a_plan_waits_for_an_earlier_one(tmp_path: Path) -> None:
    waits = status("Waiting", reason="waits for earlier")
    plans = Plans([*[waits] * 40, status("Finished", 2)])

    result = executed(plans, tmp_path)

    assert result.exit_code == 0, result.output
    assert result.stderr == "note: waits for its turn: waits for earlier\n"


@pytest.mark.parametrize(("phase", "step"), [("Held", 0), ("Evict", 1)])
def test_a_mover_that_gives_no_sign_of_life_is_named_once(
    tmp_path: Path, phase: str, step: int
) -> None:
    plans = Plans([*[status(phase, step)] * 80, status("Stopped", step, reason="no sign of life")])

    result = executed(plans, tmp_path)

    assert result.exit_code == 1
    assert result.stderr.count("the mover has given no sign of life for 0 s") == 1


def test_a_plan_that_is_deleted_has_stopped(tmp_path: Path) -> None:
    result = executed(Plans([status("Held"), None]), tmp_path)

    assert result.exit_code == 1
    assert result.stdout.endswith(
        f"plan {NAME}: deleted; no further step is made, and no place is held\n"
    )


def test_a_status_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    result = executed(Plans([{"phase": "Unheard"}]), tmp_path)

    assert result.exit_code == 2
    assert f"MovePlan {NAME}: status cannot be read" in result.stderr


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """A shell without job control starts what runs in the background with SIGINT ignored."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupted_command_leaves_the_plan_and_says_how_to_stop_it(tmp_path: Path) -> None:
    plans = Plans([status("Held")], reading=lambda: os.kill(os.getpid(), signal.SIGINT))

    result = executed(plans, tmp_path)

    assert result.exit_code == 130
    assert result.stderr == (
        "note: the plan goes on; the same command follows it again, and kubectl delete moveplan"
        f" {NAME} stops it\n"
    )


def test_texts_of_others_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    hostile = DONE | {"replacement": "a\x1b[2J", "step": 200}
    plans = Plans([status("Stopped", 200, hostile, reason="\x1b[31m")])

    result = executed(plans, tmp_path)

    assert "\x1b" not in result.output
    assert "a\\x1b[2J is ready" in result.stdout


def a_cluster() -> Plans:
    kinds = ("Node", "Pod", "ConfigMap", "PodDisruptionBudget", "Job")
    lists = {PATHS[kind]: [each for each in things() if each["kind"] == kind] for kind in kinds}
    steps: list[Plain | None] = [status(""), status("Finished", 2, DONE, SKIPPED)]
    return Plans(steps, lists=lists)


def test_the_plan_that_is_shown_is_carried_out_without_a_file(tmp_path: Path) -> None:
    plans = a_cluster()

    with serving(plans, tmp_path) as kubeconfig:
        reached = ("--kubeconfig", kubeconfig)
        dry = command("defrag", "--execute", "--dry-run", *reached)
        unasked = command("defrag", *reached, "--execute")
        assert plans.created == 0
        result = command("defrag", "--execute", "--yes", *reached)

    assert dry.stdout.endswith("from node-a to node-b\nml/waits has its cards on node-a\n")
    assert (unasked.exit_code, unasked.stdout) == (2, "")
    assert "cannot ask without a terminal: pass --yes, or --dry-run" in unasked.stderr
    assert result.exit_code == 0, result.output
    assert "targets: 1 of 1 fit after the moves\n" in result.stdout
    assert result.stdout.endswith(f"plan {NAME}: finished\n")
    assert [*plans.objects] == [NAME]


def test_a_plan_with_more_moves_than_an_object_can_have_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "MOST_MOVES", 0)
    plans = a_cluster()

    with serving(plans, tmp_path) as kubeconfig:
        result = command("defrag", "--execute", "--yes", "--kubeconfig", kubeconfig)

    assert result.exit_code == 2
    assert "the plan: has 2 moves, at most 0 can be carried out: plan for fewer" in result.stderr
    assert plans.created == 0


def test_a_plan_without_moves_is_not_asked_about(tmp_path: Path) -> None:
    plans = a_cluster()
    plans.lists[PATHS["Pod"]] = []

    with serving(plans, tmp_path) as kubeconfig:
        result = command("defrag", "--execute", "--yes", "--kubeconfig", kubeconfig)

    assert result.exit_code == 0, result.output
    assert "note: the plan has no moves: there is nothing to carry out" in result.stderr
    assert plans.created == 0


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_a_terminal_is_asked_before_pods_are_evicted(
    answer: str, code: int, tmp_path: Path
) -> None:
    plans = a_cluster()
    master, slave = os.openpty()
    with serving(plans, tmp_path) as kubeconfig:
        words = ("defrag", "--kubeconfig", kubeconfig, "--execute")
        os.write(master, f"{answer}\n".encode())
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "dragoman", *words], stdin=slave, capture_output=True, text=True
        )
    os.close(master)
    os.close(slave)

    assert "Evict 2 pods? [y/N]" in done.stderr
    assert done.returncode == code
    assert plans.created == (code == 0)


@pytest.mark.parametrize("words", [("-f", "x"), ("-o", "json")])
def test_a_plan_of_files_or_for_programs_is_not_carried_out_at_once(words: tuple[str, ...]) -> None:
    result = command("defrag", *words, "--execute", "--yes")

    assert result.exit_code == 2
    assert "does not go with --execute" in result.stderr
