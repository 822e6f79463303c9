"""Before Dragoman is installed: pods of NVIDIA's plugin, which later tests look at again."""

import pytest

from e2e.kind import nvidia
from e2e.kind.plain_pods import containers, differences, plain
from e2e.kind.pods import create, environment
from e2e.kind.shell import sh, wait_for


@pytest.mark.usefixtures("gpu_node")
def test_the_kubelet_assigns_what_the_device_plugin_has() -> None:
    daemons = plain("validator")
    daemons["spec"]["nodeSelector"] = {"nvidia.com/gpu.present": "true"}
    template = {"metadata": {"labels": {"app": "validator"}}, "spec": daemons["spec"]}
    create(plain("trainer"))
    create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "validator", "namespace": nvidia.SPACE},
            "spec": {"selector": {"matchLabels": {"app": "validator"}}, "template": template},
        }
    )

    wait_for("pod/trainer", "--for=condition=Ready")
    sh(f"kubectl rollout status daemonset/validator --namespace={nvidia.SPACE} --timeout=60s")

    assert environment("trainer")["NVIDIA_VISIBLE_DEVICES"] in nvidia.CARDS
    assert len(containers("app=validator", nvidia.SPACE)) == 1


def test_plain_pods_and_their_controls_are_equal() -> None:
    assert differences() == []
