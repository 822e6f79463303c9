import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.nri import messages, ttrpc
from adapters.agent.nri.model import (
    Adjustment,
    NriContainer,
    PodSandbox,
    RuntimeInfo,
)
from adapters.agent.nri.protobuf import integer, message, text
from adapters.agent.nri.session import (
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
from adapters.agent.nri.tests.calls import CONTAINER, POD, SUBJECT, active, answers, call


def test_a_session_is_active_after_the_runtime_has_configured_and_synchronized_it() -> None:
    session = Session("dragoman", "20")
    sent = session.register()

    configured = session.feed(call(1, "Configure", text(2, "containerd") + text(3, "2.1.9")))
    synchronized = session.feed(call(3, "Synchronize", message(1, POD) + message(2, CONTAINER)))

    assert b"RegisterPlugin" in sent
    assert configured.events == (Configured(RuntimeInfo("containerd", "2.1.9")),)
    assert answers(configured.send) == [
        (1, ttrpc.RpcResponse(messages.encode_configure_response(EVENTS)))
    ]
    assert answers(synchronized.send) == [(3, ttrpc.RpcResponse())]
    (event,) = synchronized.events
    assert isinstance(event, Synchronized)
    assert [pod.uid for pod in event.pods] == ["uid-1"]
    assert [container.name for container in event.containers] == ["main"]
    assert session.stage is Stage.ACTIVE


def test_the_subscription_names_no_event_that_an_old_runtime_rejects() -> None:
    assert EVENTS != 0
    assert EVENTS & ~0x7FF == 0


def test_a_synchronize_in_pieces_is_echoed_and_makes_one_event() -> None:
    session = Session("dragoman", "20")
    session.register()
    session.feed(call(1, "Configure"))

    first = session.feed(call(3, "Synchronize", message(1, POD) + integer(3, 1)))
    second = session.feed(call(5, "Synchronize", message(2, CONTAINER)))

    assert answers(first.send) == [(3, ttrpc.RpcResponse(integer(2, 1)))]
    assert first.events == ()
    (event,) = second.events
    assert isinstance(event, Synchronized)
    assert len(event.pods) == len(event.containers) == 1


def test_a_creation_waits_for_its_answer_and_is_answered_once() -> None:
    session = active()

    result = session.feed(call(5, "CreateContainer", SUBJECT))
    first = session.reply(5, Adjustment(env={"B": "2"}))
    second = session.reply_error(5, ttrpc.INTERNAL, "too late")

    pod = PodSandbox("p1", "train", "uid-1", "ai")
    container = NriContainer("c1", "p1", "main", env=("A=1",))
    assert result == FeedResult(b"", (Creating(5, pod, container, 2_000_000_000),))
    assert answers(first) == [
        (
            5,
            ttrpc.RpcResponse(
                messages.encode_create_container_response(Adjustment(env={"B": "2"}))
            ),
        )
    ]
    assert second == b""


def test_an_adjustment_that_is_too_large_for_the_runtime_is_an_error() -> None:
    session = active()
    session.feed(call(5, "CreateContainer", SUBJECT))

    sent = session.reply(5, Adjustment(env={"B": "x" * (4 << 20)}))

    assert answers(sent)[0][1].code == ttrpc.INTERNAL


def test_an_error_carries_its_message() -> None:
    session = active()
    session.feed(call(5, "CreateContainer", SUBJECT))

    sent = session.reply_error(5, ttrpc.UNAVAILABLE, "no grant yet")

    assert answers(sent) == [(5, ttrpc.RpcResponse(code=ttrpc.UNAVAILABLE, message="no grant yet"))]


@pytest.mark.parametrize("method", ["ValidateContainerAdjustment", "Nonsense", ""])
def test_an_unknown_method_is_answered_as_unimplemented(method: str) -> None:
    ((stream, response),) = answers(active().feed(call(7, method)).send)

    assert (stream, response.code) == (7, ttrpc.UNIMPLEMENTED)


def test_an_unknown_service_is_answered_as_unimplemented() -> None:
    ((_, response),) = answers(active().feed(call(7, "CreateContainer", service="x.Y")).send)

    assert response.code == ttrpc.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["StartContainer", "RunPodSandbox", "Shutdown"])
def test_other_events_get_an_empty_answer(method: str) -> None:
    result = active().feed(call(7, method, SUBJECT))

    assert answers(result.send) == [(7, ttrpc.RpcResponse())]
    assert result.events == ()


def test_remove_container_and_a_state_change_make_the_same_event() -> None:
    session = active()

    direct = session.feed(call(7, "RemoveContainer", SUBJECT))
    removal = integer(1, 11) + message(2, POD) + message(3, CONTAINER)
    change = session.feed(call(9, "StateChange", removal))
    other = session.feed(call(11, "StateChange", integer(1, 6)))

    (removed,) = direct.events
    assert isinstance(removed, Removed)
    assert change.events == direct.events
    assert other.events == ()


def test_an_invalid_call_is_an_error_and_the_session_goes_on() -> None:
    session = active()

    result = session.feed(call(5, "CreateContainer", b"\xff"))
    after = session.feed(call(7, "CreateContainer", SUBJECT))

    assert answers(result.send)[0][1].code == ttrpc.INVALID_ARGUMENT
    assert len(after.events) == 1


def test_a_rejected_registration_makes_an_event() -> None:
    session = Session("dragoman", "2")
    session.register()
    data = ttrpc.encode_response(ttrpc.RpcResponse(code=2, message="invalid index"))

    result = session.feed(
        ttrpc.frames(ttrpc.RUNTIME, ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, data)))
    )

    assert result.events == (RegistrationRejected("invalid index"),)


def test_an_accepted_registration_makes_no_event() -> None:
    session = Session("dragoman", "20")
    session.register()
    accepted = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, b""))
    strange = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, b"\xff"))

    assert session.feed(ttrpc.frames(ttrpc.RUNTIME, accepted)) == FeedResult()
    assert isinstance(
        session.feed(ttrpc.frames(ttrpc.RUNTIME, strange)).events[0], RegistrationRejected
    )


def test_frames_of_other_connections_are_dropped() -> None:
    assert active().feed(ttrpc.frames(9, b"whatever")) == FeedResult()


@given(st.data())
def test_any_chunking_of_a_session_gives_the_same_answers(data: st.DataObject) -> None:
    stream = (
        call(1, "Configure", text(2, "containerd"))
        + call(3, "Synchronize", message(1, POD))
        + call(5, "CreateContainer", SUBJECT + message(9, bytes(5000)))
        + call(7, "StateChange", integer(1, 11))
    )
    whole_session, session = Session("dragoman", "20"), Session("dragoman", "20")
    for each in (whole_session, session):
        each.register()
    whole = whole_session.feed(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    results = [
        session.feed(stream[a:b]) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]

    assert b"".join(result.send for result in results) == whole.send
    assert tuple(event for result in results for event in result.events) == whole.events


@given(st.binary())
def test_garbage_gives_results_or_the_codecs_errors_and_nothing_else(garbage: bytes) -> None:
    session = active()
    try:
        session.feed(garbage)
        session.feed(ttrpc.frames(ttrpc.PLUGIN, garbage))
        session.feed(call(5, "CreateContainer", garbage))
    except (ttrpc.MuxError, ttrpc.TtrpcError):
        return
