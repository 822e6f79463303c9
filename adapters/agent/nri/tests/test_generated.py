"""The codec against code that protoc generated from the published field numbers."""

from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.nri import messages, ttrpc
from adapters.agent.nri.model import (
    Adjustment,
    ContainerState,
    LinuxDevice,
    Mount,
    NriContainer,
    NriEvent,
    NriEventMask,
    PodSandbox,
    RuntimeInfo,
)
from adapters.agent.nri.tests.proto import nri_pb2, ttrpc_pb2

texts = st.text(max_size=8)
names = st.text(min_size=1, max_size=8)
"""Names of CDI devices: the codec drops an empty name, which no device has."""
numbers = st.integers(-(2**63), 2**63 - 1)
mounts = st.builds(Mount, texts, texts, texts, st.lists(texts, max_size=3).map(tuple))
devices = st.builds(
    LinuxDevice, texts, texts, numbers, numbers, st.none() | st.integers(0, 2**32 - 1)
)
pods = st.builds(
    PodSandbox, texts, texts, texts, texts, annotation_keys=st.frozensets(texts, max_size=3)
)
containers = st.builds(
    NriContainer,
    texts,
    texts,
    texts,
    st.sampled_from(ContainerState),
    env=st.lists(texts, max_size=3).map(tuple),
    mounts=st.lists(mounts, max_size=2).map(tuple),
    devices=st.lists(devices, max_size=2).map(tuple),
    cdi=st.lists(names, max_size=2).map(tuple),
)
adjustments = st.builds(
    Adjustment,
    env=st.dictionaries(texts, texts, max_size=3),
    mounts=st.lists(mounts, max_size=2).map(tuple),
    devices=st.lists(devices, max_size=2).map(tuple),
    cdi=st.lists(names, max_size=2).map(tuple),
)


def generated_mount(mount: Mount) -> nri_pb2.Mount:
    return nri_pb2.Mount(
        destination=mount.destination,
        type=mount.type,
        source=mount.source,
        options=mount.options,
    )


def generated_device(device: LinuxDevice) -> nri_pb2.LinuxDevice:
    mode = None if device.mode is None else nri_pb2.OptionalFileMode(value=device.mode)
    return nri_pb2.LinuxDevice(
        path=device.path,
        type=device.type,
        major=device.major,
        minor=device.minor,
        file_mode=mode,
    )


def generated_pod(pod: PodSandbox) -> nri_pb2.PodSandbox:
    return nri_pb2.PodSandbox(
        id=pod.id,
        name=pod.name,
        uid=pod.uid,
        namespace=pod.namespace,
        labels={"ignored": "x"},
        annotations=dict.fromkeys(pod.annotation_keys, "any value"),
    )


def generated_container(container: NriContainer) -> nri_pb2.Container:
    return nri_pb2.Container(
        id=container.id,
        pod_sandbox_id=container.pod,
        name=container.name,
        state=nri_pb2.ContainerState.Name(container.state),
        args=["ignored"],
        env=container.env,
        mounts=[generated_mount(each) for each in container.mounts],
        linux=nri_pb2.LinuxContainer(
            devices=[generated_device(each) for each in container.devices], cgroups_path="ignored"
        ),
        pid=7,
        created_at=-1,
        CDI_devices=[nri_pb2.CDIDevice(name=name) for name in container.cdi],
    )


def test_events_and_states_have_the_published_numbers() -> None:
    assert {state.name: state.value for state in ContainerState} == {
        name.removeprefix("CONTAINER_"): number for name, number in nri_pb2.ContainerState.items()
    }
    for event in NriEvent:
        assert event.value == nri_pb2.Event.Value(event.name)
    # pkg/api/event.go: an event's bit in the mask is its number minus one.
    for mask in NriEventMask:
        assert mask.value == 1 << (nri_pb2.Event.Value(str(mask.name)) - 1)


@given(texts, texts)
def test_the_registration_is_decoded(name: str, index: str) -> None:
    found = nri_pb2.RegisterPluginRequest.FromString(messages.encode_register(name, index))

    assert (found.plugin_name, found.plugin_idx) == (name, index)


@given(texts, texts, st.integers(0, 2**63 - 1))
def test_the_configuration_is_encoded_and_answered(name: str, version: str, timeout: int) -> None:
    request = nri_pb2.ConfigureRequest(
        config="ignored", runtime_name=name, runtime_version=version, request_timeout=timeout
    )

    found = messages.decode_configure(request.SerializeToString())
    answer = nri_pb2.ConfigureResponse.FromString(messages.encode_configure_response(0x408))

    assert found == RuntimeInfo(name, version, timeout)
    assert answer.events == 0x408


@given(st.lists(pods, max_size=2), st.lists(containers, max_size=2), st.booleans())
def test_a_synchronize_is_encoded_and_answered(
    sent: list[PodSandbox], running: list[NriContainer], more: bool
) -> None:
    request = nri_pb2.SynchronizeRequest(
        pods=map(generated_pod, sent), containers=map(generated_container, running), more=more
    )

    found = messages.decode_synchronize(request.SerializeToString())
    answer = messages.encode_synchronize_response(more=more)

    assert found == (sent, running, more)
    assert nri_pb2.SynchronizeResponse.FromString(answer).more is more


@given(pods, containers)
def test_pod_and_container_of_a_call_are_encoded(pod: PodSandbox, container: NriContainer) -> None:
    call = nri_pb2.CreateContainerRequest(
        pod=generated_pod(pod), container=generated_container(container)
    )
    change = nri_pb2.StateChangeEvent(
        event=nri_pb2.REMOVE_CONTAINER,
        pod=generated_pod(pod),
        container=generated_container(container),
    )

    assert messages.decode_pod_and_container(call.SerializeToString()) == (pod, container)
    assert messages.decode_state_change(change.SerializeToString()) == (
        NriEvent.REMOVE_CONTAINER,
        pod,
        container,
    )


@given(adjustments)
def test_an_adjustment_is_decoded(adjustment: Adjustment) -> None:
    answer = messages.encode_create_container_response(adjustment)

    found = nri_pb2.CreateContainerResponse.FromString(answer).adjust

    assert {each.key: each.value for each in found.env} == dict(adjustment.env)
    assert list(found.mounts) == [generated_mount(each) for each in adjustment.mounts]
    assert list(found.linux.devices) == [generated_device(each) for each in adjustment.devices]
    assert tuple(each.name for each in found.CDI_devices) == adjustment.cdi


@given(texts, texts, st.binary(max_size=20), st.integers(0, 2**63 - 1))
def test_a_ttrpc_request_is_the_same_in_both_codecs(
    service: str, method: str, payload: bytes, timeout: int
) -> None:
    request = ttrpc.RpcRequest(service, method, payload, timeout)
    generated = ttrpc_pb2.Request(
        service=service, method=method, payload=payload, timeout_nano=timeout
    )

    assert ttrpc_pb2.Request.FromString(ttrpc.encode_request(request)) == generated
    generated.metadata.add(key="ignored", value="x")
    assert ttrpc.decode_request(generated.SerializeToString()) == request


@given(st.binary(max_size=20), st.integers(0, 16), texts)
def test_a_ttrpc_response_is_the_same_in_both_codecs(payload: bytes, code: int, text: str) -> None:
    response = ttrpc.RpcResponse(payload, code, text)
    status = ttrpc_pb2.Status(code=code, message=text) if code or text else None
    generated = ttrpc_pb2.Response(status=status, payload=payload)

    assert ttrpc_pb2.Response.FromString(ttrpc.encode_response(response)) == generated
    assert ttrpc.decode_response(generated.SerializeToString()) == response
