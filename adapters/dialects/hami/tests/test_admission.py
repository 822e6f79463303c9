"""What the webhook adds to new pods, as HAMi's does."""

import pytest

from adapters.dialects.dialect import NO_DEFAULTS, AdmissionDefaults, DialectError
from adapters.dialects.hami.dialect import Hami
from adapters.dialects.hami.tests.builders import HAMI, a_container, a_hami, a_pod
from adapters.wire.kube import Amount, Container, Pod, Resources, SecurityContext


def added(pod: Pod, hami: Hami = HAMI) -> AdmissionDefaults:
    return hami.admission_defaults(pod, hami.read_request(pod))


@pytest.mark.parametrize("amount", ["gpumem", "gpumem-percentage", "gpucores"])
def test_amounts_without_a_number_of_cards_get_the_clusters_number(amount: str) -> None:
    pod = a_pod(a_container({amount: 10}), a_container({"gpu": 1, amount: 10}, "other"))

    assert added(pod).limits == {"main": {"nvidia.com/gpu": "1"}}
    two = a_hami(defaultGPUNum=2)
    assert added(pod, two).limits == {"main": {"nvidia.com/gpu": "2"}}


def test_init_containers_and_renamed_resources_get_it_too() -> None:
    hami = a_hami(resourceCountName="nvidia.com/vgpu", resourceMemoryName="nvidia.com/vmem")
    pod = a_pod(a_container({"vgpu": 1}), init=(a_container({"vmem": 100}, "load"),))

    assert added(pod, hami) == AdmissionDefaults(limits={"load": {"nvidia.com/vgpu": "1"}})


def test_requests_alone_are_left_to_the_api_server_which_rejects_them() -> None:
    resources = Resources(requests={"nvidia.com/gpumem": 100})

    assert added(a_pod(Container("main", resources))) == NO_DEFAULTS


@pytest.mark.parametrize("priority", ["0", 1])
def test_the_priority_is_a_variable_of_its_container(priority: Amount) -> None:
    pod = a_pod(a_container({"gpu": 1, "priority": priority}), a_container({"gpu": 1}, "other"))

    assert added(pod) == AdmissionDefaults(
        variables={"main": {"CUDA_TASK_PRIORITY": str(priority)}}
    )


def a_privileged(limits: dict[str, Amount], annotations: dict[str, str] | None = None) -> Pod:
    beside = Container("agent", security_context=SecurityContext(privileged=True))
    return a_pod(a_container(limits), beside, annotations=annotations)


@pytest.mark.parametrize("amount", ["gpumem", "gpumem-percentage", "gpucores"])
def test_a_pod_with_a_share_and_a_privileged_container_is_denied_as_by_hami(amount: str) -> None:
    with pytest.raises(DialectError) as denied:
        added(a_privileged({"gpu": 1, amount: 10}))

    assert denied.value.field == "spec.containers[agent].securityContext.privileged"


def test_a_privileged_pod_of_whole_cards_is_admitted() -> None:
    pod = a_privileged({"gpu": 1}, {"nvidia.com/use-gputype": "A100"})

    assert added(pod) == NO_DEFAULTS


def test_a_pod_that_states_all_gets_nothing() -> None:
    assert added(a_pod({"gpu": 1, "gpumem": 1000, "gpucores": 10})) == NO_DEFAULTS
