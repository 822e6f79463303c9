import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.agent import kubelet
from adapters.agent.kubelet import CheckpointError, DeviceAssignment, read_checkpoint
from adapters.agent.nri.protobuf import message, text

# As the kubelet 1.37.1 wrote it in e2e/tests/node/test_kubelet_holdings.py, two of three entries.
WRITTEN = (
    b'{"Data":{"PodDeviceEntries":[{"PodUID":"8e659c75-f01d-476a-b0b0-8292e48a94d4",'
    b'"ContainerName":"c0","ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["GPU-1"]},'
    b'"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBUdQVS0x"},'
    b'{"PodUID":"1466ce8e-f087-4310-995d-851d4eb429b3","ContainerName":"c1",'
    b'"ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["GPU-2"]},'
    b'"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBUdQVS0y"}],'
    b'"RegisteredDevices":{"nvidia.com/gpu":["GPU-2","GPU-3","GPU-0","GPU-1"]}},'
    b'"Checksum":289015452}'
)


def answer(**envs: str) -> str:
    """What a device plugin answers, as the kubelet keeps it."""
    entries = (message(1, text(1, name) + text(2, value)) for name, value in envs.items())
    return base64.b64encode(b"".join(entries) + message(3, text(1, "/dev/nvidia0"))).decode()


def row(**more: object) -> dict[str, object]:
    plain = {"PodUID": "7", "ContainerName": "c", "ResourceName": "nvidia.com/gpu"}
    return {**plain, "DeviceIDs": {"0": ["GPU-0"]}, "AllocResp": answer(), **more}


def file(*rows: object) -> bytes:
    data = {"PodDeviceEntries": list(rows), "RegisteredDevices": {}}
    return json.dumps({"Data": data, "Checksum": 1}).encode()


def test_a_file_of_the_kubelet_is_decoded() -> None:
    resource = "nvidia.com/gpu"
    first, second = "8e659c75-f01d-476a-b0b0-8292e48a94d4", "1466ce8e-f087-4310-995d-851d4eb429b3"
    assert read_checkpoint(WRITTEN) == (
        DeviceAssignment(first, "c0", resource, ("GPU-1",), ("GPU-1",)),
        DeviceAssignment(second, "c1", resource, ("GPU-2",), ("GPU-2",)),
    )


def test_a_device_that_is_near_to_several_numa_nodes_is_one_device() -> None:
    (found,) = read_checkpoint(
        file(row(DeviceIDs={"0": ["GPU-1", "GPU-0"], "1": ["GPU-1"], "2": None}))
    )

    assert found.devices == ("GPU-0", "GPU-1")


def test_visible_devices_are_split_into_items() -> None:
    (found,) = read_checkpoint(
        file(row(AllocResp=answer(OTHER="x", NVIDIA_VISIBLE_DEVICES=" 1, 0,")))
    )

    assert found.visible == ("1", "0")


@pytest.mark.parametrize(
    "data",
    [b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}', file()],
)
def test_a_file_without_assignments_is_valid(data: bytes) -> None:
    assert read_checkpoint(data) == ()


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        WRITTEN[:-40],
        file(row(PodUID="")),
        file(row(PodUID=7)),
        file(row(ContainerName=None)),
        file(row(DeviceIDs=["GPU-0"])),  # as before v1.20
        file(row(DeviceIDs={"0": "GPU-0"})),
        file(row(AllocResp="%")),
        file(row(AllocResp=base64.b64encode(b"\x0a\x05").decode())),
        file(row(), "GPU-0"),
    ],
)
def test_a_file_with_any_invalid_part_is_rejected(bad: bytes) -> None:
    with pytest.raises(CheckpointError, match="invalid kubelet checkpoint"):
        read_checkpoint(bad)


def test_a_file_that_is_too_large_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet, "MAX_FILE", len(WRITTEN) - 1)

    with pytest.raises(CheckpointError, match="more than"):
        read_checkpoint(WRITTEN)


@given(st.one_of(st.binary(), st.binary().map(lambda raw: file(row(AllocResp=_base64(raw))))))
def test_garbage_gives_assignments_or_checkpoint_error_and_nothing_else(data: bytes) -> None:
    try:
        found = read_checkpoint(data)
    except CheckpointError:
        return
    assert all(one.pod for one in found)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
