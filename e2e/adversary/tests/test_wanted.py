import pytest

from e2e.adversary.wanted import FULL, Part, wanted
from e2e.harness.cluster.api import Object


def pod(limits: dict[str, str]) -> Object:
    return {"metadata": {}, "spec": {"containers": [{"resources": {"limits": limits}}]}}


@pytest.mark.parametrize(
    ("amounts", "part"),
    [
        ({"gpumem": "3k", "gpucores": "30"}, Part(2, 3000, None, 30, exclusive=False)),
        ({"gpumem": "2000"}, Part(2, 2000, None, 0, exclusive=False)),
        ({"gpumem": "2000", "gpucores": "100"}, Part(2, 2000, None, FULL, exclusive=True)),
        ({"gpumem-percentage": "50"}, Part(2, None, 50, 0, exclusive=False)),
        ({"gpumem-percentage": "100"}, Part(2, None, FULL, FULL, exclusive=True)),
    ],
)
def test_hamis_amounts_are_of_each_card(amounts: dict[str, str], part: Part) -> None:
    limits = {"nvidia.com/gpu": "2"} | {f"nvidia.com/{name}": n for name, n in amounts.items()}

    asked = wanted(pod(limits))

    assert asked is not None
    assert (asked.dialect, asked.parts) == ("hami", (part,))


def test_a_pod_without_a_share_requests_none() -> None:
    assert wanted(pod({"cpu": "1"})) is None
