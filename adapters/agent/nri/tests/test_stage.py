import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.nri import ttrpc
from adapters.agent.nri.session import CALLS, OutOfOrderError, Session, Stage, next_stage
from adapters.agent.nri.tests.calls import SUBJECT, active, answers, call


def code_of(session: Session, method: str) -> tuple[int, str]:
    """Code and message of the answer; 0 for a CreateContainer that the session accepts."""
    for _, response in answers(session.feed(call(9, method, SUBJECT)).send):
        return response.code, response.message
    return 0, ""


@pytest.mark.parametrize("method", sorted(CALLS - {"Configure", "Shutdown"}))
def test_a_call_before_configure_is_rejected_by_name_and_stage(method: str) -> None:
    session = Session("dragoman", "20")
    session.register()

    assert code_of(session, method) == (
        ttrpc.FAILED_PRECONDITION,
        f"{method} is not allowed while the plugin is registering",
    )
    assert session.stage is Stage.REGISTERING


@pytest.mark.parametrize("method", ["CreateContainer", "RemoveContainer", "StartContainer"])
def test_a_container_before_synchronize_is_rejected(method: str) -> None:
    session = Session("dragoman", "20")
    session.register()
    session.feed(call(1, "Configure"))

    assert code_of(session, method)[0] == ttrpc.FAILED_PRECONDITION
    assert session.stage is Stage.CONFIGURED


@pytest.mark.parametrize("method", ["Configure", "Synchronize"])
def test_an_active_plugin_is_neither_configured_nor_synchronized_again(method: str) -> None:
    session = active()

    assert code_of(session, method) == (
        ttrpc.FAILED_PRECONDITION,
        f"{method} is not allowed while the plugin is active",
    )
    assert session.stage is Stage.ACTIVE


def test_a_connection_registers_once() -> None:
    with pytest.raises(OutOfOrderError, match="RegisterPlugin is not allowed"):
        active().register()


@pytest.mark.parametrize("stage", Stage)
def test_shutdown_is_allowed_in_every_stage_and_changes_none(stage: Stage) -> None:
    assert next_stage(stage, "Shutdown") is stage


@given(st.lists(st.sampled_from(sorted(CALLS))))
def test_no_order_of_calls_reaches_active_without_configure_and_synchronize(
    calls: list[str],
) -> None:
    session = Session("dragoman", "20")
    session.register()

    accepted = [each for each in calls if code_of(session, each)[0] == 0]

    states = [each for each in accepted if each != "Shutdown"]
    assert states[:2] == ["Configure", "Synchronize"][: len(states)]
    assert not {"Configure", "Synchronize"} & set(states[2:])
