import pytest

from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.formats.hami_policies import DEVICE_CONFIG
from adapters.dialects.metax.keys import INFO, MetaxConfig
from adapters.dialects.metax.tests.builders import a_metax
from adapters.wire.kube import Container, Pod, PodSpec, Resources


def configured(document: object) -> MetaxConfig:
    return a_metax({DEVICE_CONFIG: document}).config


def test_the_documents_are_hamis_device_configuration() -> None:
    assert INFO.documents == {("hami-scheduler-device", "device-config.yaml")}


@pytest.mark.parametrize("document", [None, {}, {"nvidia": {"overwriteEnv": False}}, {"metax": {}}])
def test_what_a_file_does_not_say_stays_as_hami_has_it(document: object) -> None:
    assert configured(document) == a_metax().config == MetaxConfig()


def test_the_resources_may_have_other_names() -> None:
    metax = a_metax(
        {
            DEVICE_CONFIG: {
                "metax": {
                    "resourceCountName": "example.com/card",
                    "resourceVCountName": "example.com/share",
                    "resourceVMemoryName": "example.com/memory",
                    "resourceVCoreName": "example.com/compute",
                    "sgpuTopologyAware": True,
                }
            }
        },
        Defaults(),
    )
    limits: dict[str, str | int | float] = {"example.com/share": 1, "example.com/compute": 30}
    pod = Pod(spec=PodSpec(containers=(Container("main", Resources(limits)),)))

    assert metax.matches(pod)
    assert metax.read_request(pod).containers[0].compute == 30
    assert metax.config.topology_aware
    assert not a_metax().matches(pod)


@pytest.mark.parametrize(
    "document",
    [
        "metax",
        {"metax": []},
        {"metax": {"resourceCountName": 5}},
        {"metax": {"sgpuTopologyAware": "yes"}},
        {"metax": {"resourceVCountName": ""}},
        {"metax": {"resourceVCountName": "metax-tech.com/gpu"}},
    ],
)
def test_invalid_settings_are_rejected_with_their_path(document: object) -> None:
    with pytest.raises(DialectError) as rejected:
        configured(document)

    assert rejected.value.field.startswith(
        "ConfigMap hami-scheduler-device, key device-config.yaml"
    )
