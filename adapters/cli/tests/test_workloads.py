"""Workloads in place of pods: their replicas and gangs, as their controllers would make them."""

from pathlib import Path
from typing import Any

import pytest

from adapters.cli.tests.builders import (
    Plain,
    node,
    pod,
    report,
    run,
    stream,
    volcano,
    volcano_bound,
    write,
)
from adapters.cli.tests.command import as_plain, command

SHARE = volcano(4000)
"""Two of it fit on a card of a node of the builder."""


def template(limits: Plain | None = None, metadata: Plain | None = None, **spec: Any) -> Plain:
    container = {"name": "main", "resources": {"limits": SHARE if limits is None else limits}}
    return {"metadata": metadata or {}, "spec": {"containers": [container], **spec}}


def thing(kind: str, spec: Plain, api: str = "apps/v1", name: str = "w", **metadata: Any) -> Plain:
    meta = {"name": name, "namespace": "ml", **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def deployment(replicas: object = 3, **metadata: Any) -> Plain:
    spec = {"replicas": replicas, "template": template()}
    return thing("Deployment", spec, **metadata)


def names(*things: Plain) -> list[str]:
    return [each["name"] for each in report(*things)["pods"]]


def lines(*things: Plain) -> list[Plain]:
    found: list[Plain] = report(*things)["workloads"]
    return found


WORKER = {"template": template()}
TASKS = [{"name": "ps", "replicas": 1, **WORKER}, {"name": "worker", "replicas": 2, **WORKER}]
TORCH = {"Master": {"replicas": 1, **WORKER}, "Worker": {"replicas": 2, **WORKER}}
RAY = {
    "headGroupSpec": {"template": template({})},
    "workerGroupSpecs": [
        {"groupName": "a", "replicas": 1, "minReplicas": 2, **WORKER},
        {"groupName": "b", "minReplicas": 1, "numOfHosts": 2, **WORKER},
    ],
}
KINDS: dict[str, tuple[Plain, list[str]]] = {
    "Deployment": (deployment(2), ["w-0", "w-1"]),
    "Deployment without replicas": (thing("Deployment", WORKER), ["w-0"]),
    "ReplicaSet": (thing("ReplicaSet", {"replicas": 2, **WORKER}), ["w-0", "w-1"]),
    "StatefulSet": (thing("StatefulSet", {"replicas": 2, **WORKER}), ["w-0", "w-1"]),
    "ReplicationController": (
        thing("ReplicationController", {"replicas": 1, **WORKER}, "v1"),
        ["w-0"],
    ),
    "Job": (thing("Job", WORKER, "batch/v1"), ["w-0"]),
    "Job of two at once": (
        thing("Job", {"parallelism": 2, "completions": 9, **WORKER}, "batch/v1"),
        ["w-0", "w-1"],
    ),
    "Job of fewer completions": (
        thing(
            "Job",
            {"parallelism": 9, "completions": 2, "completionMode": "Indexed", **WORKER},
            "batch/v1",
        ),
        ["w-0", "w-1"],
    ),
    "CronJob": (
        thing("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, **WORKER}}}, "batch/v1"),
        ["w-0", "w-1"],
    ),
    "DaemonSet": (thing("DaemonSet", WORKER), ["w-0"]),
    "Volcano Job": (
        thing("Job", {"tasks": TASKS}, "batch.volcano.sh/v1alpha1"),
        ["w-ps-0", "w-worker-0", "w-worker-1"],
    ),
    "PyTorchJob": (
        thing("PyTorchJob", {"pytorchReplicaSpecs": TORCH}, "kubeflow.org/v1"),
        ["w-master-0", "w-worker-0", "w-worker-1"],
    ),
    "MPIJob": (
        thing(
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": {"template": template({})}, "Worker": WORKER}},
            "kubeflow.org/v2beta1",
        ),
        ["w-launcher-0", "w-worker-0"],
    ),
    "RayCluster": (
        thing("RayCluster", RAY, "ray.io/v1"),
        ["w-head-0", "w-a-0", "w-a-1", "w-b-0", "w-b-1"],
    ),
    "JobSet": (
        thing(
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "r", "replicas": 2, "template": {"spec": {"parallelism": 2, **WORKER}}}
                ]
            },
            "jobset.x-k8s.io/v1alpha2",
        ),
        ["w-0", "w-1", "w-2", "w-3"],
    ),
    "LeaderWorkerSet": (
        thing(
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}},
            "leaderworkerset.x-k8s.io/v1",
        ),
        ["w-0", "w-1", "w-2", "w-3"],
    ),
    "LeaderWorkerSet with a leader's template": (
        thing(
            "LeaderWorkerSet",
            {
                "leaderWorkerTemplate": {
                    "size": 3,
                    "leaderTemplate": template({}),
                    "workerTemplate": template(),
                }
            },
            "leaderworkerset.x-k8s.io/v1",
        ),
        ["w-leader-0", "w-worker-0", "w-worker-1"],
    ),
    "InferenceService": (
        thing(
            "InferenceService",
            {"predictor": {"minReplicas": 2, "model": {"resources": {"limits": SHARE}}}},
            "serving.kserve.io/v1beta1",
        ),
        ["w-0", "w-1"],
    ),
    "Knative's Service, whose containers need no names": (
        thing(
            "Service",
            {"template": {"spec": {"containers": [{"resources": {"limits": SHARE}}]}}},
            "serving.knative.dev/v1",
        ),
        ["w-0"],
    ),
    "any with a pod template": (
        thing("Fleet", {"replicas": 2, "podTemplate": template()}, "example.com/v1"),
        ["w-0", "w-1"],
    ),
    "with a generated name": (
        {**deployment(1), "metadata": {"generateName": "run-", "namespace": "ml"}},
        ["run-0"],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_has_the_pods_that_its_controller_makes(kind: str) -> None:
    workload, expected = KINDS[kind]

    found = report(node(cards=4), workload)

    assert [each["name"] for each in found["pods"]] == expected
    assert {each["namespace"] for each in found["pods"]} == {"ml"}
    asked = [each for each in found["pods"] if each["dialect"]]
    assert all(each["node"] for each in asked)
    (line,) = found["workloads"]
    assert line["replicas"] == len(expected)
    assert line["fit"] == line["requestShares"] == len(asked)


@pytest.mark.parametrize("kind", KINDS)
def test_each_workload_can_be_asked_about(kind: str, tmp_path: Path) -> None:
    workload, expected = KINDS[kind]
    coming = write(tmp_path, "coming.json", stream(workload))

    found = as_plain("whatif", "--pods", coming, things=[node(cards=4)])
    explained = as_plain("explain", "pod", f"ml/{expected[-1]}", things=[node(), workload])

    assert {each["pod"] for each in found["items"]} <= {*expected}
    assert found["workloads"][0]["replicas"] == len(expected)
    assert explained["best"] == "node-a"


def test_how_many_replicas_fit_is_a_line_of_the_table() -> None:
    done = run("-f", "-", stdin=stream(node(cards=1), deployment()))

    assert done.exit_code == 1
    assert "deployment ml/w: 2 of 3 replicas fit\n" in done.stdout
    assert "2 of 3 pods placed" in done.stdout
    done = run("-f", "-", "--summary", stdin=stream(node(cards=1), deployment()))
    assert "deployment ml/w: 2 of 3 replicas fit\n" in done.stdout
    done = run("-f", "-", "-n", "web", stdin=stream(node(cards=1), deployment()))
    assert "deployment" not in done.stdout


def test_yaml_and_json_have_the_workloads_where_there_are_any() -> None:
    (line,) = lines(node(cards=1), deployment())

    assert line == {
        "kind": "Deployment", "namespace": "ml", "name": "w",
        "replicas": 3, "requestShares": 3, "fit": 2,
    }  # fmt: skip
    done = run("-f", "-", "-o", "yaml", stdin=stream(node(cards=1), deployment()))
    assert "workloads:\n- kind: Deployment\n" in done.stdout
    assert "workloads" not in report(node(), pod("p", SHARE))


def test_a_workload_that_requests_no_share_says_so() -> None:
    plain = thing("Deployment", {"replicas": 2, "template": template({})})

    done = run("-f", "-", stdin=stream(node(), plain))

    assert done.exit_code == 0
    assert "deployment ml/w: 2 replicas request no share\n" in done.stdout


def test_whatif_says_how_many_replicas_fit(tmp_path: Path) -> None:
    coming = write(tmp_path, "coming.json", stream(deployment()))

    done = command("whatif", "--pods", coming, things=[node(cards=1)])

    assert done.exit_code == 1
    assert done.stdout.endswith("deployment ml/w: 2 of 3 replicas fit\n")


def test_explain_knows_a_workload_by_its_name() -> None:
    things = [node(cards=1), volcano_bound("full", 9000), deployment()]

    done = command("explain", "deployment/w", "-n", "ml", things=things)

    assert done.exit_code == 1
    assert done.stdout.startswith("ml/w-0 (volcano) is pending: fits none of 1 node")
    assert command("explain", "deployment", "w", things=things).stdout == done.stdout
    assert command("explain", "deploy/ml/w", things=things).stdout == done.stdout
    unknown = command("explain", "deployment/x", things=things)
    assert unknown.exit_code == 2
    assert "must be: pod NAME; workloads: deployment ml/w" in unknown.stderr


def test_explain_takes_the_pod_of_a_workload_that_waits() -> None:
    waits = owned("w-5f7b-y", "ReplicaSet", "w-5f7b")
    runs = owned("w-5f7b-x", "ReplicaSet", "w-5f7b")
    runs["spec"]["nodeName"] = "node-a"

    done = command("explain", "deployment/w", things=[node(), runs, waits])

    assert done.stdout.startswith("ml/w-5f7b-y (volcano)")


def owned(name: str, kind: str, owner: str, **more: object) -> Plain:
    reference = {"kind": kind, "name": owner, "controller": True, **more}
    labels = {"pod-template-hash": "5f7b"} if owner == "w-5f7b" else {}
    meta = {"namespace": "ml", "ownerReferences": [reference], "labels": labels}
    return pod(name, SHARE, metadata=meta)


def test_a_workload_whose_pods_exist_makes_none() -> None:
    of = [{"kind": "Deployment", "name": "w", "controller": True}]
    replica_set = thing("ReplicaSet", {"replicas": 3, **WORKER}, name="w-5f7b", ownerReferences=of)
    pods = [owned("w-5f7b-x", "ReplicaSet", "w-5f7b"), owned("w-5f7b-y", "ReplicaSet", "w-5f7b")]
    stateful = thing("StatefulSet", {"replicas": 2, **WORKER}, name="s")

    found = report(node(cards=4), deployment(), replica_set, *pods, stateful)

    assert [each["name"] for each in found["pods"]] == ["w-5f7b-x", "w-5f7b-y", "s-0", "s-1"]
    assert [each["name"] for each in found["workloads"]] == ["s"]
    assert names(node(cards=4), deployment(), *pods) == ["w-5f7b-x", "w-5f7b-y"]


def test_a_replica_set_of_its_own_is_not_the_deployment_whose_name_it_begins_with() -> None:
    own = thing("ReplicaSet", {"replicas": 1, **WORKER}, name="w-v2")
    theirs = owned("w-v2-x", "ReplicaSet", "w-v2")
    job = owned("w-2-x", "Job", "w-2")
    cron = thing("CronJob", {"jobTemplate": {"spec": WORKER}}, "batch/v1")
    minutely = owned("w-29400000-x", "Job", "w-29400000")

    for things in ([own, theirs], [theirs]):
        assert names(node(cards=4), deployment(1), *things) == ["w-v2-x", "w-0"]
    assert names(node(cards=4), cron, job) == ["w-2-x", "w-0"]
    assert names(node(cards=4), cron, minutely) == ["w-29400000-x"]


def test_the_owner_of_a_known_replica_set_counts_not_its_name() -> None:
    of = [{"kind": "Deployment", "name": "v", "controller": True}]
    replica_set = thing("ReplicaSet", {"replicas": 1, **WORKER}, name="w-v2", ownerReferences=of)

    found = names(node(cards=4), deployment(1), replica_set, owned("w-v2-x", "ReplicaSet", "w-v2"))

    assert found == ["w-v2-x", "w-0"]


@pytest.mark.parametrize("spec", [{"suspend": True}, {"runPolicy": {"suspend": True}}])
def test_what_is_suspended_in_a_cluster_makes_no_pods(spec: Plain) -> None:
    manifest = thing("Job", {**WORKER, **spec}, "batch/v1")
    waiting = thing("Job", {**WORKER, **spec}, "batch/v1", uid="u-w")

    asked = run("-f", "-", stdin=stream(node(), manifest))
    done = run("-f", "-", stdin=stream(node(), waiting, deployment(1)))

    assert (asked.exit_code, done.exit_code) == (0, 0)
    assert "1 of 1 pods placed" in asked.stdout
    assert "suspended" not in asked.stderr
    assert "1 of 1 pods placed" in done.stdout
    assert "note: without pods, because suspended: job ml/w\n" in done.stderr


def test_jobs_of_two_groups_may_have_one_name() -> None:
    two = [thing("Job", WORKER, "batch/v1"), thing("Job", {"tasks": TASKS[:1]}, VOLCANO_API)]

    assert names(node(cards=4), *two) == ["w-0", "w-job-0"]
    done = run("-f", "-", stdin=stream(node(), two[0], two[0]))
    assert "Job ml/w: is a duplicate; the first one is at stdin:2" in done.stderr


def test_what_another_workload_of_the_input_makes_is_not_made_twice() -> None:
    cron = thing("CronJob", {"jobTemplate": {"spec": WORKER}}, "batch/v1", uid="u")
    job = thing(
        "Job", WORKER, "batch/v1", name="w-1",
        ownerReferences=[{"kind": "CronJob", "name": "w", "uid": "u", "controller": True}],
    )  # fmt: skip

    assert names(node(cards=4), job, cron) == ["w-0"]
    assert names(node(cards=4), job) == ["w-1-0"]


def test_a_dump_of_a_cluster_has_the_pods_that_there_are() -> None:
    cron = thing("CronJob", {"jobTemplate": {"spec": WORKER}}, "batch/v1", uid="u")
    running = volcano_bound("a", 4000)

    found = report(node(), running, cron)

    assert [each["name"] for each in found["pods"]] == ["a"]
    assert "workloads" not in found
    assert names(node(), cron) == ["w-0"]


def test_finished_and_deleted_workloads_make_no_pods() -> None:
    ended = thing("Job", WORKER, "batch/v1")
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    going = deployment(deletionTimestamp="2026-01-01T00:00:00Z")
    volcanos = thing("Job", {"tasks": TASKS}, VOLCANO_API, name="v")
    volcanos["status"] = {"state": {"phase": "Completed"}, "conditions": [{"status": "Completed"}]}

    assert names(node(), ended, going, volcanos) == []


@pytest.mark.parametrize(
    "status",
    ["Ready", {"state": "ready"}, {"conditions": {}}, {"conditions": ["x", {"status": True}]}],
)
def test_a_status_may_have_any_shape(status: object) -> None:
    other = thing("Notebook", WORKER, "kubeflow.org/v1")
    other["status"] = status

    assert names(node(), other) == ["w-0"]


def test_a_pod_of_a_daemon_set_is_for_its_node() -> None:
    spec = {"template": template(nodeSelector={"pool": "gpu"})}
    labels = {"labels": {"pool": "gpu"}}
    nodes = [node("a"), node("b"), node("c")]
    for each in nodes[1:]:
        each["metadata"].update(labels)
    nodes[2]["spec"] = {"unschedulable": True}

    found = report(*nodes, thing("DaemonSet", spec))

    assert [(each["name"], each["node"]) for each in found["pods"]] == [("w-0", "b"), ("w-1", "c")]
    assert lines(*nodes, thing("DaemonSet", spec))[0]["fit"] == 2


def test_daemon_sets_reach_the_nodes_that_whatif_adds(tmp_path: Path) -> None:
    coming = write(tmp_path, "coming.json", stream(thing("DaemonSet", WORKER)))

    found = as_plain("whatif", "--add", "node-a=2", "--pods", coming, things=[node()])

    assert [each["then"] for each in found["items"]] == ["node-a", "node-a-new-1", "node-a-new-2"]


VOLCANO_API = "batch.volcano.sh/v1alpha1"


@pytest.mark.parametrize(
    ("more", "fit"),
    [({}, 0), ({"minAvailable": 2}, 2), ({"schedulerName": "default-scheduler"}, 2)],
)
def test_volcanos_job_is_a_gang_of_its_least_number(more: Plain, fit: int) -> None:
    tasks = [{"name": "worker", "replicas": 3, **WORKER}]

    (line,) = lines(node(cards=1), thing("Job", {"tasks": tasks, **more}, VOLCANO_API))

    assert (line["fit"], line["replicas"]) == (fit, 3)


def test_the_tasks_of_volcanos_job_have_least_numbers() -> None:
    tasks = [
        {"name": "m", "replicas": 1, "template": template(volcano(9000))},
        {"name": "w", "replicas": 4, "minAvailable": 1, **WORKER},
    ]
    job = thing("Job", {"minAvailable": 2, "tasks": tasks}, VOLCANO_API)

    found = report(node(cards=1), job)

    assert {each["node"] for each in found["pods"]} == {None}
    assert found["pods"][0]["gang"] == {
        "name": "ml/w", "api": "PodGroup of scheduling.volcano.sh", "minimum": 2,
    }  # fmt: skip


@pytest.mark.parametrize("scheduler", ["volcano", ""])
def test_kubeflows_job_is_a_gang_only_where_it_states_a_policy(scheduler: str) -> None:
    replicas = {"Worker": {"replicas": 3, "template": template(schedulerName=scheduler)}}
    job = thing("PyTorchJob", {"pytorchReplicaSpecs": replicas}, "kubeflow.org/v1")
    gang = thing(
        "PyTorchJob",
        {
            "pytorchReplicaSpecs": replicas,
            "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
        },
        "kubeflow.org/v1",
    )

    assert lines(node(cards=1), job)[0]["fit"] == 2
    assert lines(node(cards=1), gang)[0]["fit"] == 0
    gang["spec"]["runPolicy"]["schedulingPolicy"] = {"queue": "q"}
    assert lines(node(cards=1), gang)[0]["fit"] == 0


def test_each_group_of_a_leader_worker_set_is_a_gang_under_volcano() -> None:
    group = {"size": 2, "workerTemplate": template(schedulerName="volcano")}
    groups = thing(
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": group},
        "leaderworkerset.x-k8s.io/v1",
    )
    used = volcano_bound("a", 4000)

    assert lines(node(cards=2), used, groups)[0]["fit"] == 2


def test_annotations_of_the_template_make_a_gang() -> None:
    texts = {
        "gang.scheduling.koordinator.sh/name": "g",
        "gang.scheduling.koordinator.sh/min-available": "3",
    }
    spec = {"replicas": 3, "template": template(metadata={"annotations": texts})}

    assert lines(node(cards=1), thing("Deployment", spec))[0]["fit"] == 0


def test_the_pods_of_an_inference_service_have_its_annotations_and_node_selector() -> None:
    predictor = {
        "nodeSelector": {"pool": "x"},
        "model": {"modelFormat": {"name": "vllm"}, "resources": {"limits": SHARE}},
    }
    service = thing("InferenceService", {"predictor": predictor}, "serving.kserve.io/v1beta1")
    service["metadata"]["annotations"] = {"volcano.sh/vgpu-mode": "mig"}

    found = report(node(), service)["pods"][0]["explanation"]

    assert "lacks the label pool=x" in found["summary"]
    del predictor["nodeSelector"]
    assert report(node(), service)["pods"][0]["node"] is None


BAD = {
    "negative": (deployment(-1), "spec.replicas: -1: must be a whole number from 0 to 10,000"),
    "text": (deployment("x"), "spec.replicas: 'x': must be a whole number from 0 to 10,000"),
    "true": (
        deployment(replicas=True),
        "spec.replicas: True: must be a whole number",
    ),
    "a fraction": (deployment(1.5), "spec.replicas: 1.5: must be a whole number"),
    "a list": (deployment([1]), "spec.replicas: [1]: must be a whole number"),
    "huge": (
        thing("Job", {"parallelism": 10**12, **WORKER}, "batch/v1"),
        "Job ml/w: spec.parallelism: 1000000000000: must be a whole number from 0 to 10,000",
    ),
    "a product": (
        thing(
            "JobSet",
            {
                "replicatedJobs": [
                    {
                        "name": "r",
                        "replicas": 200,
                        "template": {"spec": {"parallelism": 200, **WORKER}},
                    }
                ]
            },
            "jobset.x-k8s.io/v1alpha2",
        ),
        "JobSet ml/w: makes 40,000 pods; at most 10,000 of one object are placed",
    ),
    "no template": (thing("Deployment", {"replicas": 1}), "Deployment ml/w: has no pod template"),
    "no spec": (thing("Job", {}, "batch/v1"), "Job ml/w: has no pod template"),
    "no name": (deployment(namespace="ml", name=""), "metadata.name is missing"),
    "a container without a name": (
        thing("Deployment", {"template": {"spec": {"containers": [{"image": "x"}]}}}),
        "Deployment ml/w: spec.template.spec.containers[0].name is missing",
    ),
    "no containers": (
        thing("Deployment", {"template": {"spec": {"containers": []}}}),
        "Deployment ml/w: spec.template.spec.containers is missing or empty",
    ),
    "a wrong type": (
        thing("Deployment", {"template": {"spec": {"containers": [{"name": 5}]}}}),
        "Deployment ml/w: spec.template.spec.containers[0].name must be text",
    ),
    "a wrong size": (
        thing(
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 0, "workerTemplate": template()}},
            "leaderworkerset.x-k8s.io/v1",
        ),
        "spec.leaderWorkerTemplate.size: 0: must be a whole number from 1 to 10,000",
    ),
    "a wrong least number": (
        thing("Job", {"minAvailable": "all", "tasks": TASKS}, VOLCANO_API),
        "spec.minAvailable: 'all': must be a whole number from 0 to 10,000",
    ),
    "a wrong annotation": (
        deployment(annotations={"a": 5}),
        "metadata.annotations[a] must be text",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_names_the_field(case: str, tmp_path: Path) -> None:
    workload, problem = BAD[case]
    file = write(tmp_path, "w.json", stream(workload))

    done = run("-f", "-", stdin=stream(node(), workload))
    changed = command("whatif", "--pods", file, things=[node()])

    for each in (done, changed):
        assert (each.exit_code, each.stdout) == (2, ""), each.output
        assert each.stderr.startswith("dragoman: ")
        assert problem in each.stderr
        assert each.stderr.count("\n") == 1


def test_a_pod_that_has_the_name_of_a_replica_is_one_where_the_controller_gives_that_name() -> None:
    taken = pod("w-1", SHARE, metadata={"namespace": "ml"})
    stateful = thing("StatefulSet", {"replicas": 3, **WORKER})

    assert names(node(cards=4), stateful, taken) == ["w-1"]
    others = ["w-deployment-0", "w-deployment-1", "w-deployment-2"]
    assert names(node(cards=4), deployment(), taken) == ["w-1", *others]


def test_two_workloads_of_one_name_have_pods_of_different_names() -> None:
    job = thing("Job", WORKER, "batch/v1")

    assert names(node(cards=4), deployment(1), job) == ["w-0", "w-job-0"]
    third = deployment(1, name="w-job")
    assert names(node(cards=4), third, deployment(1), job) == ["w-job-0", "w-0", "w-job-2-0"]


def test_workloads_that_exist_in_the_cluster_cannot_come(tmp_path: Path) -> None:
    coming = write(tmp_path, "coming.json", stream(deployment()))
    exists = owned("w-5f7b-x", "ReplicaSet", "w-5f7b")

    done = command("whatif", "--pods", coming, things=[node(), exists])

    assert done.exit_code == 2
    assert "deployment ml/w: has pods in the cluster already, such as ml/w-5f7b-x" in done.stderr


def test_other_commands_take_the_pods_that_exist() -> None:
    things = [node(), pod("p", SHARE), deployment()]

    for words in (("top",), ("pending",), ("audit",)):
        done = command(*words, things=things)
        assert (done.exit_code, done.stderr) == (0, "")
    done = command("top", things=[deployment()])
    assert done.exit_code == 2
    assert "Deployment ml/w: makes pods, which this command does not" in done.stderr


def test_thousands_of_replicas_are_cheap() -> None:
    plain = thing("Deployment", {"replicas": 4096, "template": template({})})

    assert lines(*(node(f"n{i}") for i in range(50)), plain)[0]["replicas"] == 4096
