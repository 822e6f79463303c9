import pynvml
import pytest

from adapters.agent.hardware.health import APPLICATION_XIDS, QUIET_PERIOD, RECOVERY_ACTIONS, Health


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize("xid", sorted(APPLICATION_XIDS))
def test_an_applications_error_does_not_make_a_card_unhealthy(xid: int) -> None:
    health = Health()

    assert not health.record_xid("GPU-0", xid)
    assert health.problem("GPU-0", None) == ""


def test_an_error_affects_its_own_card_only() -> None:
    health = Health(APPLICATION_XIDS | {63})

    assert health.record_xid("GPU-0", 79)
    assert not health.record_xid("GPU-1", 63)
    assert health.problem("GPU-0", None) == "Xid 79"
    assert health.problem("GPU-1", None) == ""


def test_a_card_is_healthy_again_after_a_quiet_period_if_its_driver_requests_nothing() -> None:
    clock = Clock()
    health = Health(now=clock)
    health.record_xid("GPU-0", 48)

    clock.time = QUIET_PERIOD - 1
    early = health.problem("GPU-0", 0)
    clock.time = QUIET_PERIOD
    unsaid, asked, quiet = (health.problem("GPU-0", action) for action in (None, 1, 0))

    assert early == unsaid == "Xid 48"
    assert asked == "its driver requests a reset of the card"
    assert quiet == ""
    assert health.problem("GPU-0", None) == ""


def test_a_later_error_restarts_the_quiet_period() -> None:
    clock = Clock()
    health = Health(now=clock)
    health.record_xid("GPU-0", 48)
    clock.time = QUIET_PERIOD - 1
    health.record_xid("GPU-0", 94)

    clock.time = QUIET_PERIOD

    assert health.problem("GPU-0", 0) == "Xid 94"


def test_a_card_that_was_away_and_returned_is_healthy() -> None:
    health = Health()
    health.record_xid("GPU-0", 79)

    health.clear("GPU-0")
    health.clear("GPU-1")

    assert health.problem("GPU-0", None) == ""


@pytest.mark.parametrize("action", sorted(RECOVERY_ACTIONS))
def test_a_recovery_that_a_driver_requests_is_a_problem_without_any_error(action: int) -> None:
    assert health_of(action) == f"its driver requests {RECOVERY_ACTIONS[action]}"


@pytest.mark.parametrize("action", [None, 0, 5, 99])
def test_a_driver_that_requests_nothing_of_the_card_is_no_problem(action: int | None) -> None:
    assert health_of(action) == ""


def health_of(action: int | None) -> str:
    return Health().problem("GPU-0", action)


def test_the_recovery_actions_are_all_of_nvidias_that_concern_the_card() -> None:
    theirs = {
        getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_GPU_RECOVERY_ACTION")
    }

    domain = pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN
    assert set(RECOVERY_ACTIONS) == theirs - {pynvml.NVML_GPU_RECOVERY_ACTION_NONE, domain}
