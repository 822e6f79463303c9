"""Command, HTTP, page and gRPC give the same answer about a pod, on any cluster."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from adapters.cli.explain import as_plain, explain
from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import Manifests, manifests
from adapters.cli.input.source import Source
from adapters.cli.output.report import PodResult
from adapters.cli.schedule import Run, RunOptions
from adapters.cli.serve import static_inventory
from adapters.cli.tests.builders import (
    Plain,
    a_claim,
    a_slice,
    node,
    pod,
    stream,
    uuid,
    volcano,
    volcano_bound,
)
from adapters.cli.tests.gangs import APIS, group, member
from adapters.cli.tests.test_waiting_claims import a_class, unallocated, waiting
from adapters.cli.view.pending import pending
from adapters.dialects.dialect import Defaults
from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc.calls import Calls
from adapters.service.main import without_cluster
from adapters.service.runtime import ServiceRuntime
from adapters.service.settings.settings import read
from adapters.service.web.dashboard import routes
from adapters.service.web.dashboard.routes import StaticFiles
from adapters.service.web.tests.calls import call
from core.hardware.quantity import MIB

NAME = "waits"
KEYS = ("pool", "zone", "gpu-model")
VALUES = ("a", "b", "3", "7", "x")

seldom = st.sampled_from((False, False, False, True))

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)

taints = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("dedicated", "spot", "node.kubernetes.io/unschedulable")),
            "value": st.sampled_from(("", "ml")),
            "effect": st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule")),
        }
    ),
    max_size=2,
)

tolerations = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(
                ("dedicated", "dedicted", "spot", "node.kubernetes.io/unschedulable")
            ),
            "operator": st.sampled_from(("Exists", "Equal", "Gt")),
            "value": st.sampled_from(("", "ml")),
            "effect": st.sampled_from(("NoSchedule", "NoExecute")),
        },
    ),
    max_size=3,
)

requirements = st.fixed_dictionaries(
    {
        "key": st.sampled_from((*KEYS, "gpu-modle")),
        "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd")),
        "values": st.lists(st.sampled_from((*VALUES, "5")), max_size=2),
    }
)

fields = st.fixed_dictionaries(
    {
        "key": st.sampled_from(("metadata.name", "metadata.uid")),
        "operator": st.sampled_from(("In", "NotIn", "Exists")),
        "values": st.lists(st.sampled_from(("n0", "n1")), min_size=1, max_size=2),
    }
)

affinities = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(requirements, max_size=2),
            "matchFields": st.lists(fields, max_size=1),
        },
    ),
    max_size=2,
).map(
    lambda terms: {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
)

messages = st.sampled_from(
    (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
        " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        "0/2 nodes are available: 2 2 of 2 cards: memory 1 GiB short.",
        "pod group is not ready, 1 Pending, 1 minAvailable",
        "0/2 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory, 1 Insufficient cpu.",
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu, 3 Insufficient nvidia.com/gpumem.",
    )
)

requests = st.one_of(
    *[st.sampled_from((100, 4000, 9000, 50_000)).map(volcano)] * 4,
    st.builds(volcano, st.just(4000), cores=st.sampled_from((30, 80, 150))),
    st.just({"nvidia.com/gpu": 2}),
    st.just({"nvidia.com/mig-3g.20gb": 1}),
    st.just({"amd.com/gpu": 1}),
    st.just({"volcano.sh/vgpu-memroy": 1}),
    st.just({"metax-tech.com/sgpu": 1}),
    st.just({"cpu": 1}),
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Plain]:
    """Nodes in order of their names, as the API server lists them, bound pods and a waiting one."""
    things: list[Plain] = []
    for number in range(draw(st.sampled_from((0, 1, 2, 3, 4, 4)))):
        spec = {"unschedulable": draw(seldom), "taints": draw(taints) if draw(seldom) else []}
        made = node(
            f"n{number}",
            draw(st.sampled_from((0, 1, 2, 2))),
            draw(st.sampled_from((5000, 10_000))) * MIB,
            {"spec": spec},
        )
        made["metadata"]["labels"] = draw(labels)
        if draw(st.booleans()):
            amounts = {"nvidia.com/gpu": str(draw(st.integers(0, 3)))}
            made["status"] = {"capacity": amounts, "allocatable": amounts}
        things.append(made)
        if draw(st.booleans()):
            memory = draw(st.sampled_from((1000, 4000)))
            things.append(volcano_bound(f"bound-{number}", memory, on=f"n{number}"))
        if draw(st.booleans()):
            plain = pod(f"plain-{number}", {"nvidia.com/gpu": 1}, spec={"nodeName": f"n{number}"})
            things.append(plain)
    if draw(seldom):
        limits = draw(st.sampled_from(({"cards": 1}, {"memory": "6Gi"}, {"compute": 40})))
        things.append(
            {
                "apiVersion": "dragoman.dev/v1alpha1",
                "kind": "ShareQuota",
                "metadata": {"name": "quota", "namespace": "default"},
                "spec": {"limits": limits},
            }
        )
    if draw(seldom):
        things.append(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "host", "namespace": "default"},
                "spec": {"hard": {"limits.nvidia.com/gpumem": draw(st.sampled_from((500, 5000)))}},
            }
        )
    wants: Plain = {"tolerations": draw(tolerations)}
    if draw(seldom):
        wants["nodeSelector"] = draw(labels)
    if draw(seldom):
        wants["affinity"] = draw(affinities)
    status: Plain = {"phase": "Pending"}
    if draw(st.booleans()):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": draw(messages),
            }
        ]
    limits = draw(requests)
    if draw(st.booleans()):
        things.append(pod(NAME, limits, metadata={"uid": "uid-waits"}, spec=wants, status=status))
        return things
    api, least = draw(st.sampled_from(APIS)), draw(st.integers(1, 3))
    things.append(group(api, least, namespace="default"))
    others = draw(st.lists(requests, min_size=least - 1, max_size=least - 1))
    things += [member(f"other-{at}", api, limits=each) for at, each in enumerate(others)]
    things.append(member(NAME, api, limits=limits, spec=wants, status=status))
    return things


@pytest.fixture(autouse=True, scope="module")
def static_files() -> Iterator[None]:
    """The files of the page are packed once, not for each example."""
    packed = StaticFiles()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "StaticFiles", lambda: packed)
        yield


async def of_service(found: Manifests) -> Plain:
    """What HTTP, page and gRPC answer."""
    async with AsyncExitStack() as stack:
        log: Any = structlog.wrap_logger(structlog.ReturnLogger())
        composed = await without_cluster(
            read(None, {"DRAGOMAN_STORE": "memory"}), {}, static_inventory(found), log, stack
        )
        runtime = composed.runtime
        for task in composed.tasks:
            task.close()
        await runtime.service.waiting_answers.round(runtime._unbound())
        app = runtime.app(composed.routes)
        api = await got(app, f"/api/explain?pod=default/{NAME}")
        page = await got(app, f"/api/dashboard/explain?name=default/{NAME}")
        rows = await got(app, "/api/dashboard/pending")
        own = (row for row in rows["rows"] if row["pod"] == f"default/{NAME}")
        answers = {"api": api, "page": page, "row": next(own, None)}
        return {**answers, "grpc": await grpc(runtime)}


async def got(app: Any, path: str) -> Plain:
    answer = await call(app, "GET", path)
    assert answer is not None
    plain: Plain = answer.json
    return plain


async def grpc(runtime: ServiceRuntime) -> pb.ExplainResponse | str:
    try:
        return await Calls(runtime.service).explain(pb.ExplainRequest(pod=pb.Pod(name=NAME)))
    except ValueError as error:
        return str(error)


@given(clusters())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_six_say_the_same(things: list[Plain]) -> None:
    found = manifests([Source("things", stream(*things), named=True)])
    fleet = read_fleet(found, Defaults())
    waiting = fleet.pods[f"default/{NAME}"]

    explained = explain(fleet, waiting)
    shown = as_plain(explained)
    rows = [row.fields for row in pending(fleet, None).rows]
    (line,) = (e for e in Run(fleet, RunOptions(Defaults(), 0)).place_all() if e.pod.name == NAME)
    service = asyncio.run(of_service(found))

    summary = shown["summary"]
    rows = [each for each in rows if each["pod"] == NAME]
    row, api, page, grpc = service["row"], service["api"], service["page"], service["grpc"]
    if line.gang is not None:
        event("is in a gang")
    if line.result is PodResult.SKIPPED:
        event("requests no share")
        assert (rows, row) == ([], None)
        assert {summary, api["summary"], page["summary"], grpc.summary} == {summary}
        assert shown["notes"] == api["notes"] == page["notes"] == list(grpc.notes)
        return
    assert [each["reason"] for each in rows] == [row["reason"]] == [summary]
    if line.result is PodResult.INVALID:
        event("invalid")
        assert {line.summary, api["error"], page["error"], grpc} == {summary}
        return
    assert {api["summary"], page["summary"], grpc.summary} == {summary}
    assert shown["notes"] == api["notes"] == page["notes"] == list(grpc.notes)
    assert shown["best"] == api["best"] == page["best"] == (grpc.best or None)
    assert shown["fits"] == api["fits"] == page["fits"] == list(grpc.fits)
    assert rows[0]["fits"] == len(explained.answer.fitting)
    groups = [
        {"text": each.text, "nodes": each.nodes, "examples": list(each.examples)}
        for each in grpc.groups
    ]
    assert shown["groups"] == api["groups"] == page["groups"] == groups
    assert shown["reasons"] == api["nodes"] == dict(grpc.refused)
    if line.result is PodResult.PLACED:
        event("fits")
        assert line.node == shown["best"]
    else:
        event("fits none")
        assert (line.summary, dict(line.reasons)) == (summary, shown["reasons"])
        assert shown["best"] is None


@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize("api", APIS)
def test_what_the_scheduler_said_of_a_pod_of_a_gang_is_said_by_all(api: str, cards: int) -> None:
    """The pod would fit alone; a node is named only if the pod would go there."""
    short = "0/1 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": short,
    }
    status = {"phase": "Pending", "conditions": [condition]}
    things = [
        node(cards=cards),
        group(api, 2, namespace="default"),
        member("other", api),
        member(NAME, api, status=status),
    ]
    found = manifests([Source("things", stream(*things), named=True)])
    fleet = read_fleet(found, Defaults())

    summary = str(as_plain(explain(fleet, fleet.pods[f"default/{NAME}"]))["summary"])
    service = asyncio.run(of_service(found))

    assert ("Insufficient" in summary) == (cards == 2)
    said = (service["api"]["summary"], service["page"]["summary"], service["row"]["reason"])
    assert {*said, service["grpc"].summary} == {summary}


@pytest.mark.parametrize("held", [0, 1, 2])
@pytest.mark.parametrize("expression", ["", " && device.attributes['x'].y == 'z'"])
def test_all_say_the_same_of_a_pod_with_a_claim(held: int, expression: str) -> None:
    driver = f'device.driver == "gpu.nvidia.com"{expression}'
    asks = waiting(NAME) | {"metadata": {"name": NAME, "uid": "uid-waits"}}
    things = [
        node(cards=2),
        node("node-b"),
        a_slice(uuid(0), uuid(1)),
        a_class(driver),
        *(a_claim(f"gpu-{at}", f"c{at}") for at in range(held)),
        unallocated(),
        asks,
    ]
    found = manifests([Source("things", stream(*things), named=True)])
    fleet = read_fleet(found, Defaults())

    shown = as_plain(explain(fleet, fleet.pods[f"default/{NAME}"]))
    (row,) = pending(fleet, None).rows
    service = asyncio.run(of_service(found))

    api, page, grpc, listed = (service[each] for each in ("api", "page", "grpc", "row"))
    summaries = {row.fields["reason"], api["summary"], page["summary"], grpc.summary}
    assert {*summaries, listed["reason"]} == {shown["summary"]}
    assert shown["best"] == api["best"] == page["best"] == (grpc.best or None)
    assert (shown["best"] is None) == (held == 2)
    assert shown["reasons"] == api["nodes"] == dict(grpc.refused)
    assert (listed["dialect"], listed["devices"]) == ("dra", {"gpu": 1})
    assert row.fields["request"] == "1 gpu"
