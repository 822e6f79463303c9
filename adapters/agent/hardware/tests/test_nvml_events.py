"""Tests on a stand-in of NVML without cards; see ``nvml_stand_in.c``."""

from pathlib import Path

import pytest

from adapters.agent.hardware.health import Health, XidListener, recovery_action
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.hardware.nvml import NvmlError
from adapters.agent.tests.stand_in import begin
from adapters.agent.tests.stand_in import nvml as the_nvml
from e2e.harness.processes.waiting import within

XID, ECC = 0x8, 0x2
UNSUPPORTED = 0xFFFFFFFF
"""The number that as an action means: the driver does not know the question."""


def test_the_listener_reports_each_error_with_its_card_and_no_other_event() -> None:
    library = begin(2)
    reported: list[tuple[str, int]] = []
    listener = XidListener(the_nvml(library), lambda uuid, xid: reported.append((uuid, xid)))
    for card, kind, number in ((1, XID, 79), (0, ECC, 3), (0, XID, 13)):
        library.stand_in_event(card, kind, number)

    listener.start()
    within(30, lambda: len(reported) == 2)
    listener.stop()

    assert reported == [("GPU-1", 79), ("GPU-0", 13)]


def test_the_listener_restarts_the_library_where_a_card_does_not_answer() -> None:
    library = begin(2)
    nvml = the_nvml(library)
    library.stand_in_lose(0, 1)
    nvml.cards()

    XidListener(nvml, lambda *_: None).listen(until=0)

    assert nvml.incomplete
    assert library.stand_in_ended() == 1
    assert [card.uuid for card in nvml.cards()] == ["GPU-1"]


def test_the_listener_tries_again_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    library = begin(1)
    library.stand_in_lose(0, 1)
    reported: list[int] = []
    listener = XidListener(the_nvml(library), lambda _, xid: reported.append(xid))

    listener.start()
    within(30, lambda: "gpu is lost" in capsys.readouterr().err)
    library.stand_in_lose(0, 0)
    library.stand_in_event(0, XID, 48)
    within(30, lambda: reported == [48])
    listener.stop()


def test_a_driver_reports_the_recovery_that_it_needs_or_none() -> None:
    library = begin(1)
    nvml = the_nvml(library)

    idle = recovery_action(nvml, "GPU-0")
    library.stand_in_action(0, 1)
    needed = recovery_action(nvml, "GPU-0")
    library.stand_in_action(0, UNSUPPORTED)

    assert (idle, needed) == (0, 1)
    assert recovery_action(nvml, "GPU-0") is None
    assert recovery_action(nvml, "GPU-7") is None


def test_a_card_with_an_error_is_unhealthy_until_it_was_away_and_returned(tmp_path: Path) -> None:
    library = begin(2)
    library.stand_in_action(0, UNSUPPORTED)
    health = Health()
    there = NvmlInventory("a", the_nvml(library), health, tmp_path, tmp_path)
    there.read()

    health.record_xid("GPU-0", 79)
    wrong = there.read()
    library.stand_in_lose(0, 1)
    gone = there.read()
    library.stand_in_lose(0, 0)
    back = there.read()

    assert [card.healthy for card in wrong.cards] == [False, True]
    assert wrong.problems == {"GPU-0": "Xid 79"}
    assert gone.problems == {"GPU-0": "it does not answer"}
    assert [card.healthy for card in back.cards] == [True, True]
    assert back.problems == {}


def test_a_node_whose_only_card_does_not_answer_has_an_unhealthy_card(tmp_path: Path) -> None:
    library = begin(1)
    there = NvmlInventory("a", the_nvml(library), Health(), tmp_path, tmp_path)
    there.read()
    library.stand_in_lose(0, 1)

    found = there.read()

    assert [card.healthy for card in found.cards] == [False]
    with pytest.raises(NvmlError):
        there.nvml.cards()
