from adapters.dialects.dialect import NO_DEFAULTS
from adapters.dialects.metax import keys
from adapters.dialects.metax.tests.builders import METAX, a_container, a_pod


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


def test_a_pod_of_whole_cards_gets_no_policy() -> None:
    pod = a_pod(a_container({"gpu": 1}))

    assert METAX.admission_defaults(pod, METAX.read_request(pod)) == NO_DEFAULTS
