"""The oracle of pods and claims finds what does not fit, in the order of the store."""

from typing import Any

from e2e.harness.oracles.shared_cards import ASSIGNED, SharedCards
from e2e.harness.workloads.inventory import Gpu

CARD = Gpu("GPU-0", 1000)
DEVICES = {("driver", "node", "gpu-0"): CARD}


def a_pod(name: str, version: int, memory: int, compute: int = 0) -> dict[str, Any]:
    record = f"GPU-0,NVIDIA,{memory},{compute}:;"
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": str(version),
            "annotations": {"volcano.sh/vgpu-ids-new": record},
        },
        "spec": {"nodeName": "node", "containers": [{}]},
    }


def a_claim(
    name: str, version: int, consumed: dict[str, str] | None, *, shared: bool = True
) -> dict[str, Any]:
    result: dict[str, Any] = {"driver": "driver", "pool": "node", "device": "gpu-0"}
    result |= {"shareID": "0", "consumedCapacity": consumed or {}} if shared else {}
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return {
        "metadata": metadata,
        "spec": {},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def problems(*changes: tuple[str, dict[str, Any]]) -> list[str]:
    watched = SharedCards([CARD], DEVICES)
    for what, item in changes:
        watched.see(what, item)
    return watched.problems()


def test_a_pod_and_a_claim_that_fit_are_no_problem() -> None:
    pod, claim = a_pod("p", 1, 600, 50), a_claim("c", 2, {"memory": "400Mi", "cores": "50"})

    assert problems(("ADDED", pod), ("ADDED", claim)) == []


def test_memory_and_compute_of_a_pod_and_a_claim_are_added_up() -> None:
    pod = a_pod("p", 1, 600, 50)

    (memory,) = problems(("ADDED", pod), ("ADDED", a_claim("c", 2, {"memory": "401Mi"})))
    (compute,) = problems(
        ("ADDED", pod), ("ADDED", a_claim("c", 2, {"memory": "1Mi", "cores": "51"}))
    )

    assert "after c: GPU-0 has allocated 1001 of 1000 MiB" in memory
    assert "101 %" in compute


def test_a_result_without_a_share_is_the_whole_card() -> None:
    pod, claim = a_pod("p", 1, 1), a_claim("c", 2, None, shared=False)

    assert len(problems(("ADDED", pod), ("ADDED", claim))) == 1


def test_a_card_that_a_kubelet_assigned_is_a_whole_card_from_then_on() -> None:
    share, bound = a_pod("s", 1, 1), a_pod("p", 2, 0)
    bound["metadata"]["annotations"] = {}
    assigned = a_pod("p", 3, 0)
    assigned["metadata"]["annotations"] = {ASSIGNED: CARD.uuid}

    assert problems(("ADDED", share), ("ADDED", bound)) == []
    assert len(problems(("ADDED", share), ("ADDED", bound), ("MODIFIED", assigned))) == 1


def test_containers_that_share_a_card_are_counted() -> None:
    pods = [("ADDED", a_pod(str(number), number, 1)) for number in range(11)]

    (found,) = problems(*pods)

    assert "11 of 10 slots" in found


def test_changes_are_looked_at_in_the_order_of_the_store() -> None:
    """The watch of claims can be ahead of that of pods."""
    pod, claim = a_pod("p", 1, 600), a_claim("c", 3, {"memory": "600Mi"})
    gone = a_pod("p", 2, 600)

    assert problems(("ADDED", pod), ("ADDED", claim), ("DELETED", gone)) == []
    assert problems(("ADDED", pod), ("ADDED", claim), ("DELETED", gone | a_pod("p", 4, 600)))


def test_a_watch_that_breaks_is_a_problem() -> None:
    assert problems(("ERROR", {"code": 410})) == ["a watch broke: {'code': 410}"]
