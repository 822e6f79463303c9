import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.node.apiserver.status import SharingConfig
from adapters.node.grants import LedgerGrants
from adapters.node.hardware.model import Hardware, Instance
from adapters.node.kubelet.checkpoint import DeviceAssignment
from adapters.node.kubelet.devices import KubeletDevices, holdings
from adapters.node.kubelet.tests.test_checkpoint import file, row
from adapters.node.main import NodeAgent
from adapters.node.tests.builders import card, ledger
from adapters.wire.hardware import KUBELET, DeviceHolding
from core.hardware.mig import MigKey
from core.requests.grant import Grant

CARDS = tuple(card(index) for index in range(4))
SLICE = {MigKey("GPU-3", "1g.10gb", 0): Instance("MIG-3a")}
NODE = Hardware(CARDS, instances=SLICE)
GPU, MEMORY = "nvidia.com/gpu", "volcano.sh/gpu-memory"


def one(*devices: str, visible: str = "", resource: str = GPU, pod: str = "7") -> DeviceAssignment:
    shown = tuple(visible.split(",")) if visible else ()
    return DeviceAssignment(pod, "main", resource, devices, shown)


def told(given: DeviceAssignment, hardware: Hardware = NODE) -> tuple[tuple[str, ...], bool] | None:
    found = holdings([given], hardware, {"7"})
    return (found[0].cards, found[0].shared) if found else None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # NVIDIA's plugin, by its ways to hand over the list of cards
        (one("GPU-0", "GPU-2", visible="GPU-2,GPU-0"), (("GPU-0", "GPU-2"), False)),
        (one("GPU-0", visible="0"), (("GPU-0",), False)),
        (one("GPU-1", visible="/var/run/nvidia-container-devices"), (("GPU-1",), False)),
        (one("GPU-1", visible="void"), (("GPU-1",), False)),
        (one("GPU-1"), (("GPU-1",), False)),
        # copies of a card, and slices
        (one("GPU-1::0", "GPU-1::3", visible="GPU-1"), (("GPU-1",), True)),
        (one("GPU-1::0"), (("GPU-1",), True)),
        (one("MIG-3a", visible="MIG-3a"), (("GPU-3",), True)),
        # HAMi's plugin, whose devices stand for nothing
        (one("GPU-0-7", visible="GPU-2"), (("GPU-2",), True)),
        (one("GPU-0", visible="GPU-2"), (("GPU-2",), True)),
        # Volcano's older plugin
        (one("0-1", "1-7", visible="2", resource=MEMORY), (("GPU-2",), True)),
        (one("0-1", visible="3,1", resource="volcano.sh/gpu-number"), (("GPU-1", "GPU-3"), True)),
    ],
)
def test_cards_are_known_by_what_the_plugin_answered_and_the_kubelet_kept(
    given: DeviceAssignment, expected: tuple[tuple[str, ...], bool]
) -> None:
    assert told(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        one("GPU-9", visible="GPU-9"),
        one("GPU-9", visible="GPU-0,GPU-9"),
        one("GPU-0", "GPU-9"),
        one("GPU-0", visible="GPU-9"),
        one("GPU-0", visible="GPU-2,GPU-9"),
        one("GPU-0", visible="all"),
        one("GPU-0", visible="2"),
        one("MIG-3a", visible="3:0"),
        one("MIG-x"),
        one("0-1", visible="7", resource=MEMORY),
        one("0-1", visible="all", resource=MEMORY),
        one("0-1", resource=MEMORY),
        one(),
    ],
)
def test_of_a_container_with_a_card_that_is_not_known_nothing_is_told(
    given: DeviceAssignment,
) -> None:
    assert told(given) is None


def test_numbers_that_two_cards_have_say_nothing() -> None:
    twice = Hardware((card(0), replace(card(0), uuid="GPU-x")))

    assert told(one("0-1", visible="0", resource=MEMORY), twice) is None


def test_only_cards_of_nvidia_are_counted() -> None:
    assert told(one("GPU-0"), Hardware((card(0, "metax"),))) is None


def test_other_resources_and_other_pods_are_passed_over() -> None:
    given = [one("GPU-0", pod="8"), one("GPU-0", resource="rdma/hca"), one("GPU-1")]

    found = holdings(given, NODE, {"7"})

    assert found == (DeviceHolding("7", "main", GPU, 1, ("GPU-1",)),)


words = st.sampled_from(["GPU-0", "GPU-3", "GPU-9", "MIG-3a", "GPU-1::2", "GPU-1-2", "1", "9"])


@given(st.lists(words, max_size=3, unique=True), st.lists(words, max_size=3))
def test_what_is_told_to_be_one_pods_alone_is_what_the_kubelet_counts(
    devices: list[str], visible: list[str]
) -> None:
    given = DeviceAssignment("7", "main", GPU, tuple(devices), tuple(visible))

    for holding in holdings([given], NODE, {"7"}):
        assert set(holding.cards) <= {card.uuid for card in CARDS}
        assert {word for word in visible if word.startswith("GPU-")} <= set(holding.cards)
        if not holding.shared:
            assert set(holding.cards) == set(devices)


# Following the file.


def unread(uid: str = "7") -> LedgerGrants:
    return LedgerGrants(ledger(uid=uid, unread="nobody says"))


def holders(place: Path, grants: LedgerGrants) -> tuple[KubeletDevices, list[bool]]:
    changes: list[bool] = []
    return KubeletDevices(place, grants, lambda: NODE, lambda: changes.append(True)), changes


def follow(what: KubeletDevices) -> None:
    """Let it look until it has said something."""

    async def scenario() -> None:
        task = asyncio.ensure_future(what.run())
        async with asyncio.timeout(5):
            while what.found is None:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_a_pod_that_the_ledger_cannot_tell_is_looked_up(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row(), row(PodUID="8")))
    what, changes = holders(place, unread())

    follow(what)

    assert what.found == (DeviceHolding("7", "c", GPU, 1, ("GPU-0",)),)
    assert changes == [True]


def test_a_pod_that_is_known_from_here_is_told_on(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    held = ledger(Grant("c", "GPU-0", 1, 100), uid="7")
    allocation = replace(held.allocations["7"], dialect=KUBELET)
    what, _ = holders(place, LedgerGrants(held.adopt(allocation)))

    follow(what)

    assert what.found
    assert what.found[0].pod == "7"


def test_of_pods_that_the_ledger_tells_nobody_asks_the_kubelet(tmp_path: Path) -> None:
    what, _ = holders(tmp_path / "not there", LedgerGrants(ledger(Grant("c", "GPU-0", 1, 1))))

    follow(what)

    assert what.found == ()


def test_nothing_is_said_before_the_ledger_is_known(tmp_path: Path) -> None:
    what, changes = holders(tmp_path / "not there", LedgerGrants())

    what.look()

    assert what.found is None
    assert changes == []


def test_what_cannot_be_read_leaves_what_was_known_and_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    what, changes = holders(place, unread())
    follow(what)

    place.write_bytes(b"garbage")
    what.read()
    what.read()
    what.look()

    assert what.found == (DeviceHolding("7", "c", GPU, 1, ("GPU-0",)),)
    assert changes == [True]
    assert capsys.readouterr().err.count("kubelet_checkpoint.invalid") == 1


def test_a_file_that_is_as_it_was_is_not_read_again(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    what, _ = holders(place, unread())
    what.read()
    stat = place.stat()
    place.write_bytes(b"?" * stat.st_size)
    os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    what.read()
    what.look()

    assert what.found


def test_a_pod_that_is_gone_from_the_ledger_is_told_no_more(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    grants = unread()
    what, changes = holders(place, grants)
    follow(what)

    grants.replace(ledger(Grant("c", "GPU-0", 1, 1), uid="9"))
    what.look()

    assert what.found == ()
    assert changes == [True, True]


def test_nothing_is_told_of_the_node_before_somebody_has_looked(tmp_path: Path) -> None:
    what, _ = holders(tmp_path / "not there", unread())
    node = NodeAgent(unread(), {}, NODE, known=True, holders=what)
    before = node.told(SharingConfig())
    what.found = (DeviceHolding("7", "c", GPU, 1, ("GPU-0",)),)

    told = node.told(SharingConfig())

    assert before is None
    assert told is not None
    assert told.holdings == what.found
