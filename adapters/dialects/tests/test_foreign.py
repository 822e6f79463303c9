from dataclasses import replace

import pytest
from msgspec import structs

from adapters.dialects.adoption import adopt, adopt_from_kubelet
from adapters.dialects.formats.gpu_fractions import names_fraction
from adapters.dialects.tests.builders import ALL, bound
from adapters.wire.kube import Amount
from adapters.wire.records.hardware import DeviceHolding
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.hardware.quantity import GIB, MIB
from core.requests.grant import KUBELET, KUBELET_CHOOSES, Grant

RECORD = "hami.io/vgpu-devices-allocated"
SHARED = Card("u0", "n", 0, "nvidia", "A100", 40 * GIB, 10, dialects=frozenset({"volcano"}))
SLICED = replace(SHARED, uuid="u1", index=1, mode=Mode.MIG)
METAX = replace(SHARED, uuid="m0", index=2, vendor="metax")
NODE = Node("n", (SHARED, SLICED, METAX))


def test_a_pod_of_hami_with_renamed_resources_has_the_cards_of_its_record() -> None:
    pod = bound({"nvidia.com/vgpu": 1}, {RECORD: "u0,NVIDIA,3000,30:;"})

    found = adopt(pod, NODE, ALL)

    assert found is not None
    assert (found.dialect, found.unread) == ("hami", None)
    assert found.grants == (Grant("c", "u0", 3000 * MIB, 30),)


@pytest.mark.parametrize("text", ["garbage", "u0,NVIDIA,-1,30:;"])
def test_an_unreadable_record_of_hami_blocks_every_card_of_nvidia(text: str) -> None:
    found = adopt(bound({"nvidia.com/vgpu": 1}, {RECORD: text}), NODE, ALL)

    assert found is not None
    assert found.unread
    assert found.grants == ()
    assert found.blocked == {"u0", "u1"}


@pytest.mark.parametrize(
    ("limits", "blocked"),
    [
        ({"nvidia.com/gpu.shared": 1}, {"u0"}),
        ({"nvidia.com/mig-1g.5gb": 1}, {"u1"}),
        ({"nvidia.com/gpu.shared": 1, "nvidia.com/mig-2g.10gb": 1}, {"u0", "u1"}),
    ],
)
def test_cards_of_nvidias_device_plugin_are_in_use_although_no_record_names_them(
    limits: dict[str, Amount], blocked: set[str]
) -> None:
    found = adopt(bound(limits), NODE, ALL)

    assert found is not None
    assert (found.dialect, found.unread) == (KUBELET, KUBELET_CHOOSES)
    assert found.grants == ()
    assert found.blocked == blocked


@pytest.mark.parametrize(
    "limits", [{"cpu": 1}, {"example.com/fpga": 1}, {"koordinator.sh/rdma": 1}]
)
def test_a_pod_that_uses_no_card_has_no_allocation(limits: dict[str, Amount]) -> None:
    assert adopt(bound(limits), NODE, ALL) is None


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": 1}, {"nvidia.com/mig-1g.5gb": 1}])
@pytest.mark.parametrize("node", [Node("n", (METAX,)), Node("n", ())])
def test_a_node_without_such_cards_has_none_of_them_in_use(
    limits: dict[str, Amount], node: Node
) -> None:
    assert adopt(bound(limits), node, ALL) is None


def test_a_pod_of_two_dialects_on_a_node_without_cards_has_no_allocation() -> None:
    both: dict[str, Amount] = {"nvidia.com/gpu": 1, "volcano.sh/vgpu-number": 1}

    assert adopt(bound(both), Node("n", ()), ALL) is None


FRACTION = "nvidia.com/container.c.gpus.devices"
REQUEST = "nvidia.com/container.c.gpu-memory.request"
LIMIT = "nvidia.com/container.c.gpu-memory.limit"


@pytest.mark.parametrize(
    ("texts", "grants"),
    [
        ({FRACTION: "u0", REQUEST: "8Gi", LIMIT: "16Gi"}, [("c", "u0", 8)]),
        ({FRACTION: "u0", LIMIT: "16Gi"}, [("c", "u0", 16)]),
        ({FRACTION: "u0, u1", REQUEST: "8Gi"}, [("c", "u0", 8), ("c", "u1", 8)]),
        ({FRACTION: "u0", "gpu-memory": "2048"}, [("c", "u0", 2)]),
        ({FRACTION: "u0", "gpu-fraction": "0.25"}, [("c", "u0", 10)]),
        (
            {FRACTION: "u0", REQUEST: "1Gi", "nvidia.com/container.d.e.gpus.devices": "u0"}
            | {"nvidia.com/container.d.e.gpu-memory.request": "2Gi"},
            [("c", "u0", 1), ("d.e", "u0", 2)],
        ),
    ],
)
def test_a_fraction_of_nvidia_holds_its_part_of_the_card_that_it_names(
    texts: dict[str, str], grants: list[tuple[str, str, int]]
) -> None:
    found = adopt(bound({"cpu": 1}, texts), NODE, ALL)

    assert found is not None
    assert (found.dialect, found.unread) == (KUBELET, None)
    assert found.grants == tuple(Grant(name, card, gib * GIB, 0) for name, card, gib in grants)


@pytest.mark.parametrize(
    "texts",
    [{}, {REQUEST: "much"}, {REQUEST: "0"}, {"gpu-memory": "-1"}, {"gpu-fraction": "half"}],
)
def test_a_fraction_of_no_clear_amount_holds_the_card_that_it_names(texts: dict[str, str]) -> None:
    named = {"nvidia.com/container.d.gpus.devices": "u1", **texts}
    amount = {"nvidia.com/container.d.gpu-memory.request": "1Gi"}

    found = adopt(bound({"cpu": 1}, {FRACTION: "u0", **texts}), NODE, ALL)
    both = adopt(bound({"cpu": 1}, {FRACTION: "u0", **named, **amount}), NODE, ALL)

    assert found is not None
    assert both is not None
    assert not found.grants
    assert found.blocked == {"u0"}
    assert not both.grants
    assert both.blocked == {"u0", "u1"}


def test_a_fraction_of_a_card_that_the_node_does_not_have_holds_nothing() -> None:
    assert adopt(bound({"cpu": 1}, {FRACTION: "u9", REQUEST: "1Gi"}), NODE, ALL) is None


def test_a_reservation_pod_of_kai_blocks_the_card_that_it_names_and_no_other() -> None:
    pod = bound({"nvidia.com/gpu": 1}, {"run.ai/reserve_for_gpu_index": "u0"})
    for namespace in ("kai-resource-reservation", "runai-reservation"):
        metadata = structs.replace(pod.metadata, namespace=namespace)
        reservation = structs.replace(pod, metadata=metadata)

        found = adopt(reservation, NODE, ALL)

        assert found is not None
        assert (found.dialect, found.grants) == (KUBELET, ())
        assert found.blocked == {"u0"}
        held = DeviceHolding(pod.metadata.uid, "c", "nvidia.com/gpu", 1, ("u0",))
        assert adopt_from_kubelet(found, reservation, NODE, ALL, [held]) is found


@pytest.mark.parametrize("stated", ["", "-1", "u9"])
def test_a_reservation_pod_that_names_no_card_may_have_each(stated: str) -> None:
    pod = bound({"nvidia.com/gpu": 1}, {"run.ai/reserve_for_gpu_index": stated})
    metadata = structs.replace(pod.metadata, namespace="kai-resource-reservation")

    found = adopt(structs.replace(pod, metadata=metadata), NODE, ALL)

    assert found is not None
    assert found.unread == KUBELET_CHOOSES


def test_what_an_author_writes_as_a_reservation_is_no_word_of_the_kubelet() -> None:
    pod = bound({"nvidia.com/gpu": 1}, {"run.ai/reserve_for_gpu_index": "u0"})

    found = adopt(pod, NODE, ALL)

    assert found is not None
    assert found.unread == KUBELET_CHOOSES


def test_only_an_annotation_that_names_devices_makes_a_fraction() -> None:
    assert names_fraction(bound({"cpu": 1}, {FRACTION: "u0"}))
    assert not names_fraction(bound({"cpu": 1}, {REQUEST: "8Gi", "gpu-fraction": "0.5"}))
