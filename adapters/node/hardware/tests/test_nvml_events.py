"""The library is played by a real shared object without cards; see ``nvml_stand_in.c``."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.node.hardware.health import Health
from adapters.node.hardware.nvidia import NvmlInventory
from adapters.node.hardware.nvml import Nvml, NvmlError
from adapters.node.hardware.nvml_events import XidListener, recovery_action
from adapters.node.tests.stand_in import begin

XID, ECC = 0x8, 0x2
UNSAID = 0xFFFFFFFF
"""As an action: the driver does not know the question."""


def test_each_error_is_heard_with_its_card_and_other_events_are_not() -> None:
    library = begin(2)
    heard: list[tuple[str, int]] = []
    listener = XidListener(Nvml(library), lambda uuid, xid: heard.append((uuid, xid)))
    for card, kind, number in ((1, XID, 79), (0, ECC, 3), (0, XID, 13)):
        library.stand_in_event(card, kind, number)

    listener.start()
    within(lambda: len(heard) == 2)
    listener.stop()

    assert heard == [("GPU-1", 79), ("GPU-0", 13)]


def test_where_a_card_does_not_answer_the_library_is_begun_anew() -> None:
    library = begin(2)
    nvml = Nvml(library)
    library.stand_in_lose(0, 1)
    nvml.cards()

    XidListener(nvml, lambda *_: None).listen(until=0)

    assert nvml.incomplete
    assert library.stand_in_ended() == 1
    assert [card.uuid for card in nvml.cards()] == ["GPU-1"]


def test_a_library_that_fails_is_listened_to_again(capsys: pytest.CaptureFixture[str]) -> None:
    library = begin(1)
    library.stand_in_lose(0, 1)
    heard: list[int] = []
    listener = XidListener(Nvml(library), lambda _, xid: heard.append(xid))

    listener.start()
    within(lambda: "gpu is lost" in capsys.readouterr().err)
    library.stand_in_lose(0, 0)
    library.stand_in_event(0, XID, 48)
    within(lambda: heard == [48])
    listener.stop()


def test_a_driver_says_what_it_needs_or_does_not_know() -> None:
    library = begin(1)
    nvml = Nvml(library)

    content = recovery_action(nvml, "GPU-0")
    library.stand_in_action(0, 1)
    asking = recovery_action(nvml, "GPU-0")
    library.stand_in_action(0, UNSAID)

    assert (content, asking) == (0, 1)
    assert recovery_action(nvml, "GPU-0") is None
    assert recovery_action(nvml, "GPU-7") is None


def test_a_card_with_an_error_is_unhealthy_until_it_was_away_and_returned(tmp_path: Path) -> None:
    library = begin(2)
    library.stand_in_action(0, UNSAID)
    health = Health()
    there = NvmlInventory("a", Nvml(library), health, tmp_path, tmp_path)
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
    there = NvmlInventory("a", Nvml(library), Health(), tmp_path, tmp_path)
    there.read()
    library.stand_in_lose(0, 1)

    found = there.read()

    assert [card.healthy for card in found.cards] == [False]
    with pytest.raises(NvmlError):
        there.nvml.cards()


def within(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
