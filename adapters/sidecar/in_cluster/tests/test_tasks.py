"""What stands for the cluster, against a server that answers as it is told to."""

import asyncio
import json
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from adapters.cluster.objects.binding import BindingClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.server import Step, client, cut, ok, refusal, serving
from adapters.sidecar.decide.ports import BindError
from adapters.sidecar.in_cluster.tasks import ClusterBinder, ClusterPods, InCluster
from adapters.sidecar.reconcile.cluster_cache import ClusterCache
from adapters.sidecar.settings import Settings, SettingsError
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, PodStatus, Resources
from core.requests.pod_ref import PodRef

POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u1"}, "spec": {}}


def kubeconfig(folder: Path, server: str) -> Path:
    file = folder / "kubeconfig"
    entry = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    file.write_text(json.dumps(entry))
    return file


def checked(folder: Path, *steps: Step) -> list[str]:
    """What is logged when the service looks whether it can start."""
    told = LogCapture()
    level = structlog.make_filtering_bound_logger("debug")
    log = structlog.wrap_logger(None, processors=[told], wrapper_class=level)

    async def main() -> None:
        async with serving(*steps) as server:
            settings = Settings(store="kubernetes", kubeconfig=kubeconfig(folder, server.server))
            there = InCluster(settings, log)
            try:
                await there.check()
            finally:
                await there.close()

    asyncio.run(main())
    return [row["event"] for row in told.entries]


def test_a_cluster_without_our_definition_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="install configs"):
        checked(tmp_path, refusal(404, {"kind": "Status", "code": 404, "reason": "NotFound"}))


def test_a_cluster_that_only_will_not_say_is_waited_for(tmp_path: Path) -> None:
    assert checked(tmp_path, refusal(403, {"kind": "Status", "code": 403})) == [
        "cluster.unreachable"
    ]
    assert checked(tmp_path, ok({"items": []})) == []


def bound(*steps: Step) -> BindError:
    async def main() -> BindError:
        async with serving(*steps) as server, client(server) as api:
            with pytest.raises(BindError) as refused:
                await ClusterBinder(BindingClient(api)).bind(
                    PodRef("default", "a", "u1"), "n1", {"k": "v"}, {}
                )
            return refused.value

    return asyncio.run(main())


def test_a_refused_binding_is_sure_not_to_have_happened() -> None:
    error = bound(refusal(403, {"kind": "Status", "code": 403, "message": "no"}))

    assert (error.status, error.definite) == (403, True)
    assert error.message == "no"


def test_a_binding_without_an_answer_may_have_happened() -> None:
    assert not bound(cut).definite
    assert not bound(refusal(500, {"kind": "Status", "code": 500}), ok(POD)).definite


def test_a_pod_is_asked_for_only_where_no_watch_has_told_it() -> None:
    async def main() -> tuple[Pod | None, Pod | None, int]:
        async with serving(ok(POD)) as server, client(server) as api:
            pods = ClusterPods(PodClient(api))
            asked = await pods.get(PodRef("default", "a"))
            pods.mirror = ClusterCache(lambda _: None)
            pods.mirror.put_pod(a_pod("a", "n1"))
            return asked, await pods.get(PodRef("default", "a")), len(server.requests)

    asked, seen, requests = asyncio.run(main())
    assert asked is not None
    assert seen is not None
    assert (asked.spec.node_name, seen.spec.node_name, requests) == (None, "n1", 1)


def test_a_pod_as_it_is_now_is_asked_for_past_what_a_watch_has_told() -> None:
    async def main() -> Pod | None:
        async with serving(ok(POD)) as server, client(server) as api:
            pods = ClusterPods(PodClient(api))
            pods.mirror = ClusterCache(lambda _: None)
            pods.mirror.put_pod(a_pod("a", "n1", uid="u0"))
            return await pods.newest(PodRef("default", "a"))

    found = asyncio.run(main())
    assert found is not None
    assert found.metadata.uid == "u1"


def a_pod(name: str, node: str | None = None, resource: str = "x.io/card", **more: str) -> Pod:
    container = Container("main", Resources(limits={resource: "1"}))
    return Pod(
        Metadata(name=name, namespace="default", uid=more.pop("uid", name)),
        PodSpec((container,), node_name=node),
        PodStatus(**more),
    )


def test_the_mirror_names_the_nodes_whose_pods_have_changed() -> None:
    named: list[str] = []
    mirror = ClusterCache(named.append)

    mirror.put_pod(a_pod("a"))
    assert named == []
    mirror.put_pod(a_pod("a", "n1"))
    mirror.put_pod(a_pod("plain", "n1", "cpu"))
    assert named == ["n1"]
    assert [pod.metadata.name for pod in mirror.holding("n1")] == ["a"]
    mirror.put_pod(a_pod("a", "n1", phase="Succeeded"))
    assert mirror.holding("n1") == []
    mirror.drop_pod(a_pod("a").metadata)
    assert named == ["n1"] * 4
    assert mirror.pod("default", "a") is None


def test_the_mirror_keeps_little_of_a_pod_that_names_no_extended_resource() -> None:
    mirror = ClusterCache(lambda _: None)
    mirror.put_pod(a_pod("plain", "n1", "cpu"))

    kept = mirror.pod("default", "plain")

    assert kept is not None
    assert (kept.metadata.uid, kept.spec.node_name, kept.spec.containers) == ("plain", "n1", ())
