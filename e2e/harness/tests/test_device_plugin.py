"""The stand-in of NVIDIA's device plugin answers as the plugin does."""

from e2e.harness.node.device_plugin_server import allocated
from e2e.harness.node.proto import device_plugin_pb2 as api


def test_replicas_of_a_shared_card_are_answered_by_the_card() -> None:
    container = api.ContainerAllocateRequest(devices_ids=["GPU-a::0", "GPU-a::3", "GPU-b::1"])
    request = api.AllocateRequest(container_requests=[container])

    answer = api.AllocateResponse.FromString(allocated(request.SerializeToString()))

    (given,) = answer.container_responses
    assert given.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
