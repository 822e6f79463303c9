from dataclasses import replace

import pytest

from e2e.adversary.cards import Card
from e2e.adversary.environment import wrong
from e2e.adversary.rules import Held

CARDS = [Card(f"GPU-{index}", 16000, frozenset(("volcano",))) for index in range(2)]
ONE = Held("pod", "GPU-1", 4000, 20)
WHOLE = Held("pod", "GPU-0", 16000, 100, exclusive=True)
ENV = {
    "NVIDIA_VISIBLE_DEVICES": "GPU-1",
    "CUDA_DEVICE_MEMORY_LIMIT_0": "4000m",
    "CUDA_DEVICE_SM_LIMIT_0": "20",
}


def test_a_share_is_bounded_in_memory_and_compute() -> None:
    assert wrong("pod", ENV, [ONE], CARDS) == []


def test_a_whole_card_beside_a_share_has_all_its_memory_and_cards_come_by_index() -> None:
    inside = {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "16000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "4000m",
        "CUDA_DEVICE_SM_LIMIT_1": "20",
    }

    assert wrong("pod", inside, [ONE, WHOLE], CARDS) == []
    assert wrong("pod", {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}, [WHOLE], CARDS) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVIDIA_VISIBLE_DEVICES", "all"),
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "4001m"),
        ("CUDA_DEVICE_SM_LIMIT_0", "21"),
    ],
)
def test_each_variable_that_differs_is_reported(name: str, value: str) -> None:
    (found,) = wrong("pod", ENV | {name: value}, [ONE], CARDS)

    assert found == f"pod: {name} is {value}, not {ENV[name]}"


def test_a_missing_bound_is_reported() -> None:
    inside = {name: value for name, value in ENV.items() if "MEMORY" not in name}

    assert wrong("pod", inside, [ONE], CARDS) != []
    assert wrong("pod", ENV, [replace(ONE, memory=16000)], CARDS) != []
