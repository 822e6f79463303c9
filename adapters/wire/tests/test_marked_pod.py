"""Variables are decoded where the text of a pod has the mark, and nowhere else."""

import msgspec
import pytest

from adapters.wire.body import PodDecoder
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.kube import MarkedPod, Pod, has_variable

MARK = "MARKED"


def decoded(*variables: str) -> Pod:
    env = [{"name": name, "value": "1"} for name in variables]
    spec = {"containers": [{"name": "main", "env": env}], "nodeName": "n1"}
    body = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec}
    return PodDecoder(MARK).decode(msgspec.Raw(msgspec.json.encode(body)))


def test_a_marked_pod_has_its_variables() -> None:
    pod = decoded("PATH", MARK)

    assert isinstance(pod, MarkedPod)
    assert has_variable(pod.spec.containers[0], MARK)
    assert not has_variable(pod.spec.containers[0], "HOME")


def test_another_pod_has_no_variables_and_all_else() -> None:
    pod = decoded("PATH", "HOME")

    assert type(pod) is Pod
    assert not has_variable(pod.spec.containers[0], "PATH")
    assert pod.metadata.labels == {"a": "b"}
    assert pod.spec.node_name == "n1"


def test_a_text_that_is_no_pod_is_rejected() -> None:
    with pytest.raises(UnreadableError):
        PodDecoder(MARK).decode(msgspec.Raw(b'{"metadata": 1}'))
