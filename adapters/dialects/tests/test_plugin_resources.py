"""Resources of device plugins, and how many devices a pod requests."""

import pytest

from adapters.dialects.device_plugins import plugin_amounts, plugin_share
from adapters.dialects.dialect import DialectError
from adapters.dialects.tests.pods import a_container, a_pod
from core.requests.request import PluginShare

NVIDIA = "nvidia.com/"
MIG = "nvidia.com/mig-3g.20gb"


def test_each_resource_has_what_the_plugin_gives_for_it() -> None:
    assert plugin_share("nvidia.com/gpu") is PluginShare.CARD
    assert plugin_share("nvidia.com/gpu.shared") is plugin_share(MIG) is PluginShare.DEVICE
    assert plugin_share("nvidia.com/gpumem") is None


def test_containers_that_run_together_are_added_up() -> None:
    pod = a_pod([a_container(NVIDIA, {"gpu": 1}), a_container(NVIDIA, {"gpu": "2"}, name="b")])

    assert plugin_amounts(pod) == {"nvidia.com/gpu": 3}


def test_an_init_container_needs_no_device_of_its_own() -> None:
    main = a_container(NVIDIA, {"mig-3g.20gb": 1})
    init = [a_container(NVIDIA, {"mig-3g.20gb": n}, name=f"init-{n}") for n in (2, 1)]

    assert plugin_amounts(a_pod([main], init=init)) == {MIG: 2}


def test_a_sidecar_runs_beside_the_init_containers_after_it_and_the_main_ones() -> None:
    sidecar = a_container(NVIDIA, {"gpu": 1}, name="sidecar", sidecar=True)
    init = a_container(NVIDIA, {"gpu": 2}, name="init")
    main = a_container(NVIDIA, {"gpu": 1})

    assert plugin_amounts(a_pod([main], init=[sidecar, init])) == {"nvidia.com/gpu": 3}
    assert plugin_amounts(a_pod([main], init=[init, sidecar])) == {"nvidia.com/gpu": 2}


def test_amounts_of_0_and_other_resources_are_left_out() -> None:
    assert plugin_amounts(a_pod([a_container(NVIDIA, {"gpu": 0, "gpumem": 100})])) == {}


def test_a_part_of_a_device_is_invalid() -> None:
    with pytest.raises(DialectError, match="must be a whole number"):
        plugin_amounts(a_pod([a_container(NVIDIA, {"gpu": "500m"})]))
