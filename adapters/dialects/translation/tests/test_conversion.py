"""Pods of all dialects as claims, and the record that is read again."""

import json
from collections.abc import Mapping

import msgspec
import pytest

from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.tests.acme import INFO, RESOURCE, registered
from adapters.dialects.tests.pods import a_container, a_pod
from adapters.dialects.translation.conversion import (
    KEY,
    Conversion,
    Inexact,
    convert,
    converted,
    is_converted,
    stated,
)
from adapters.wire.kube import Amount, Container, Pod, Resources, with_annotations

DIALECTS = registry.dialects({}, Defaults())

EXACT: dict[str, tuple[str, dict[str, Amount]]] = {
    "volcano": ("volcano.sh/", {"vgpu-number": 1, "vgpu-memory": 4096, "vgpu-cores": 30}),
    "koordinator": ("koordinator.sh/", {"gpu.shared": 1, "gpu-memory": "4Gi", "gpu-core": 30}),
    "metax": ("metax-tech.com/", {"sgpu": 1}),
    "hami": ("nvidia.com/", {"gpu": 1, "gpumem": 4096, "gpucores": 30}),
}


def conversion(pod: Pod) -> Conversion:
    found = convert(pod, DIALECTS)
    assert isinstance(found, Conversion)
    return found


def recorded(pod: Pod, claims: Mapping[str, str]) -> Pod:
    """The pod as admission leaves it."""
    text = stated(pod, conversion(pod), claims)
    bare = [msgspec.structs.replace(each, resources=Resources()) for each in pod.spec.containers]
    made = with_annotations(pod, {**(pod.metadata.annotations or {}), KEY: text})
    spec = msgspec.structs.replace(pod.spec, containers=tuple(bare))
    return msgspec.structs.replace(made, spec=spec)


@pytest.mark.parametrize("dialect", EXACT)
def test_a_pod_of_each_dialect_has_a_claim_that_the_record_gives_again(dialect: str) -> None:
    domain, limits = EXACT[dialect]
    pod = a_pod([a_container(domain, limits), Container("log")])

    found = conversion(pod)
    (claim,) = found.specs.values()
    made = recorded(pod, {"main": "c"})

    assert found.dialect == dialect
    (request,) = claim["devices"]["requests"]
    wanted = {"compute": "100"} if dialect == "metax" else {"memory": "4096Mi", "compute": "30"}
    assert request["exactly"]["capacity"]["requests"] == wanted
    assert is_converted(made)
    assert not is_converted(pod)
    assert converted(made, DIALECTS) == {"main": ("c", claim)}


def test_an_exclusive_card_with_a_part_of_its_memory_is_all_compute_of_a_claim() -> None:
    limits = {"vgpu-number": 1, "vgpu-cores": 100, "vgpu-memory": 9}

    (claim,) = conversion(a_pod([a_container("volcano.sh/", limits)])).specs.values()

    (request,) = claim["devices"]["requests"]
    assert request["exactly"]["capacity"]["requests"] == {"memory": "9Mi", "compute": "100"}


def test_a_pod_without_a_share_has_no_claim() -> None:
    assert convert(a_pod([Container("main")]), DIALECTS) is None


def test_whole_cards_of_a_device_plugin_are_claims_of_all_of_a_card() -> None:
    found = conversion(a_pod([a_container("nvidia.com/", {"gpu": 2})]))

    (claim,) = found.specs.values()
    (request,) = claim["devices"]["requests"]
    assert (found.dialect, request["exactly"]["count"]) == ("nvidia", 2)
    assert "capacity" not in request["exactly"]


@pytest.mark.parametrize("name", ["gpu.shared", "mig-1g.5gb"])
def test_devices_that_the_kubelet_chooses_have_no_claim(name: str) -> None:
    found = convert(a_pod([a_container("nvidia.com/", {name: 1})]), DIALECTS)

    assert found == Inexact(("devices that the kubelet chooses have no claims",))


@pytest.mark.parametrize(
    ("domain", "limits", "annotations", "loss"),
    [
        ("koordinator.sh/", {"gpu": 50}, {}, "50 % of the card's memory"),
        ("nvidia.com/", {"gpu": 1, "gpumem": 9, "priority": 1}, {}, "nvidia.com/priority: 1"),
        ("metax-tech.com/", {"sgpu": 1, "vcore": 5, "vmemory": 4}, {}, "QoS policy: best-effort"),
        (
            "nvidia.com/",
            {"gpu": 1, "gpumem": 9},
            {"hami.io/gpu-scheduler-policy": "binpack"},
            "annotation hami.io/gpu-scheduler-policy: binpack",
        ),
    ],
)
def test_what_a_claim_does_not_keep_is_named(
    domain: str, limits: dict[str, Amount], annotations: dict[str, str], loss: str
) -> None:
    found = convert(a_pod([a_container(domain, limits)], annotations), DIALECTS)

    assert isinstance(found, Inexact)
    assert any(loss in each for each in found.losses)


def test_an_init_container_loses_its_peak() -> None:
    limits = {"vgpu-number": 1, "vgpu-memory": 9}
    containers = [a_container("volcano.sh/", limits)]
    init = [a_container("volcano.sh/", limits, name="warm")]

    found = convert(a_pod(containers, init=init), DIALECTS)

    assert isinstance(found, Inexact)
    assert any("init containers" in each for each in found.losses)


def test_resources_that_a_setting_renames_are_not_converted() -> None:
    document = ("hami-scheduler-device", "device-config.yaml")
    names = {"nvidia": {"resourceCountName": "team.example/gpu"}}
    renamed = registry.dialects({document: names}, Defaults())
    pod = a_pod([a_container("", {"team.example/gpu": 1})])

    found = convert(pod, renamed)

    assert isinstance(found, Inexact)
    assert "renames" in found.losses[0]


def test_a_dialect_without_a_writer_is_not_converted() -> None:
    pod = a_pod([a_container("", {RESOURCE: 1})])

    with registered(INFO):
        found = convert(pod, registry.dialects({}, Defaults()))

    assert isinstance(found, Inexact)


def test_annotations_of_the_record_count_and_not_those_that_the_pod_has_now() -> None:
    limits = {"vgpu-number": 1, "vgpu-memory": 9}
    pod = a_pod([a_container("volcano.sh/", limits)], {"volcano.sh/vgpu-mode": "mig", "a": "b"})
    made = recorded(pod, {"main": "c"})
    now = dict(made.metadata.annotations or {})
    assert json.loads(now[KEY])["annotations"] == {"volcano.sh/vgpu-mode": "mig"}

    changed = with_annotations(made, {KEY: now[KEY], "volcano.sh/vgpu-mode": "hami-core"})

    assert converted(changed, DIALECTS) == converted(made, DIALECTS)


SHARE = '"limits":{"volcano.sh/vgpu-number":1,"volcano.sh/vgpu-memory":9}'


@pytest.mark.parametrize(
    "record",
    [
        "no JSON",
        "{}",
        '{"containers":{}}',
        '{"containers":{"main":{"claim":"c"}}}',
        '{"containers":{"other":{"claim":"c",' + SHARE + "}}}",
        '{"containers":{"main":{"claim":"",' + SHARE + "}}}",
        '{"containers":{"main":{"claim":"c",' + SHARE + '},"side":{"claim":"c",' + SHARE + "}}}",
        '{"containers":{"main":{"claim":"c","limits":{"volcano.sh/vgpu-number":"x"}}}}',
        '{"containers":{"main":{"claim":"c","limits":{"koordinator.sh/gpu":50}}}}',
    ],
)
def test_a_record_that_admission_does_not_write_is_an_error(record: str) -> None:
    pod = with_annotations(a_pod([Container("main"), Container("side")]), {KEY: record})

    with pytest.raises(DialectError, match="is no record of admission"):
        converted(pod, DIALECTS)
