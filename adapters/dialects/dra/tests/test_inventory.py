import msgspec
import pytest

from adapters.dialects.dialect import Defaults
from adapters.dialects.dra.devices import Devices, described
from adapters.dialects.dra.tests.builders import NVIDIA, a_card_device, a_mig_device, a_slice
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.dialects.volcano.keys import REGISTER
from adapters.wire.dra import DeviceTaintRule, ResourceSlice
from adapters.wire.kube import KubeNode, Metadata
from core.hardware.card import Card
from core.hardware.quantity import GIB


def cards(*slices: ResourceSlice, wrong: tuple[str, ...] = ()) -> tuple[Card, ...]:
    found = described("n", Devices(slices).of_node("n"))
    node, problems = read_node(
        KubeNode(Metadata(name="n")), None, dialects({}, Defaults()), more=found
    )
    assert problems == wrong
    return node.cards


def test_a_slice_describes_whole_cards_with_a_uuid_and_memory() -> None:
    bare: dict[str, object] = {"name": "bare", "attributes": {"uuid": {"string": "GPU-2"}}}
    found = cards(
        a_slice(
            a_card_device("gpu-1", "GPU-1"),
            a_card_device("gpu-0", "GPU-0", "40Gi"),
            a_mig_device("mig", "GPU-3", "1g", 0),
            bare,
        ),
        wrong=("the ResourceSlice of gpu.nvidia.com/n/bare states no memory: no ledger counts it",),
    )

    model = "NVIDIA A100 80GB PCIe"
    assert found == (
        Card("GPU-0", "n", 0, "nvidia", model, 40 * GIB, 10),
        Card("GPU-1", "n", 1, "nvidia", model, 80 * GIB, 10),
    )


def test_a_card_has_the_number_the_slots_and_the_numa_node_that_its_driver_states() -> None:
    device: dict[str, object] = {
        "name": "gpu-0",
        "attributes": {
            "uuid": {"string": "x"},
            "index": {"int": 3},
            "vendor": {"string": "MetaX"},
            "resource.kubernetes.io/numaNode": {"int": 1},
        },
        "capacity": {"memory": {"value": "1Gi"}, "shares": {"value": "7"}},
    }

    (found,) = cards(a_slice(device, driver="gpu.metax-tech.com"))

    assert (found.index, found.vendor, found.slots, found.numa) == (3, "metax", 7, 1)


LOST = {"key": "gpu.nvidia.com/gpu-lost", "value": "true", "effect": "NoExecute"}


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "health.example.com"])
def test_a_card_that_a_driver_taints_gets_no_pod_of_any_dialect(effect: str, driver: str) -> None:
    devices = [a_card_device("gpu-0", "GPU-0"), a_card_device("gpu-1", "GPU-1")]
    tainted = {**devices[1], "taints": [{**LOST, "effect": "None"}, {**LOST, "effect": effect}]}

    fine, lost = by_volcano("GPU-0", "GPU-1", devices=a_slice(devices[0], tainted, driver=driver))

    assert (fine.healthy, fine.problem) == (True, "")
    assert not lost.healthy
    assert lost.problem == (
        f"the driver {driver} gave its device gpu-1 the taint gpu.nvidia.com/gpu-lost=true:{effect}"
    )


def test_a_tainted_part_closes_its_card_also_where_the_slice_states_no_memory() -> None:
    mig = a_mig_device("mig", "GPU-0", "1g.10gb", 0)
    part = {**mig, "taints": [{**LOST, "value": ""}]}
    uuid = {"uuid": {"string": "GPU-1"}}
    counters = [{"counterSet": "gpu-1", "counters": {"m": {"value": "1"}}}]
    bare: dict[str, object] = {
        "name": "b",
        "attributes": uuid,
        "taints": [LOST],
        "consumesCounters": counters,
    }

    part_lost, bare_lost = by_volcano("GPU-0", "GPU-1", devices=a_slice(part, bare))

    assert not part_lost.healthy
    assert part_lost.problem.endswith("mig the taint gpu.nvidia.com/gpu-lost:NoExecute")
    assert not bare_lost.healthy


@pytest.mark.parametrize(
    "taint",
    [{}, {**LOST, "effect": "None"}, {**LOST, "effect": 7}, {**LOST, "effect": "noexecute"}],
)
def test_a_taint_without_an_effect_on_scheduling_closes_no_card(taint: dict[str, object]) -> None:
    device = {**a_card_device("gpu-0", "GPU-0"), "taints": [taint]}

    (card,) = by_volcano("GPU-0", devices=a_slice(device))

    assert card.healthy


@pytest.mark.parametrize(
    ("selector", "effect", "closes"),
    [
        ({}, "NoSchedule", (True, True)),
        ({"driver": NVIDIA, "pool": "n", "device": "mig"}, "NoExecute", (False, True)),
        ({"device": "gpu-0"}, "None", (False, False)),
        ({"pool": "m"}, "NoExecute", (False, False)),
        (None, "NoExecute", (False, False)),
    ],
)
def test_a_card_that_an_administrator_taints_gets_no_pod_of_any_dialect(
    selector: dict[str, str] | None, effect: str, closes: tuple[bool, ...]
) -> None:
    devices = a_slice(a_card_device("gpu-0", "GPU-0"), a_mig_device("mig", "GPU-1", "1g.10gb", 0))
    spec: dict[str, object] = {"taint": {"key": "x", "effect": effect}}
    spec |= {} if selector is None else {"deviceSelector": selector}
    rule = msgspec.convert({"metadata": {"name": "broken"}, "spec": spec}, DeviceTaintRule)

    found = by_volcano("GPU-0", "GPU-1", devices=devices, rules=(rule,))

    why = f"DeviceTaintRule broken taints it: x:{effect}"
    assert [card.problem for card in found] == [why if each else "" for each in closes]
    assert [card.healthy for card in found] == [not each for each in closes]


def by_volcano(
    *uuids: str, devices: ResourceSlice, rules: tuple[DeviceTaintRule, ...] = ()
) -> tuple[Card, ...]:
    text = "".join(f"{each},10,81920,NVIDIA-A100,true,hami-core:" for each in uuids)
    node = KubeNode(Metadata(name="n", annotations={REGISTER: text}))
    found = described("n", Devices((devices,)).of_node("n"), rules)
    read, problems = read_node(node, None, dialects({}, Defaults()), more=found)
    assert problems == tuple(
        f"card {card.uuid}: {card.problem}" for card in read.cards if card.problem
    )
    return read.cards


def test_the_vendor_follows_from_the_uuid_or_from_the_driver() -> None:
    def vendor(uuid: str, driver: str) -> str:
        device: dict[str, object] = {
            "name": "d",
            "attributes": {"uuid": {"string": uuid}},
            "capacity": {"memory": {"value": "1Gi"}},
        }
        (found,) = cards(a_slice(device, driver=driver))
        return found.vendor

    assert vendor("GPU-1", "gpu.example.com") == "nvidia"
    assert vendor("x", "gpu.example.com") == "example"
    assert vendor("x", "gpus") == "gpus"


def test_other_drivers_describe_no_card() -> None:
    assert cards(a_slice(a_card_device("d", "u"), driver="nic.example.com")) == ()


def test_a_device_may_name_its_node_itself() -> None:
    slices = a_slice(a_card_device("gpu-0", "GPU-0"))
    spec = slices.spec
    devices = [each.__replace__(node_name="m") for each in spec.devices or ()]
    item = slices.__replace__(spec=spec.__replace__(node_name=None, devices=tuple(devices)))
    nowhere = slices.__replace__(spec=spec.__replace__(node_name=None, devices=None))

    found = Devices((item, nowhere))

    assert [device.name for device in found.of_node("m")] == ["gpu-0"]
    assert found.of_node("n") == ()
    assert found.nodes_of_pool("gpu.nvidia.com", "n") == {"m"}


def test_drivers_of_cards_and_of_devices_without_a_node_are_known() -> None:
    nics = a_slice({"name": "nic"}, driver="nic.example.com")
    nics = nics.__replace__(spec=nics.spec.__replace__(node_name=None))

    found = Devices((a_slice(a_card_device("gpu-0", "GPU-0")), nics))

    drivers = (NVIDIA, "nic.example.com", None)
    assert [found.may_be_cards(driver) for driver in drivers] == [True, False, True]
    assert [found.are_anywhere(driver) for driver in drivers] == [False, True, True]


def test_a_pool_of_several_nodes_is_that_of_the_node_whose_name_it_has() -> None:
    own = a_slice(a_card_device("gpu-0", "GPU-0"))
    spec = own.spec.__replace__(node_name="m")
    forged = own.__replace__(spec=spec)
    empty = own.__replace__(spec=own.spec.__replace__(devices=None))

    found = Devices((own, forged, empty))

    assert [device.name for device in found.own("n")] == ["gpu-0"]
    assert found.own("m") == ()
    assert Devices((forged,)).own("m") != ()


def test_devices_that_were_read_before_are_those_of_the_newest_slices() -> None:
    first, second = (
        a_slice(a_card_device(f"gpu-{i}", f"GPU-{i}")).__replace__(metadata=Metadata(name=str(i)))
        for i in range(2)
    )
    before = Devices([first, second])
    newer = a_slice(a_card_device("gpu-1", "GPU-9"), generation=2)

    found = Devices([first, newer], before)

    assert found.of_node("n") == Devices([first, newer]).of_node("n")
    assert [each.card for each in found.of_node("n")] == ["GPU-0", "GPU-9"]
    assert found.of_node("n")[0] is before.of_node("n")[0]


def test_a_device_that_is_no_card_is_a_problem_unless_others_describe_its_card() -> None:
    bare: dict[str, object] = {"name": "d", "attributes": {"uuid": {"string": "GPU-0"}}}
    nameless: dict[str, object] = {"name": "e", "capacity": {"memory": {"value": "1Gi"}}}
    part: dict[str, object] = {"name": "f", "consumesCounters": [{"counterSet": "s"}]}
    shown = "the ResourceSlice of gpu.other.com/n"

    assert (
        cards(
            a_slice(bare, nameless, part, driver="gpu.other.com"),
            wrong=(
                f"{shown}/d states no memory: no ledger counts it",
                f"{shown}/e states no uuid, or two: no ledger counts it",
            ),
        )
        == ()
    )
    (card,) = cards(a_slice(a_card_device("gpu-0", "GPU-0")), a_slice(bare, driver="gpu.other.com"))
    assert card.uuid == "GPU-0"
    assert cards(a_slice(bare, nameless, driver="nic.example.com")) == ()


def test_a_device_of_v1beta1_has_its_parts_under_basic() -> None:
    whole = a_card_device("gpu-0", "GPU-0", "40Gi")
    basic: dict[str, object] = {"name": whole.pop("name"), "basic": whole}

    (card,) = cards(a_slice(basic))

    assert (card.uuid, card.memory) == ("GPU-0", 40 * GIB)


def test_the_flaw_of_a_device_is_known_by_its_key() -> None:
    bare: dict[str, object] = {"name": "d", "attributes": {"uuid": {"string": "GPU-0"}}}
    devices = Devices([a_slice(bare, a_card_device("gpu-0", "GPU-1"))])

    flaws = [
        devices.flaw("n", key)
        for key in (
            ("gpu.nvidia.com", "n", "d"),
            ("gpu.nvidia.com", "n", "gpu-0"),
            ("gpu.nvidia.com", "n", "x"),
            ("nic.example.com", "n", "x"),
        )
    ]

    assert flaws == [
        "the ResourceSlice of gpu.nvidia.com/n/d states no memory: no ledger counts it",
        "",
        "no ResourceSlice describes gpu.nvidia.com/n/x",
        "",
    ]
