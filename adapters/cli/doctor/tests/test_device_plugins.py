"""Nodes that device plugins serve: alone, or beside our agent or HAMi."""

import json
from dataclasses import replace

import pytest

from adapters.cli.doctor.finding import CheckResult, FindingLevel
from adapters.cli.doctor.tests.sound_cluster import (
    NAME,
    NAMESPACE,
    Object,
    SoundCluster,
    a_node,
    a_pod,
    a_sound_cluster,
)
from adapters.wire.records import hardware
from core.tests.builders import a_card

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-3g.20gb"
HAMI = json.dumps(
    [
        {
            "id": "GPU-1",
            "count": 10,
            "devmem": 16384,
            "devcore": 100,
            "type": "NVIDIA-T4",
            "health": True,
            "index": 0,
        }
    ]
)


def stating(cluster: SoundCluster, name: str, **annotations: str) -> Object:
    found = a_node(name)
    amounts = {GPU: "8", MIG: "2", "cpu": "4"}
    found["status"] |= {"allocatable": amounts, "capacity": amounts}
    found["metadata"]["annotations"] = annotations
    return cluster.add(found)


def using(cluster: SoundCluster, name: str, resource: str = GPU, **spec: object) -> Object:
    container = {"name": "main", "resources": {"limits": {resource: "1"}}}
    pod = a_pod(name, "ml", container, **spec)
    if not spec:
        pod["status"] = {"phase": "Pending"}
    return cluster.add(pod)


def with_agent(cluster: SoundCluster, name: str) -> None:
    status = json.loads(hardware.encode(hardware.NodeHardware((replace(a_card(), node=name),))))
    ledger = {"kind": "NodeLedger", "metadata": {"name": name}, "spec": {}, "status": status}
    cluster.add(ledger)
    cluster.add(a_pod(f"{NAME}-node-{name}", NAMESPACE, nodeName=name))


def of_plugins(cluster: SoundCluster) -> list[CheckResult]:
    return [each for each in cluster.findings() if each.check == "device-plugins"]


def test_nodes_that_are_not_ours_are_counted_and_need_no_agent() -> None:
    cluster = a_sound_cluster()
    stating(cluster, "gpu-1")
    stating(cluster, "gpu-2")
    using(cluster, "bert", nodeName="gpu-1")
    using(cluster, "mig", MIG, nodeName="gpu-2")
    using(cluster, "waits")
    using(cluster, "ended", nodeName="gpu-1")["status"] = {"phase": "Succeeded"}
    assert cluster.problems() == []
    using(cluster, "share", "volcano.sh/vgpu-number")

    (found,) = of_plugins(cluster)

    assert found.text == (
        f"2 nodes state {GPU}, {MIG} by a device plugin, and no annotation, Device or agent"
        " describes the cards (gpu-1, gpu-2); 2 pods have such devices there, 1 wait for some."
        " They are not Dragoman's: admitted, bound and started unchanged"
    )


def test_pods_that_cannot_be_read_or_are_invalid_are_not_counted() -> None:
    cluster = a_sound_cluster()
    stating(cluster, "gpu-1")
    pod = using(cluster, "half")
    pod["spec"]["containers"][0]["resources"]["limits"][GPU] = "500m"

    assert "0 pods have such devices there, 0 wait" in of_plugins(cluster)[0].text
    cluster.refused = {"pods"}
    assert "pods have" not in of_plugins(cluster)[0].text
    cluster.refused = {"nodes"}
    assert of_plugins(cluster) == []


def test_the_agent_and_the_plugin_on_one_node_are_a_warning_with_the_pods() -> None:
    cluster = a_sound_cluster()
    stating(cluster, "gpu-1")
    with_agent(cluster, "gpu-1")
    for number in range(6):
        using(cluster, f"bert-{number}", nodeName="gpu-1")

    (found,) = cluster.problems()

    assert found.level is FindingLevel.WARNING
    assert found.text == (
        "NVIDIA's device plugin and the agent give the same cards to containers on gpu-1; pods of"
        " the plugin there: ml/bert-0, ml/bert-1, ml/bert-2, ml/bert-3, ml/bert-4 and 1 more"
    )
    assert "nvidia.com/gpu.deploy.device-plugin=false" in found.remedy


def test_a_resource_that_the_service_wrote_is_no_device_plugin() -> None:
    cluster = a_sound_cluster()
    published = json.dumps({GPU: 8, MIG: 2})
    stating(cluster, "gpu-1", **{"dragoman.dev/published": published})
    with_agent(cluster, "gpu-1")

    assert of_plugins(cluster) == []


def test_a_resource_that_the_service_and_the_plugin_both_state_is_a_warning() -> None:
    """The plugin's pod shows it: the annotation says that all amounts are the service's."""
    cluster = a_sound_cluster()
    stating(cluster, "gpu-1", **{"dragoman.dev/published": json.dumps({GPU: 8, MIG: 2})})
    with_agent(cluster, "gpu-1")
    plugin = {"name": "plugin", "image": "example.org/nvidia/k8s-device-plugin:v0.17.1"}
    cluster.add(a_pod("plugin", "gpu-operator", plugin, nodeName="gpu-1"))

    (found,) = of_plugins(cluster)

    assert found.level is FindingLevel.WARNING
    assert found.text == (
        "NVIDIA's device plugin and the agent give the same cards to containers on gpu-1"
    )


def test_hamis_plugin_alone_is_fine_and_nvidias_beside_it_a_warning() -> None:
    cluster = a_sound_cluster()
    stating(cluster, "gpu-1", **{"hami.io/node-nvidia-register": HAMI})
    with_agent(cluster, "gpu-1")
    plugin = {"name": "plugin", "image": "example.org/rocm/k8s-device-plugin:v1"}
    cluster.add(a_pod("other", "kube-system", plugin, nodeName="gpu-1"))

    assert of_plugins(cluster) == []

    plugin = {"name": "plugin", "image": "example.org/nvidia/k8s-device-plugin:v0.17.1"}
    cluster.add(a_pod("plugin", "gpu-operator", plugin, nodeName="gpu-1"))
    (found,) = of_plugins(cluster)
    assert found.text == (
        "NVIDIA's device plugin and the one of HAMi give the same cards to containers on gpu-1"
    )


def test_a_report_of_an_agent_that_cannot_be_read_describes_nothing() -> None:
    cluster = a_sound_cluster()
    stating(cluster, "gpu-1")
    status = {"cards": "many"}
    cluster.add({"kind": "NodeLedger", "metadata": {"name": "gpu-1"}, "spec": {}, "status": status})

    assert "1 node states" in of_plugins(cluster)[0].text


@pytest.mark.parametrize(
    "image", ["nvidia/dcgm-exporter:4.2", "nvidia/k8s-device-plugin:v0.17.1", "hami:v2.10"]
)
def test_a_component_that_needs_every_card_must_be_in_an_exempt_namespace(image: str) -> None:
    """The agent hides the cards of a container without a share, whatever its image asks."""
    cluster = a_sound_cluster()
    container = {"name": "main", "image": f"example.org/{image}"}
    for name, space in (("own", "kube-system"), ("watcher", "gpu-operator")):
        cluster.add(a_pod(name, space, container, nodeName="n1"))
    cluster.add(a_pod("elsewhere", "other", container, nodeName="n2"))
    seen = of_injectors(cluster)

    config = cluster.find("configmaps", f"{NAME}-node")["data"]
    config["node.yaml"] = 'exempt: ["gpu-operator", "kube-system"]'
    exempt = of_injectors(cluster)
    config["node.yaml"] = "exempt: {"
    unreadable = of_injectors(cluster)

    (found,) = seen
    assert found.text.startswith("the agent hides the cards from gpu-operator/watcher")
    assert "node.exempt" in found.remedy
    assert exempt == unreadable == []


def of_injectors(cluster: SoundCluster) -> list[CheckResult]:
    return [each for each in cluster.problems() if each.check == "injectors"]


def test_nvidias_daemon_set_alone_is_no_warning() -> None:
    cluster = a_sound_cluster()
    container = {"name": "plugin", "image": "example.org/nvidia/k8s-device-plugin:v0.17.1"}
    cluster.add(
        {
            "kind": "DaemonSet",
            "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "gpu-operator"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
    )

    assert cluster.problems() == []


@pytest.mark.parametrize(
    ("image", "init", "warned"),
    [
        ("projecthami/hami:v2.6.0", False, True),
        ("registry.example.com/mirror/projecthami/hami:v2.7.1@sha256:00", True, True),
        ("registry:5000/volcanosh/volcano-vgpu-device-plugin:v1.11.0", False, True),
        ("projecthami/hami:v2.8.0", True, False),
        ("projecthami/hami:v2.60.0", True, False),
        ("projecthami/hami@sha256:2.6.0", True, False),
        ("volcanosh/volcano-vgpu-device-plugin:v1.12.0", False, False),
        ("other/tool:v2.6.0", True, False),
    ],
)
def test_a_hami_core_that_limits_nothing_is_named_by_its_image(
    image: str, init: bool, warned: bool
) -> None:
    cluster = a_sound_cluster()
    names = ("x/y", image) if init else (image, "x/y")
    main, first = ([{"name": "main", "image": name}] for name in names)
    cluster.add(
        {
            "kind": "DaemonSet",
            "metadata": {"name": "library", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": main, "initContainers": first}}},
        }
    )

    found = [each for each in of_injectors(cluster) if "CUDA_VISIBLE_DEVICES" in each.text]

    assert [image in each.text for each in found] == [True] * warned
