"""docs/reference/dialects/dra-driver.md: its commands; a claim beside other pods on one card."""

from e2e.kind import cards
from e2e.kind.claims import disable_claims, enable_claims
from e2e.kind.pods import create, delete, environment, granted, pod, used, volcano
from e2e.kind.shell import eventually, sh, wait_for

MIB = 2**20


def test_a_claim_gets_its_share_where_pods_of_another_dialect_leave_room(
    workers: list[str],
) -> None:
    node, other = workers
    example = enable_claims(len(workers))
    sh(f"kubectl cordon {other}")
    create(
        pod("full", volcano(cards.MEMORY_MIB), node=node, scheduler="volcano"),
        pod("beside", volcano(8000, cores=30), node=node, scheduler="volcano"),
    )
    wait_for("pod/full pod/beside", "--for=condition=Ready")
    sh(example)
    wait_for("pod/dra-notebook", "--for=condition=Ready")

    held = granted(node)
    (share,) = held["dra-notebook"]
    assert (share["memory"] // MIB, share["compute"]) == (8192, 20)
    assert share["card"] == held["beside"][0]["card"]
    inside = environment("dra-notebook")
    assert inside["NVIDIA_VISIBLE_DEVICES"] == share["card"]
    assert inside["CUDA_DEVICE_MEMORY_LIMIT_0"] == "8192m"
    aside = sh("kubectl exec dra-notebook -c sidecar -- env").splitlines()
    assert "NVIDIA_VISIBLE_DEVICES=void" in aside


def test_without_the_driver_its_slices_go(workers: list[str]) -> None:
    delete("full", "beside", "dra-notebook")
    sh("kubectl delete resourceclaim dra-notebook")
    sh(f"kubectl uncordon {workers[1]}")
    eventually(60, lambda: used() == {})

    disable_claims()
