"""What tests of Volcano's scheduler share: configuration, groups, answers for its extender."""

import json
import re
from collections.abc import Sequence
from typing import Any

from e2e.harness.cluster.api import Api, Object
from e2e.harness.doubles.recorder import Answer, Call, Recorder
from e2e.harness.processes.process import Process
from e2e.harness.processes.waiting import within

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
NUMBER, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"

# Status of a task: volcano.sh/volcano pkg/scheduler/api/types.go
STATUS = {1: "Pending", 2: "Allocated", 4: "Pipelined", 32: "Running", 64: "Releasing"}


def configuration(
    extender: Recorder,
    actions: str = "enqueue, allocate, backfill",
    *,
    tier: int = 1,
    managed: object = (NUMBER, MEMORY),
    plugins: Sequence[str] = (),
    **more: object,
) -> str:
    """``volcano-scheduler.conf`` with stock plugins and the extender.

    Args:
        extender: that it calls.
        actions: in order.
        tier: 0 or 1, the tier in which the extender stands.
        managed: the extender's resources.
        plugins: further plugins of the second tier.
        more: further arguments of the extender.
    """
    verbs = {
        "predicateVerb": "predicate",
        "prioritizeVerb": "prioritize",
        "preemptableVerb": "preemptable",
        "reclaimableVerb": "reclaimable",
        "allocateFuncVerb": "allocate",
        "deallocateFuncVerb": "deallocate",
    }
    arguments: dict[str, object] = {"urlPrefix": extender.url, "httpTimeout": "5s"}
    arguments |= {**verbs, "managedResources": managed, **more}
    entry = {
        "name": "extender",
        "arguments": {f"extender.{key}": value for key, value in arguments.items()},
    }
    tiers: list[list[Object]] = [
        [
            {"name": "priority"},
            {"name": "gang", "enablePreemptable": False},
            {"name": "conformance"},
        ],
        [{"name": name} for name in ("predicates", "proportion", "nodeorder", *plugins)],
    ]
    tiers[tier].append(entry)
    return json.dumps({"actions": actions, "tiers": [{"plugins": tier} for tier in tiers]})


def wait_for_cache(scheduler: Process, nodes: int) -> None:
    """Wait until vc-scheduler has had a session with ``nodes`` nodes in its cache.

    Its first sessions may see only a part of them: it fills its cache while it runs.
    Source: volcano v1.14.1 pkg/scheduler/cache/cache.go, Snapshot, which logs it at verbosity 3.
    """
    pattern = re.compile(rf'"SnapShot for scheduling" .*NodeNum={nodes}$', re.MULTILINE)
    within(60, lambda: pattern.search(scheduler.output()) is not None)


def agreeing() -> dict[str, Answer]:
    """Every node fits, no node is better, every victim may go."""
    return {
        "predicate": lambda _: {"status": "", "code": 0},
        "prioritize": lambda _: {"nodeScore": {}, "errorMessage": ""},
        "preemptable": _all_may_go,
        "reclaimable": _all_may_go,
        "allocate": lambda _: {"errorMessage": ""},
        "deallocate": lambda _: {"errorMessage": ""},
    }


def _all_may_go(call: Call) -> Any:
    return {"status": 1, "victims": call.json()["evictees"]}


def story(calls: Sequence[Call]) -> list[str]:
    """One line for a call: verb, pod, node, status of the task; repeated ones are counted."""
    lines: list[list[Any]] = []
    for call in calls:
        said = call.json()
        task = said.get("task") or said["evictor"]
        node = f" {task['NodeName']}" if task["NodeName"] else ""
        status = STATUS.get(task["Status"], str(task["Status"]))
        line = f"{call.verb} {task['Name']}{node} {status}"
        if lines and lines[-1][0] == line:
            lines[-1][1] += 1
        else:
            lines.append([line, 1])
    return [line if count == 1 else f"{line} x{count}" for line, count in lines]


def add_group(api: Api, name: str, members: int, queue: str = "default") -> None:
    """Add a pod group that starts with ``members`` members or not at all."""
    spec = {"minMember": members, "queue": queue}
    api.create(
        GROUPS,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        },
    )


def add_queue(api: Api, name: str) -> None:
    """A queue of weight 1 that others may reclaim from."""
    spec = {"weight": 1, "reclaimable": True}
    api.create(
        QUEUES,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        },
    )
