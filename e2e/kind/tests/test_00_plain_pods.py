"""Before Dragoman is installed: pods of NVIDIA's plugin, which later tests look at again."""

import pytest

from e2e.kind import nvidia
from e2e.kind.plain_pods import differences, standing, start_standing
from e2e.kind.pods import environment

pytestmark = pytest.mark.usefixtures("gpu_node")


def test_the_kubelet_assigns_what_the_device_plugin_has() -> None:
    start_standing()

    assert environment("trainer")["NVIDIA_VISIBLE_DEVICES"] in nvidia.CARDS
    assert len(standing()) == 2


def test_plain_pods_and_their_controls_are_equal() -> None:
    assert differences() == []
