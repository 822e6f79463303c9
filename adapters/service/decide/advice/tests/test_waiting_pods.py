"""Refused pods are evaluated in turn, and leave when they fit."""

import pytest

from adapters.accounting.pod_requests import CACHED_BYTES, LARGEST_POD, PodRequest, read
from adapters.service.decide.advice import remembered_pods
from adapters.service.decide.advice.remembered_pods import WaitingPods
from adapters.service.tests.builders import DIALECTS, a_pod, read_pod


def a_request(name: str) -> PodRequest:
    found = read(read_pod(a_pod(name)), DIALECTS)
    assert found is not None
    return found


def waiting(*names: str) -> WaitingPods:
    pods = WaitingPods()
    for name in names:
        pods.add(a_request(name))
    return pods


def test_a_pod_that_fits_leaves_and_the_others_go_to_the_end() -> None:
    pods = waiting("a", "b", "c")

    first = pods.pop_fitting(2, lambda each: each.pod.metadata.name == "b")
    then = pods.pop_fitting(2, lambda _: True)

    assert [pod.metadata.name for pod in first] == ["b"]
    assert [pod.metadata.name for pod in then] == ["c", "a"]
    assert len(pods) == 0


def test_large_pods_that_wait_do_not_fill_the_memory() -> None:
    pods, text = WaitingPods(), "x" * (LARGEST_POD - 1000)
    for number in range(100):
        plain = {**a_pod(f"{number}"), "status": {"containerStatuses": [{"name": text}]}}
        found = read(read_pod(plain), DIALECTS)
        assert found is not None
        pods.add(found)
        pods.add(found)

    assert len(pods) == CACHED_BYTES // LARGEST_POD
    assert len(pods.pop_fitting(100, lambda _: True)) == CACHED_BYTES // LARGEST_POD
    assert len(waiting("a")) == 1


def test_a_deleted_pod_does_not_wait() -> None:
    pods = waiting("a")

    pods.discard("uid-a")
    pods.discard("uid-a")

    assert len(pods) == 0


def test_the_number_of_waiting_pods_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_pods, "LIMIT", 2)

    assert len(waiting("a", "b", "c")) == 2
