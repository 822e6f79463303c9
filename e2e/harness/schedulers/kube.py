"""What tests of kube-scheduler's extenders share: configuration, and one that agrees with all."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import bind
from e2e.harness.doubles.recorder import Answer, Call, Recorder


def configuration(
    profile: Object, extender: Recorder, managed: Sequence[str], **more: Any
) -> Object:
    """``KubeSchedulerConfiguration`` with one profile and this extender.

    Args:
        profile: of the scheduler.
        extender: that it calls.
        managed: the extender's resources.
        more: further fields of the extender, or other values; None leaves one out.
    """
    entry = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 1,
        "nodeCacheCapable": True,
        "managedResources": [{"name": name} for name in managed],
        **more,
    }
    return {
        "profiles": [profile],
        "extenders": [{key: value for key, value in entry.items() if value is not None}],
        "percentageOfNodesToScore": 100,
    }


def agreeing(api: Api, annotations: Mapping[str, str]) -> dict[str, Answer]:
    """Every node fits and none is better, every victim may go, and a binding has annotations."""
    return {
        "filter": _all_fit,
        "prioritize": _no_opinion,
        "preempt": _all_may_go,
        "bind": partial(_bind, api, dict(annotations)),
    }


def _all_fit(call: Call) -> Any:
    asked = call.json()
    return {"Nodes": asked["Nodes"], "NodeNames": asked["NodeNames"]}


def _no_opinion(call: Call) -> Any:
    asked = call.json()
    items = (asked["Nodes"] or {}).get("items", [])
    names = asked["NodeNames"] or [item["metadata"]["name"] for item in items]
    return [{"Host": name, "Score": 5} for name in names]


def _all_may_go(call: Call) -> Any:
    """Answer with the victims that were proposed."""
    asked = call.json()
    if (given := asked["NodeNameToMetaVictims"]) is None:
        given = {
            node: {"Pods": [{"UID": each["metadata"]["uid"]} for each in victims["Pods"]]}
            for node, victims in asked["NodeNameToVictims"].items()
        }
    return {"NodeNameToMetaVictims": given}


def _bind(api: Api, annotations: dict[str, str], call: Call) -> Any:
    asked = call.json()
    bind(api, asked["PodName"], asked["Node"], annotations)
    return {}
