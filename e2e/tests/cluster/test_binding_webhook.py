"""What a mutating webhook on ``pods/binding`` can do, and what it costs."""

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.namespaces import bare_node, namespace
from e2e.harness.cluster.target import Target
from e2e.harness.doubles.captures import compare
from e2e.harness.doubles.recorder import Call, Recorder, recorder
from e2e.harness.doubles.webhook import allow, refuse, webhook
from e2e.harness.processes.waiting import within

HOOKED = "/api/v1/namespaces/dragoman-e2e-hooked"
BARE = "/api/v1/namespaces/dragoman-e2e-bare"
NODE = "dragoman-e2e-webhooks"
GRANT, PLAN = "dragoman.dev/grant", "dragoman.dev/plan"
GRANT_PATH = "/metadata/annotations/dragoman.dev~1grant"
PLAN_PATH = "/metadata/annotations/dragoman.dev~1plan"
LABEL = "dragoman.dev/e2e-hooked"


def pod(name: str, **annotations: str) -> dict[str, Any]:
    spec = {
        "schedulerName": "no-scheduler",
        "containers": [{"name": "main", "image": "localhost/none"}],
    }
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def binding(name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name} | ({"annotations": annotations} if annotations else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def bind(api: Api, name: str, annotations: dict[str, str] | None = None) -> None:
    api.create(f"{HOOKED}/pods/{name}/binding", binding(name, annotations))


@pytest.fixture(scope="module")
def api(target: Target) -> Iterator[Api]:
    api = target.api
    with (
        bare_node(api, NODE),
        namespace(api, "dragoman-e2e-hooked", {LABEL: ""}),
        namespace(api, "dragoman-e2e-bare"),
    ):
        yield api


@pytest.fixture(scope="module")
def server(target: Target, api: Api) -> Iterator[Recorder]:
    """The webhook's server; when it is handed out, the API server calls it."""
    with recorder(target.authority.server("webhook"), target.address) as this:
        this.answers["bindings"] = allow
        with webhook(target, this, "bindings", ["pods/binding"], LABEL):
            api.create(f"{HOOKED}/pods", pod("probe"))
            path = f"{HOOKED}/pods/probe/binding?dryRun=All"

            def is_called() -> bool:
                api.create(path, binding("probe"))
                return bool(this.calls)

            print(f"webhook called {within(20, is_called):.2f} s after it was installed")
            yield this


@pytest.fixture
def hook(server: Recorder) -> Recorder:
    """A recorder that has recorded no call yet."""
    server.calls.clear()
    server.answers["bindings"] = allow
    return server


def test_it_sees_the_whole_binding_and_who_sends_it(
    target: Target, api: Api, hook: Recorder, rewrite_golden: bool
) -> None:
    sender = target.as_user("system:kube-scheduler")
    api.create(f"{HOOKED}/pods", pod("seen", author="wrote"))

    bind(sender, "seen", {GRANT: "card-0"})

    (call,) = hook.calls
    review = call.json()
    print("review", json.dumps(review))
    request = review["request"]
    assert request["userInfo"]["username"] == "system:kube-scheduler"
    assert (request["subResource"], request["name"]) == ("binding", "seen")
    assert request["object"]["target"]["name"] == NODE
    assert request["object"]["metadata"]["annotations"] == {GRANT: "card-0"}
    # What is not there: the pod. Neither its uid nor its annotations nor what it asks for.
    assert "uid" not in request["object"]["metadata"]
    assert request["oldObject"] is None
    if isinstance(target, ControlPlane):  # the capture's version, and its way to say who sends
        compare("admission/binding-by-hand", review, rewrite=rewrite_golden)


def test_it_adds_and_changes_annotations_and_they_arrive_with_the_node(
    api: Api, hook: Recorder
) -> None:
    def answer(call: Call) -> Any:
        add = {"op": "add", "path": PLAN_PATH, "value": "added"}
        change = {"op": "replace", "path": GRANT_PATH, "value": "changed"}
        return allow(call, add, change)

    hook.answers["bindings"] = answer
    before = api.create(f"{HOOKED}/pods", pod("changed", author="wrote", **{GRANT: "forged"}))

    bind(api, "changed", {GRANT: "by the scheduler"})

    path = f"{HOOKED}/pods?fieldSelector=metadata.name=changed"
    version = before["metadata"]["resourceVersion"]
    states = [event["object"] for event in api.watch(path, version, seconds=1)]
    seen = [(state["spec"].get("nodeName"), state["metadata"]["annotations"]) for state in states]
    print("states of the pod after the binding", seen)
    assert seen[0] == (NODE, {"author": "wrote", GRANT: "changed", PLAN: "added"})


def test_it_adds_annotations_to_a_binding_that_has_none(api: Api, hook: Recorder) -> None:
    def answer(call: Call) -> Any:
        return allow(call, {"op": "add", "path": "/metadata/annotations", "value": {GRANT: "new"}})

    hook.answers["bindings"] = answer
    api.create(f"{HOOKED}/pods", pod("none", author="wrote"))

    bind(api, "none")

    annotations = api.get(f"{HOOKED}/pods/none")["metadata"]["annotations"]
    assert annotations == {"author": "wrote", GRANT: "new"}


def test_what_it_removes_from_the_binding_stays_on_the_pod(api: Api, hook: Recorder) -> None:
    hook.answers["bindings"] = lambda call: allow(call, {"op": "remove", "path": GRANT_PATH})
    api.create(f"{HOOKED}/pods", pod("kept", **{GRANT: "forged"}))

    bind(api, "kept", {GRANT: "forged"})

    annotations = api.get(f"{HOOKED}/pods/kept")["metadata"]["annotations"]
    print("after the removal", annotations)
    assert annotations == {GRANT: "forged"}


def test_it_may_even_change_the_node(api: Api, hook: Recorder) -> None:
    other = {"op": "replace", "path": "/target/name", "value": "node-elsewhere"}
    hook.answers["bindings"] = lambda call: allow(call, other)
    api.create(f"{HOOKED}/pods", pod("moved"))

    bind(api, "moved")

    node = api.get(f"{HOOKED}/pods/moved")["spec"].get("nodeName")
    print(f"sent to {NODE}, bound to {node}")
    assert node == "node-elsewhere"


def test_a_refusal_reaches_the_sender_with_its_code_and_sentence(api: Api, hook: Recorder) -> None:
    hook.answers["bindings"] = lambda call: refuse(call, "card GPU-1 is taken by pod b", 409)
    api.create(f"{HOOKED}/pods", pod("refused"))

    with pytest.raises(ApiError) as refusal:
        bind(api, "refused")

    print("refusal", json.dumps(refusal.value.answer))
    assert refusal.value.status == 409
    assert "card GPU-1 is taken by pod b" in refusal.value.answer["message"]
    assert "nodeName" not in api.get(f"{HOOKED}/pods/refused")["spec"]


def test_no_answer_from_it_stops_the_binding(api: Api, hook: Recorder) -> None:
    del hook.answers["bindings"]
    api.create(f"{HOOKED}/pods", pod("silent"))

    with pytest.raises(ApiError) as refusal:
        bind(api, "silent")

    print("no answer:", refusal.value)
    assert refusal.value.status == 500
    assert "nodeName" not in api.get(f"{HOOKED}/pods/silent")["spec"]


def test_the_old_bindings_collection_goes_past_it(target: Target, api: Api, hook: Recorder) -> None:
    hook.answers["bindings"] = lambda call: refuse(call, "never")
    api.create(f"{HOOKED}/pods", pod("side-door"))

    sender = target.as_user("system:kube-scheduler")
    sender.create(f"{HOOKED}/bindings", binding("side-door", {GRANT: "forged"}))

    side = api.get(f"{HOOKED}/pods/side-door")
    print("by POST to namespaces/NS/bindings: on", side["spec"]["nodeName"], hook.verbs())
    assert side["spec"]["nodeName"] == NODE
    assert side["metadata"]["annotations"][GRANT] == "forged"
    assert hook.calls == []


def test_a_rule_for_the_old_collection_covers_it(target: Target, api: Api, hook: Recorder) -> None:
    hook.answers["collection"] = lambda call: refuse(call, "use pods/binding")
    api.create(f"{HOOKED}/pods", pod("side-door-2"))

    with webhook(target, hook, "collection", ["bindings"], LABEL):

        def is_refused() -> bool:
            try:
                api.create(f"{HOOKED}/bindings?dryRun=All", binding("side-door-2"))
            except ApiError as error:
                return "use pods/binding" in str(error)
            return False

        within(10, is_refused)

    request = hook.of("collection")[-1].json()["request"]
    print("resource", request["resource"], "name", request.get("name"))
    assert request["resource"]["resource"] == "bindings"


def test_a_pod_that_is_born_with_a_node_is_never_bound(api: Api, hook: Recorder) -> None:
    born = pod("born")
    born["spec"]["nodeName"] = NODE

    api.create(f"{HOOKED}/pods", born)

    assert hook.calls == []


def test_its_latency_beside_a_binding_without_it(api: Api, hook: Recorder) -> None:
    count = 40
    for number in range(count):
        for home in (HOOKED, BARE):
            api.create(f"{home}/pods", pod(f"timed-{number}"))
    hook.answers["bindings"] = lambda call: allow(
        call, {"op": "add", "path": "/metadata/annotations", "value": {GRANT: "card-0"}}
    )
    with_it, without = [], []

    with closing(api.connection()) as connection:
        for number in range(count):
            with_it.append(timed_bind(api, connection, HOOKED, f"timed-{number}"))
            without.append(timed_bind(api, connection, BARE, f"timed-{number}"))

    assert len(hook.calls) == count
    slow, fast = statistics.median(with_it), statistics.median(without)
    print(
        f"median of {count} bindings: {slow * 1e3:.2f} ms with the webhook, {fast * 1e3:.2f} ms"
        f" without, ratio {slow / fast:.2f}, {1e3 * (slow - fast):.2f} ms added"
    )


def timed_bind(api: Api, connection: http.client.HTTPSConnection, home: str, name: str) -> float:
    """Bind over a connection that stays open; how many seconds that took."""
    body = json.dumps(binding(name))
    started = time.perf_counter()
    path = f"{api.root}{home}/pods/{name}/binding"
    connection.request("POST", path, body, {"Content-Type": "application/json", **api.headers})
    response = connection.getresponse()
    response.read()
    assert response.status == http.client.CREATED
    return time.perf_counter() - started
