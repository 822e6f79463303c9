from adapters.agent.hook.create_container import Watchdog
from e2e.harness.processes.waiting import within


def test_the_watchdog_acts_in_order_and_skips_cancelled_actions() -> None:
    now = 0.0
    watchdog = Watchdog(lambda: now)
    watchdog.start()
    done: list[str] = []

    late = watchdog.call_at(3, lambda: done.append("late"))
    watchdog.call_at(1, lambda: done.append("early"))
    cancelled = watchdog.call_at(0.5, lambda: done.append("cancelled"))
    watchdog.cancel(cancelled)
    watchdog.cancel(cancelled)
    now = 2.0
    within(30, lambda: done)
    at_two = list(done)
    now = 4.0
    within(30, lambda: len(done) == 2)
    watchdog.cancel(late)
    watchdog.stop()

    assert at_two == ["early"]
    assert done == ["early", "late"]
