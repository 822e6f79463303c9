import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.node.nri import messages, mux, ttrpc
from adapters.node.nri.model import (
    PLUGIN_SERVICE,
    Adjustment,
    NriContainer,
    PodSandbox,
    RuntimeInfo,
)
from adapters.node.nri.protobuf import integer, message, text
from adapters.node.nri.session import (
    EVENTS,
    Configured,
    Creating,
    FeedResult,
    RegistrationRejected,
    Removed,
    Session,
    Stage,
    Synchronized,
)

POD = text(1, "p1") + text(2, "train") + text(3, "uid-1") + text(4, "ai")
CONTAINER = text(1, "c1") + text(2, "p1") + text(3, "main") + text(8, "A=1")
SUBJECT = message(1, POD) + message(2, CONTAINER)


def call(stream: int, method: str, payload: bytes = b"", service: str = PLUGIN_SERVICE) -> bytes:
    request = ttrpc.encode_request(ttrpc.RpcRequest(service, method, payload, 2_000_000_000))
    return mux.frames(mux.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(stream, ttrpc.REQUEST, request)))


def answers(sent: bytes) -> list[tuple[int, ttrpc.RpcResponse]]:
    reader = ttrpc.MessageReader()
    found = [m for frame in mux.Mux().feed(sent) for m in reader.feed(frame.payload)]
    return [(m.stream, ttrpc.decode_response(m.data)) for m in found]


def active() -> Session:
    session = Session("dragoman", "20")
    session.register()
    session.feed(call(1, "Configure", text(2, "containerd") + text(3, "2.1.9")))
    session.feed(call(3, "Synchronize"))
    return session


def test_a_session_is_active_after_the_runtime_has_configured_and_synchronized_it() -> None:
    session = Session("dragoman", "20")
    sent = session.register()

    configured = session.feed(call(1, "Configure", text(2, "containerd") + text(3, "2.1.9")))
    synchronized = session.feed(call(3, "Synchronize", message(1, POD) + message(2, CONTAINER)))

    assert b"RegisterPlugin" in sent
    assert configured.happened == (Configured(RuntimeInfo("containerd", "2.1.9")),)
    assert answers(configured.send) == [(1, ttrpc.RpcResponse(messages.subscribe(EVENTS)))]
    assert answers(synchronized.send) == [(3, ttrpc.RpcResponse())]
    (told,) = synchronized.happened
    assert isinstance(told, Synchronized)
    assert [pod.uid for pod in told.pods] == ["uid-1"]
    assert [container.name for container in told.containers] == ["main"]
    assert session.stage is Stage.ACTIVE


def test_the_subscription_names_no_event_that_an_old_runtime_would_refuse() -> None:
    assert EVENTS != 0
    assert EVENTS & ~0x7FF == 0


def test_a_synchronize_in_pieces_is_echoed_and_told_once() -> None:
    session = Session("dragoman", "20")

    first = session.feed(call(1, "Synchronize", message(1, POD) + integer(3, 1)))
    second = session.feed(call(3, "Synchronize", message(2, CONTAINER)))

    assert answers(first.send) == [(1, ttrpc.RpcResponse(integer(2, 1)))]
    assert first.happened == ()
    (told,) = second.happened
    assert isinstance(told, Synchronized)
    assert len(told.pods) == len(told.containers) == 1


def test_a_creation_waits_for_its_answer_and_is_answered_once() -> None:
    session = active()

    step = session.feed(call(5, "CreateContainer", SUBJECT))
    first = session.adjusted(5, Adjustment(env={"B": "2"}))
    second = session.failed(5, ttrpc.INTERNAL, "too late")

    pod = PodSandbox("p1", "train", "uid-1", "ai")
    container = NriContainer("c1", "p1", "main", env=("A=1",))
    assert step == FeedResult(b"", (Creating(5, pod, container, 2_000_000_000),))
    assert answers(first) == [(5, ttrpc.RpcResponse(messages.created(Adjustment(env={"B": "2"}))))]
    assert second == b""


def test_an_adjustment_that_the_runtime_could_not_take_is_an_error() -> None:
    session = active()
    session.feed(call(5, "CreateContainer", SUBJECT))

    sent = session.adjusted(5, Adjustment(env={"B": "x" * (4 << 20)}))

    assert answers(sent)[0][1].code == ttrpc.INTERNAL


def test_an_error_carries_its_sentence() -> None:
    session = active()
    session.feed(call(5, "CreateContainer", SUBJECT))

    sent = session.failed(5, ttrpc.UNAVAILABLE, "no grant yet")

    assert answers(sent) == [(5, ttrpc.RpcResponse(code=ttrpc.UNAVAILABLE, message="no grant yet"))]


@pytest.mark.parametrize("method", ["ValidateContainerAdjustment", "Nonsense", ""])
def test_an_unknown_method_is_answered_as_unimplemented(method: str) -> None:
    ((stream, response),) = answers(active().feed(call(7, method)).send)

    assert (stream, response.code) == (7, ttrpc.UNIMPLEMENTED)


def test_an_unknown_service_is_answered_as_unimplemented() -> None:
    ((_, response),) = answers(active().feed(call(7, "CreateContainer", service="x.Y")).send)

    assert response.code == ttrpc.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["StartContainer", "RunPodSandbox", "Shutdown"])
def test_other_events_are_answered_with_nothing(method: str) -> None:
    step = active().feed(call(7, method, SUBJECT))

    assert answers(step.send) == [(7, ttrpc.RpcResponse())]
    assert step.happened == ()


def test_a_removed_container_is_told_in_both_ways_of_saying_it() -> None:
    session = active()

    direct = session.feed(call(7, "RemoveContainer", SUBJECT))
    change = integer(1, 11) + message(2, POD) + message(3, CONTAINER)
    told = session.feed(call(9, "StateChange", change))
    other = session.feed(call(11, "StateChange", integer(1, 6)))

    (gone,) = direct.happened
    assert isinstance(gone, Removed)
    assert told.happened == direct.happened
    assert other.happened == ()


def test_a_call_that_cannot_be_read_is_an_error_and_the_session_goes_on() -> None:
    session = active()

    step = session.feed(call(5, "CreateContainer", b"\xff"))
    after = session.feed(call(7, "CreateContainer", SUBJECT))

    assert answers(step.send)[0][1].code == ttrpc.INVALID_ARGUMENT
    assert len(after.happened) == 1


def test_a_refused_registration_is_told() -> None:
    session = Session("dragoman", "2")
    session.register()
    data = ttrpc.encode_response(ttrpc.RpcResponse(code=2, message="invalid index"))

    step = session.feed(
        mux.frames(mux.RUNTIME, ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, data)))
    )

    assert step.happened == (RegistrationRejected("invalid index"),)


def test_an_accepted_registration_is_nothing_to_tell() -> None:
    session = Session("dragoman", "20")
    session.register()
    accepted = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, b""))
    strange = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, b"\xff"))

    assert session.feed(mux.frames(mux.RUNTIME, accepted)) == FeedResult()
    assert isinstance(
        session.feed(mux.frames(mux.RUNTIME, strange)).happened[0], RegistrationRejected
    )


def test_frames_of_other_connections_are_dropped() -> None:
    assert active().feed(mux.frames(9, b"whatever")) == FeedResult()


@given(st.data())
def test_any_chunking_of_a_session_gives_the_same_answers(data: st.DataObject) -> None:
    stream = (
        call(1, "Configure", text(2, "containerd"))
        + call(3, "Synchronize", message(1, POD))
        + call(5, "CreateContainer", SUBJECT + message(9, bytes(5000)))
        + call(7, "StateChange", integer(1, 11))
    )
    whole = Session("dragoman", "20").feed(stream)
    session = Session("dragoman", "20")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    steps = [
        session.feed(stream[a:b]) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]

    assert b"".join(step.send for step in steps) == whole.send
    assert tuple(h for step in steps for h in step.happened) == whole.happened


@given(st.binary())
def test_garbage_gives_steps_or_the_codecs_errors_and_nothing_else(garbage: bytes) -> None:
    session = active()
    try:
        session.feed(garbage)
        session.feed(mux.frames(mux.PLUGIN, garbage))
        session.feed(call(5, "CreateContainer", garbage))
    except (mux.MuxError, ttrpc.TtrpcError):
        return
