import json

import msgspec
import pytest

from adapters.wire.kube import (
    ConfigMap,
    DeviceObject,
    KubeNode,
    Pod,
    annotations,
    full_name,
    labels,
    pod_ref,
)
from core.requests.request import PodRef

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "deletionTimestamp": "2026-01-31T12:00:00Z",
        "ownerReferences": [{"kind": "Job"}],
    },
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"a/b": 1, "c/d": "1Gi"}}}
        ],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "nodeName": "node-a",
        "nodeSelector": {"x": "y"},
        "priority": 5,
        "schedulingGroup": {"podGroupName": "g"},
        "tolerations": [{"operator": "Exists"}],
    },
    "status": {"phase": "Running", "podIPs": []},
}


def test_a_pod_is_read_and_what_is_not_needed_is_passed_over() -> None:
    pod = msgspec.json.decode(json.dumps(POD), type=Pod)

    assert (pod.metadata.name, pod.metadata.namespace, pod.metadata.uid) == ("a", "n", "u")
    assert pod.metadata.deletion_timestamp == "2026-01-31T12:00:00Z"
    assert pod.spec.containers[0].resources.limits == {"a/b": 1, "c/d": "1Gi"}
    assert pod.spec.init_containers is not None
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert (pod.spec.node_name, pod.spec.node_selector) == ("node-a", {"x": "y"})
    assert pod.spec.scheduling_group is not None
    assert pod.spec.scheduling_group.pod_group_name == "g"
    assert (pod.spec.priority, pod.status.phase) == (5, "Running")


def test_plain_objects_are_read_like_json() -> None:
    assert msgspec.convert(POD, Pod) == msgspec.json.decode(json.dumps(POD), type=Pod)


@pytest.mark.parametrize("kind", [Pod, KubeNode, DeviceObject, ConfigMap])
def test_an_empty_object_is_read(kind: type) -> None:
    assert msgspec.convert({}, kind) == kind()


def test_a_device_keeps_the_capitals_of_its_field_names() -> None:
    topology = {"socketID": 1, "nodeID": 2, "pcieID": "p", "busID": "b"}
    info = {"type": "gpu", "id": "x", "minor": 3, "health": True, "topology": topology}

    device = msgspec.convert({"spec": {"devices": [info]}}, DeviceObject)

    assert device.spec.devices is not None
    (found,) = device.spec.devices
    assert (found.type, found.id, found.minor, found.health) == ("gpu", "x", 3, True)
    assert found.topology is not None
    assert msgspec.structs.astuple(found.topology) == (1, 2, "p", "b")


def test_a_device_of_which_nothing_is_said_is_not_healthy() -> None:
    device = msgspec.convert({"spec": {"devices": [{}]}}, DeviceObject)

    assert device.spec.devices is not None
    assert not device.spec.devices[0].health


@pytest.mark.parametrize(
    "metadata", [{}, {"labels": None, "annotations": None}, {"labels": {}, "annotations": {}}]
)
def test_no_labels_and_no_annotations_are_empty(metadata: object) -> None:
    node = msgspec.convert({"metadata": metadata}, KubeNode)

    assert (dict(labels(node)), dict(annotations(node))) == ({}, {})


def test_labels_and_annotations_are_text() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.metadata\.labels"):
        msgspec.convert({"metadata": {"labels": {"a": 1}}}, KubeNode)


def test_a_pod_without_a_namespace_is_in_the_default_one() -> None:
    assert full_name(msgspec.convert({"metadata": {"name": "a"}}, Pod)) == "default/a"
    assert full_name(msgspec.convert(POD, Pod)) == "n/a"


def test_a_pod_is_referred_to_by_namespace_name_and_uid() -> None:
    bare = msgspec.convert({"metadata": {"name": "a", "uid": "u1"}}, Pod)

    assert pod_ref(bare) == PodRef("default", "a", "u1")
    assert str(pod_ref(msgspec.convert(POD, Pod))) == full_name(msgspec.convert(POD, Pod))
