"""The vectors were captured from, or accepted by, containerd 1.7.24 to 2.3.4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.nri import messages, ttrpc
from adapters.agent.nri import model as nri
from adapters.agent.nri.protobuf import ProtobufError, fields, integer, message, signed, text

REGISTER = bytes.fromhex(
    "00000002000000490000003f0000000101000a1c6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
    "120e5265676973746572506c7567696e1a090a036c6162120231302080c8afa025"
)
CONFIGURE = bytes.fromhex(
    "000000010000005200000048000000010100"
    "0a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e1209436f6e666967757265"
    "1a18120a636f6e7461696e6572641a0a312e372e32347e64733120b1a0d2b907"
)
SUBSCRIBED = bytes.fromhex("000000010000000e0000000400000001020012021008")
SYNCHRONIZED = bytes.fromhex("000000010000000a00000000000000030200")
ADJUSTED = bytes.fromhex(
    "0a401a1d0a042f696e6a120462696e641a042f65746322057262696e642202726f22060a014112013132170a150a06"
    "2f6465762f78120163180a20ed012a0308b603"
)

frames = st.lists(
    st.builds(ttrpc.Frame, st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=5
)
sent_messages = st.lists(
    st.builds(
        ttrpc.RpcMessage, st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=40)
    ),
    max_size=5,
)


def calls(data: bytes) -> list[ttrpc.RpcMessage]:
    reader = ttrpc.MessageReader()
    return [m for frame in ttrpc.Mux().feed(data) for m in reader.feed(frame.payload)]


def pieces(data: bytes, draw: st.DataObject) -> list[bytes]:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def test_the_registration_is_the_bytes_that_the_runtime_accepts() -> None:
    request = ttrpc.RpcRequest(
        nri.RUNTIME_SERVICE, "RegisterPlugin", messages.encode_register("lab", "10"), 10_000_000_000
    )

    data = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.REQUEST, ttrpc.encode_request(request)))

    assert ttrpc.frames(ttrpc.RUNTIME, data) == REGISTER


def test_the_configuration_is_read_from_the_bytes_of_the_runtime() -> None:
    (call,) = calls(CONFIGURE)

    request = ttrpc.decode_request(call.data)

    assert (request.service, request.method) == (nri.PLUGIN_SERVICE, "Configure")
    assert 0 < request.timeout < 2_000_000_000
    assert messages.decode_configure(request.payload) == nri.RuntimeInfo("containerd", "1.7.24~ds1")


def test_a_subscription_is_the_bytes_that_the_runtime_accepts() -> None:
    response = ttrpc.RpcResponse(
        messages.encode_configure_response(nri.NriEventMask.CREATE_CONTAINER)
    )

    data = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, ttrpc.encode_response(response)))

    assert ttrpc.frames(ttrpc.PLUGIN, data) == SUBSCRIBED


def test_an_empty_answer_has_no_data() -> None:
    data = ttrpc.encode(
        ttrpc.RpcMessage(3, ttrpc.RESPONSE, ttrpc.encode_response(ttrpc.RpcResponse()))
    )

    assert ttrpc.frames(ttrpc.PLUGIN, data) == SYNCHRONIZED


def test_an_adjustment_is_the_bytes_that_the_runtime_accepts() -> None:
    adjustment = nri.Adjustment(
        env={"A": "1"},
        mounts=(nri.Mount("/inj", "bind", "/etc", ("rbind", "ro")),),
        devices=(nri.LinuxDevice("/dev/x", "c", 10, 237, 0o666),),
    )

    assert messages.encode_create_container_response(adjustment) == ADJUSTED


def test_an_error_is_the_bytes_that_the_runtime_accepts() -> None:
    assert ttrpc.encode_response(ttrpc.RpcResponse(code=2, message="boom")) == bytes.fromhex(
        "0a0808021204626f6f6d"
    )


def test_an_answer_is_decoded_as_it_was_encoded() -> None:
    for response in (
        ttrpc.RpcResponse(b"x"),
        ttrpc.RpcResponse(),
        ttrpc.RpcResponse(code=4, message="no"),
    ):
        assert ttrpc.decode_response(ttrpc.encode_response(response)) == response


@pytest.mark.parametrize("size", [0, 1, 4086, 4087, 5000, 100_000])
def test_the_first_frame_fits_the_buffer_of_the_peer_and_there_are_at_most_two(size: int) -> None:
    data = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, b"x" * size))

    found = ttrpc.Mux().feed(ttrpc.frames(ttrpc.PLUGIN, data))

    assert len(found) == (1 if len(data) <= ttrpc.MAX_FIRST_FRAME else 2)
    assert len(found[0].payload) <= ttrpc.MAX_FIRST_FRAME
    assert b"".join(frame.payload for frame in found) == data


@given(frames, st.data())
def test_any_chunking_gives_back_the_same_frames(
    sent: list[ttrpc.Frame], data: st.DataObject
) -> None:
    stream = b"".join(
        f.connection.to_bytes(4) + len(f.payload).to_bytes(4) + f.payload for f in sent
    )
    reader = ttrpc.Mux()

    found = [frame for piece in pieces(stream, data) for frame in reader.feed(piece)]

    assert found == sent


@given(sent_messages, st.data())
def test_any_chunking_gives_back_the_same_messages(
    sent: list[ttrpc.RpcMessage], data: st.DataObject
) -> None:
    stream = b"".join(ttrpc.encode(message) for message in sent)
    reader = ttrpc.MessageReader()

    found = [m for piece in pieces(stream, data) for m in reader.feed(piece)]

    assert found == sent


@given(st.binary())
def test_garbage_gives_frames_or_mux_error_and_nothing_else(garbage: bytes) -> None:
    try:
        ttrpc.Mux().feed(garbage)
    except ttrpc.MuxError:
        return


@given(st.binary())
def test_garbage_gives_messages_or_ttrpc_error_and_nothing_else(garbage: bytes) -> None:
    try:
        ttrpc.MessageReader().feed(garbage)
    except ttrpc.TtrpcError:
        return


def test_a_header_that_announces_too_much_is_rejected() -> None:
    with pytest.raises(ttrpc.MuxError, match="the limit is"):
        ttrpc.Mux().feed((1).to_bytes(4) + (ttrpc.MAX_FRAME + 1).to_bytes(4))
    with pytest.raises(ttrpc.TtrpcError, match="the limit is"):
        ttrpc.MessageReader().feed((ttrpc.MAX_RECEIVED + 1).to_bytes(4) + bytes(6))


@given(st.binary())
def test_garbage_gives_values_or_protobuf_error_and_nothing_else(garbage: bytes) -> None:
    for read in (
        messages.decode_configure,
        messages.decode_synchronize,
        messages.decode_pod_and_container,
        messages.decode_state_change,
        ttrpc.decode_request,
        ttrpc.decode_response,
    ):
        try:
            read(garbage)
        except ProtobufError:
            continue


@given(st.data())
def test_a_damaged_message_gives_values_or_protobuf_error(data: st.DataObject) -> None:
    whole = message(1, text(3, "uid") + message(6, text(1, "k") + text(2, "v")))
    whole += message(
        2, text(3, "main") + text(8, "A=1") + message(9, text(1, "/a") + text(4, "ro"))
    )
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[place] = data.draw(st.integers(0, 255))

    try:
        messages.decode_pod_and_container(bytes(damaged))
    except ProtobufError:
        return


def test_unknown_fields_and_unexpected_wire_types_are_skipped() -> None:
    strange = (
        integer(90, 5)
        + message(91, b"x")
        + bytes((92 << 3 & 0x7F | 5 | 0x80, 92 << 3 >> 7))
        + bytes(4)
        + bytes((93 << 3 & 0x7F | 1 | 0x80, 93 << 3 >> 7))
        + bytes(8)
        + integer(1, 7)
    )
    pod = text(3, "uid")

    found, container = messages.decode_pod_and_container(strange + message(1, pod + strange))

    assert found == nri.PodSandbox(uid="uid")
    assert container == nri.NriContainer()


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x03",
        b"\x00\x01",
        b"\xff" * 11,
        b"\x0d\x01",
        b"\x09\x01",
        b"\x80",
    ],
)
def test_an_invalid_field_is_rejected(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        list(fields(data))


def test_text_that_is_not_utf8_is_rejected() -> None:
    with pytest.raises(ProtobufError, match="UTF-8"):
        messages.decode_pod_and_container(message(1, message(3, b"\xff")))
    with pytest.raises(ProtobufError, match="UTF-8"):
        messages.decode_pod_and_container(message(2, message(8, b"A=\xff")))


def test_the_keys_of_annotations_are_decoded_and_not_their_values() -> None:
    said = message(6, text(1, "a.b/c") + message(2, b"\xff")) + message(6, text(2, "no name"))

    pod, _ = messages.decode_pod_and_container(message(1, text(3, "uid") + said))

    assert pod == nri.PodSandbox(uid="uid", annotation_keys=frozenset({"a.b/c", ""}))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_is_decoded_as_it_was_encoded(value: int) -> None:
    assert [signed(v) for _, v in fields(integer(3, value)) if isinstance(v, int)] == (
        [value] if value else []
    )


def test_a_container_is_decoded_completely() -> None:
    mount = text(1, "/etc/x") + text(2, "bind") + text(3, "/y") + text(4, "ro") + text(4, "rbind")
    node = text(1, "/dev/x") + text(2, "c") + integer(3, 195) + integer(4, 255)
    node += message(5, integer(1, 0o666))
    data = text(1, "c1") + text(2, "p1") + text(3, "main") + integer(4, 3)
    data += text(8, "A=1") + text(8, "B=") + message(9, mount) + message(11, message(2, node))
    data += message(20, text(1, "nvidia.com/gpu=0"))

    pods, containers, more = messages.decode_synchronize(message(2, data) + integer(3, 1))

    assert pods == []
    assert more
    assert containers == [
        nri.NriContainer(
            id="c1",
            pod="p1",
            name="main",
            state=nri.ContainerState.RUNNING,
            env=("A=1", "B="),
            mounts=(nri.Mount("/etc/x", "bind", "/y", ("ro", "rbind")),),
            devices=(nri.LinuxDevice("/dev/x", "c", 195, 255, 0o666),),
            cdi=("nvidia.com/gpu=0",),
        )
    ]


def test_of_a_repeated_variable_the_last_value_counts() -> None:
    assert nri.names_and_values(("A=1", "B", "A=2=3")) == {"A": "2=3", "B": ""}
