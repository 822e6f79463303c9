"""Our driver on a real node: kube-apiserver, kube-scheduler, kubelet and containerd as they are.

The node's cards are in a file, the rights and the classes are the chart's, and the arbiter is on.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.ready_cluster import PODS, events
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.configured import CONFIGS
from e2e.harness.workloads.claims import CLAIMS, DRIVER
from e2e.tests.dra.arbiter import kill, unchecked_while_away
from e2e.tests.dra.driver_node import (
    CARDS,
    EXTENDED,
    NODE,
    SLICES,
    DriverNode,
    claiming,
    driver_node,
    share,
    sharing,
)

pytestmark = [pytest.mark.local("the API server admits no claims of other modules")]

VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"}


@pytest.fixture(scope="module")
def built() -> Iterator[DriverNode]:
    with driver_node() as made:
        yield made


@pytest.fixture
def driver(built: DriverNode) -> Iterator[DriverNode]:
    """The node, on which no pod has a card; so it is left."""
    yield built
    built.end()


def example() -> list[Object]:
    return list(yaml.safe_load_all((CONFIGS / "examples" / "dra-share.yaml").read_text()))


def test_the_api_server_keeps_every_field_of_the_slices(driver: DriverNode) -> None:
    (found,) = driver.slices()

    pool = found["spec"]["pool"]
    assert (pool["name"], pool["resourceSliceCount"]) == (NODE, 1)
    assert found["metadata"]["ownerReferences"][0]["name"] == NODE
    device = found["spec"]["devices"][1]
    memory = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}
    assert device["allowMultipleAllocations"] is True
    assert device["attributes"]["uuid"] == {"string": "GPU-1"}
    assert device["capacity"]["memory"] == {"value": "80Gi", "requestPolicy": memory}
    assert device["capacity"]["slots"]["value"] == "10"


def test_the_example_runs_beside_a_volcano_pod_of_the_same_card(driver: DriverNode) -> None:
    """Pod and claim are deleted, and then the card is free."""
    api = driver.plane.api
    driver.find(CARDS[:1])
    driver.wait_for_cards(1)
    body = sharing(driver, "shared", VOLCANO)
    api.create(PODS, body)
    driver.wait_until_running("shared")
    claim, notebook = example()

    api.create(CLAIMS, claim)
    api.create(PODS, notebook)
    driver.wait_until_running("dra-notebook")

    assert driver.held() == {"shared": [("GPU-0", 4096)], "dra-notebook": [("GPU-0", 8192)]}
    inside = driver.node.inside(driver.read("dra-notebook"), "main")
    assert inside.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert inside.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "8192m"
    assert inside.env["CUDA_DEVICE_SM_LIMIT_0"] == "20"
    assert inside.devices == {"nvidia0", "nvidiactl"}
    assert "/usr/local/vgpu/libvgpu.so" in inside.libraries
    other = driver.node.inside(driver.read("dra-notebook"), "sidecar")
    assert other.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert (other.devices, other.libraries) == (frozenset(), frozenset())
    shared = driver.node.inside(driver.read("shared"), body["spec"]["containers"][0]["name"])
    assert shared.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"


def test_a_claim_that_was_allocated_unchecked_and_does_not_fit_never_runs(
    driver: DriverNode,
) -> None:
    """The arbiter is away, and its failure policy lets kube-scheduler allocate a card in use."""
    api = driver.plane.api
    driver.find(CARDS[:1])
    driver.wait_for_cards(1)
    large = VOLCANO | {"volcano.sh/vgpu-memory": str(70 * 1024)}
    api.create(PODS, sharing(driver, "large", large))
    driver.wait_until_running("large")
    with unchecked_while_away(api):
        kill(driver.service)
        api.create(CLAIMS, {"metadata": {"name": "unchecked"}, **share("60Gi")})

        api.create(PODS, claiming("unchecked", "unchecked"))

        within(60, lambda: any("ledger" in each for each in events(api, "unchecked")))
        driver.service.start()
    reason = "130.0 of 80.0 GiB are allocated"
    within(60, lambda: any(reason in each for each in events(api, "unchecked")))
    assert set(driver.held()) == {"large", "unchecked"}
    assert driver.read("unchecked")["spec"]["nodeName"] == NODE
    assert driver.read("unchecked")["status"]["phase"] == "Pending"
    assert not driver.files()
    api.delete(f"{PODS}/large")
    driver.wait_until_running("unchecked")


def test_two_claims_of_a_container_are_one_share_and_each_container_has_its_own(
    driver: DriverNode,
) -> None:
    api = driver.plane.api
    for name, memory in (("a", "60Gi"), ("b", "50Gi"), ("c", "4Gi")):
        api.create(CLAIMS, {"metadata": {"name": name}, **share(memory)})

    api.create(PODS, claiming("two", "a", "b", "c", main=["a", "b"], second=["c"]))
    driver.wait_until_running("two")

    found = {name: dict(grants) for name, grants in driver.held().items()}
    main = driver.node.inside(driver.read("two"), "main").env
    assert main["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    for number in range(2):
        amounts = (found[claim].get(f"GPU-{number}") for claim in ("a", "b"))
        (amount,) = (each for each in amounts if each)
        assert main[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] == f"{amount}m"
    second = driver.node.inside(driver.read("two"), "second").env
    assert second["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"


def test_a_claim_of_all_compute_has_its_card_alone(driver: DriverNode) -> None:
    """The scheduler would put the next claim beside it, which reserves no compute."""
    api = driver.plane.api
    for name, compute in (("alone", "100"), ("other", "0")):
        made = share("4Gi")
        made["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"] |= {
            "compute": compute
        }
        api.create(CLAIMS, {"metadata": {"name": name}, **made})

        api.create(PODS, claiming(name, name))
        driver.wait_until_running(name)

    assert driver.held() == {"alone": [("GPU-0", 4096)], "other": [("GPU-1", 4096)]}


def test_a_share_of_two_containers_never_runs_and_the_event_says_why(driver: DriverNode) -> None:
    api = driver.plane.api
    api.create(CLAIMS, {"metadata": {"name": "both"}, **share("4Gi")})

    api.create(PODS, claiming("twice", "both", main=["both"], second=["both"]))

    within(60, lambda: any("one container can use a share" in e for e in events(api, "twice")))
    assert driver.read("twice")["status"]["phase"] == "Pending"


def test_a_restarted_driver_finds_its_claims_and_a_restarted_kubelet_its_slices(
    driver: DriverNode,
) -> None:
    """The kubelet deletes the slices of its node when it starts, and asks for claims again."""
    api = driver.plane.api
    api.create(CLAIMS, {"metadata": {"name": "kept"}, **share("4Gi")})
    api.create(PODS, claiming("kept", "kept"))
    driver.wait_until_running("kept")
    files, before = driver.files(), containers_of(driver.read("kept"))
    assert len(files) == 1

    driver.stop_driver()
    (kubelet,) = (e for e in driver.plane.run.processes if e.name == f"kubelet-{NODE}")
    kubelet.stop()  # it stays in the list: the node stops it once more
    for item in driver.slices():
        with suppress(ApiError):
            api.delete(f"{SLICES}/{item['metadata']['name']}")
    start_kubelet(driver.plane, driver.node.runtime, NODE)
    driver.start_driver()

    within(60, lambda: len(driver.slices()) == 1)
    assert driver.files() == files
    assert containers_of(driver.read("kept")) == before


def containers_of(found: Object) -> list[str]:
    """The identity of each container of a pod, which a restart changes."""
    return [each["containerID"] for each in found["status"]["containerStatuses"]]


def test_a_card_stays_in_use_while_a_container_of_a_pod_that_was_deleted_by_force_runs(
    driver: DriverNode,
) -> None:
    """The claim is deallocated at once; its container ignores the signal until it is killed.

    Then the kubelet removes the claim, minutes before the grace period ends.
    """
    api = driver.plane.api
    driver.find(CARDS[:1])
    driver.wait_for_cards(1)
    for name in ("first", "next"):
        api.create(CLAIMS, {"metadata": {"name": name}, **share("60Gi")})
    stubborn = claiming("stubborn", "first")
    stubborn["spec"]["terminationGracePeriodSeconds"] = 600
    command = f"trap '' TERM; while true; do sleep 1; done # {MARK}"
    stubborn["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", command]
    api.create(PODS, stubborn)
    driver.wait_until_running("stubborn")
    assert processes()

    api.delete(f"{PODS}/stubborn?gracePeriodSeconds=0")
    api.create(PODS, claiming("next", "next"))

    within(60, lambda: "allocation" not in api.get(f"{CLAIMS}/first").get("status", {}))
    within(60, lambda: any("dragoman: dra: card" in each for each in events(api, "next")))
    assert driver.held() == {"first": [("GPU-0", 60 << 10)]}
    for process in processes():
        os.kill(process, signal.SIGKILL)
    driver.wait_until_running("next")
    assert driver.held() == {"next": [("GPU-0", 60 << 10)]}


MARK = "stubborn-claim"


def processes() -> list[int]:
    """The processes of the container of the pod that was deleted."""
    found: list[int] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if MARK.encode() in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def test_an_unhealthy_card_is_tainted_and_gets_no_claim(driver: DriverNode) -> None:
    """The status of a pod that has the card says so."""
    api = driver.plane.api
    for name in ("unhealthy", "healthy"):
        api.create(CLAIMS, {"metadata": {"name": name}, **share("4Gi")})
    api.create(PODS, claiming("unhealthy", "unhealthy"))
    driver.wait_until_running("unhealthy")
    within(60, lambda: health_of(driver.read("unhealthy")) == [("Healthy", "")])

    driver.find([CARDS[0] | {"healthy": False, "problem": "Xid 79"}, CARDS[1]])
    within(60, lambda: any("taints" in each for each in driver.slices()[0]["spec"]["devices"]))
    within(60, lambda: health_of(driver.read("unhealthy")) == [("Unhealthy", "Xid 79")])

    api.create(PODS, claiming("healthy", "healthy"))
    driver.wait_until_running("healthy")

    assert driver.held() == {"unhealthy": [("GPU-0", 4096)], "healthy": [("GPU-1", 4096)]}


def health_of(found: Object) -> list[tuple[str, str]]:
    """The health of each device of a pod's containers, and its problem, by the pod's status."""
    return [
        (device["health"], device.get("message", ""))
        for container in found["status"]["containerStatuses"]
        for resource in container.get("allocatedResourcesStatus", ())
        for device in resource["resources"]
    ]


def test_a_pod_with_the_extended_resource_gets_a_whole_card(driver: DriverNode) -> None:
    api = driver.plane.api
    body = claiming("whole")
    body["spec"]["containers"][0]["resources"] = {"limits": {EXTENDED: "1"}}

    api.create(PODS, body)
    driver.wait_until_running("whole")

    (grants,) = driver.held().values()
    assert [memory for _, memory in grants] == [81920]
    env = driver.node.inside(driver.read("whole"), "main").env
    assert env["NVIDIA_VISIBLE_DEVICES"] == grants[0][0]
    assert "CUDA_DEVICE_MEMORY_LIMIT_0" not in env


def test_slices_of_mig_cards_are_accepted(driver: DriverNode) -> None:
    mig = CARDS[1] | {"mode": "mig"}
    driver.find([CARDS[0], mig])

    within(60, lambda: len(driver.slices()) == 3)

    pools = {each["spec"]["pool"]["name"] for each in driver.slices()}
    assert pools == {NODE, f"{NODE}/mig"}


def test_the_driver_may_write_slices_of_its_own_node_only(driver: DriverNode) -> None:
    user = json.loads(driver.config.read_text())["ledger"]["kubeconfig"]
    spec = {
        "driver": DRIVER,
        "nodeName": "other",
        "pool": {"name": "other", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    }

    with pytest.raises(ApiError, match="of its own node only"):
        connect(Path(user)).create(SLICES, {"metadata": {"name": "other"}, "spec": spec})
