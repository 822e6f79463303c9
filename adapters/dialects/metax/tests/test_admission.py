from contextlib import nullcontext

import pytest

from adapters.dialects.dialect import NO_DEFAULTS, DialectError
from adapters.dialects.metax import keys
from adapters.dialects.metax.tests.builders import METAX, a_container, a_pod
from adapters.wire.kube import Container, SecurityContext


def admitted(**annotations: str) -> dict[str, str]:
    names = {"app_class": keys.APP_CLASS, "qos": keys.QOS}
    texts = {names[name]: value for name, value in annotations.items()}
    pod = a_pod(a_container({"sgpu": 1, "vcore": 10}), annotations=texts)
    return dict(METAX.admission_defaults(pod, METAX.read_request(pod)).annotations)


def test_a_pod_that_names_no_policy_gets_best_effort_as_by_hamis_webhook() -> None:
    assert admitted() == {keys.QOS: "best-effort"}
    assert admitted(app_class="offline") == {keys.QOS: "best-effort"}


def test_admission_keeps_a_policy_and_adds_none_to_an_online_task() -> None:
    assert admitted(qos="fixed-share") == {}
    assert admitted(app_class="online") == {}


@pytest.mark.parametrize(("resource", "denied"), [("sgpu", True), ("gpu", False)])
def test_a_privileged_container_beside_a_share_is_denied_as_by_hamis_webhook(
    resource: str,
    denied: bool,
) -> None:
    beside = Container("agent", security_context=SecurityContext(privileged=True))
    pod = a_pod(a_container({resource: 1}), beside)

    outcome = pytest.raises(DialectError, match="agent") if denied else nullcontext()
    with outcome:
        METAX.admission_defaults(pod, METAX.read_request(pod))


def test_a_pod_of_whole_cards_gets_no_policy() -> None:
    pod = a_pod(a_container({"gpu": 1}))

    assert METAX.admission_defaults(pod, METAX.read_request(pod)) == NO_DEFAULTS
