from dataclasses import replace

import pytest

from adapters.dialects.adoption import adopt
from adapters.dialects.tests.builders import ALL, bound
from adapters.wire.kube import Amount
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
