"""Paths of the API."""

import pytest

from adapters.cluster.api.paths import DEVICES, EVENTS, NODES, PODS, segment


def test_paths_are_those_of_the_api() -> None:
    assert PODS.collection() == "/api/v1/pods"
    assert PODS.path("a", "n", "binding") == "/api/v1/namespaces/n/pods/a/binding"
    assert NODES.path("a", part="status") == "/api/v1/nodes/a/status"
    assert EVENTS.collection("n") == "/apis/events.k8s.io/v1/namespaces/n/events"
    assert DEVICES.path("a") == "/apis/scheduling.koordinator.sh/v1alpha1/devices/a"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_name_leads_to_another_place(name: str) -> None:
    with pytest.raises(ValueError, match="names no object"):
        PODS.path(name, "n")


def test_a_slash_in_a_name_is_no_separator() -> None:
    assert segment("a/b?c#d") == "a%2Fb%3Fc%23d"


def test_a_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="namespace"):
        PODS.path("a")
