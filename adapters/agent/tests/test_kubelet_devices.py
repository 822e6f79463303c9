import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.apiserver.reports import NodeStatusSource, SharingConfig
from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import Hardware, HardwareWatcher, Instance
from adapters.agent.kubelet import DeviceAssignment, KubeletAssignments, KubeletDevices, holdings
from adapters.agent.tests.builders import card, ledger
from adapters.agent.tests.test_kubelet_checkpoint import file, row
from adapters.tests.waiting import until
from adapters.wire.records.hardware import DeviceHolding
from core.hardware.mig import MigKey
from core.requests.grant import KUBELET, Grant

CARDS = tuple(card(index) for index in range(4))
SLICE = {MigKey("GPU-3", "1g.10gb", 0): Instance("MIG-3a")}
NODE = Hardware(CARDS, instances=SLICE)
GPU, MEMORY = "nvidia.com/gpu", "volcano.sh/gpu-memory"
REPLICAS, PROFILE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def one(*devices: str, visible: str = "", resource: str = GPU, pod: str = "7") -> DeviceAssignment:
    shown = tuple(visible.split(",")) if visible else ()
    return DeviceAssignment(pod, "main", resource, devices, shown)


def reported(
    given: DeviceAssignment, hardware: Hardware = NODE
) -> tuple[tuple[str, ...], bool] | None:
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
        (one("GPU-1::0", "GPU-2::3", resource=REPLICAS), (("GPU-1", "GPU-2"), True)),
        (one("MIG-3a", visible="MIG-3a", resource=PROFILE), (("GPU-3",), True)),
        # HAMi's plugin, whose devices stand for nothing
        (one("GPU-0-7", visible="GPU-2"), (("GPU-2",), True)),
        (one("GPU-0", visible="GPU-2"), (("GPU-2",), True)),
        # Volcano's older plugin
        (one("0-1", "1-7", visible="2", resource=MEMORY), (("GPU-2",), True)),
        (one("0-1", visible="3,1", resource="volcano.sh/gpu-number"), (("GPU-1", "GPU-3"), True)),
    ],
)
def test_the_plugins_answer_and_the_kubelets_devices_identify_the_cards(
    given: DeviceAssignment, expected: tuple[tuple[str, ...], bool]
) -> None:
    assert reported(given) == expected


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
def test_a_container_with_an_unknown_card_is_left_out(
    given: DeviceAssignment,
) -> None:
    assert reported(given) is None


def test_a_number_of_two_cards_identifies_none() -> None:
    twice = Hardware((card(0), replace(card(0), uuid="GPU-x")))

    assert reported(one("0-1", visible="0", resource=MEMORY), twice) is None


def test_a_uuid_is_known_by_the_hardware_however_it_is_written() -> None:
    lower = Hardware((replace(card(0), uuid="gpu-x"),))

    assert reported(one("gpu-x::1", visible="gpu-x"), lower) == (("gpu-x",), True)


def test_only_cards_of_nvidia_are_counted() -> None:
    assert reported(one("GPU-0"), Hardware((card(0, "metax"),))) is None


def test_other_resources_and_other_pods_are_left_out() -> None:
    given = [one("GPU-0", pod="8"), one("GPU-0", resource="rdma/hca"), one("GPU-1")]

    found = holdings(given, NODE, {"7"})

    assert found == (DeviceHolding("7", "main", GPU, 1, ("GPU-1",)),)


words = st.sampled_from(["GPU-0", "GPU-3", "GPU-9", "MIG-3a", "GPU-1::2", "GPU-1-2", "1", "9"])


@given(st.lists(words, max_size=3, unique=True), st.lists(words, max_size=3))
def test_cards_are_exclusive_where_they_are_the_kubelets_devices(
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
    return LedgerGrants(ledger(uid=uid, unread="no record"))


def following(path: Path, grants: LedgerGrants) -> tuple[KubeletDevices, list[bool]]:
    changes: list[bool] = []
    assignments = KubeletAssignments(path)
    devices = KubeletDevices(assignments, grants, lambda: NODE, [lambda: changes.append(True)])
    return devices, changes


def follow(devices: KubeletDevices) -> None:
    """Run until the devices are known."""

    async def scenario() -> None:
        task = asyncio.ensure_future(devices.run())
        await until(lambda: devices.found is not None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_the_agent_reports_the_cards_of_a_pod_that_the_ledger_does_not_know(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row(), row(PodUID="8")))
    devices, changes = following(place, unread())

    follow(devices)

    assert devices.found == (DeviceHolding("7", "c", GPU, 1, ("GPU-0",)),)
    assert changes == [True]


def test_the_agent_keeps_reporting_a_pod_that_is_known_from_its_report(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    held = ledger(Grant("c", "GPU-0", 1, 100), uid="7")
    allocation = replace(held.allocations["7"], dialect=KUBELET)
    devices, _ = following(place, LedgerGrants(held.adopt(allocation)))

    follow(devices)

    assert devices.found
    assert devices.found[0].pod == "7"


def test_the_agent_does_not_read_the_checkpoint_for_pods_that_the_ledger_knows(
    tmp_path: Path,
) -> None:
    devices, _ = following(tmp_path / "not there", LedgerGrants(ledger(Grant("c", "GPU-0", 1, 1))))

    follow(devices)

    assert devices.found == ()


def test_nothing_is_reported_before_the_ledger_is_known(tmp_path: Path) -> None:
    devices, changes = following(tmp_path / "not there", LedgerGrants())

    devices.update()

    assert devices.found is None
    assert changes == []


def test_a_pod_that_left_the_ledger_is_not_reported(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    grants = unread()
    devices, changes = following(place, grants)
    follow(devices)

    grants.replace(ledger(Grant("c", "GPU-0", 1, 1), uid="9"))
    devices.update()

    assert devices.found == ()
    assert changes == [True, True]


def test_there_is_no_desired_status_before_devices_and_hardware_are_known(tmp_path: Path) -> None:
    devices, _ = following(tmp_path / "not there", unread())
    watcher = HardwareWatcher(None, NODE, known=True)
    source = NodeStatusSource(watcher, SharingConfig(), lambda: devices.found, tuple)
    before = source.desired()
    devices.found = (DeviceHolding("7", "c", GPU, 1, ("GPU-0",)),)

    after = source.desired()
    unknown = NodeStatusSource(HardwareWatcher(None), SharingConfig(), tuple, tuple).desired()

    assert before is None
    assert unknown is None
    assert after is not None
    assert after.holdings == devices.found
