"""The cache of what pods request: bounded by pods and by their text."""

import msgspec

from adapters.sidecar.decide.pod_requests import CACHED_CHARACTERS, PodRequestCache
from adapters.sidecar.tests.builders import a_pod, a_service, run
from adapters.wire.kube import Pod

LONGEST = 256 << 10
"""Source: kubernetes/apimachinery/pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB."""

KEY = "example.com/text"


def a_cache() -> PodRequestCache:
    return run(a_service()).service.pod_requests


def a_long_pod(name: str, text: str) -> Pod:
    return msgspec.convert(a_pod(name, annotations={KEY: text}), Pod)


def test_long_annotations_of_pods_do_not_fill_the_memory() -> None:
    cache, text = a_cache(), "x" * (LONGEST - len(KEY))
    room = CACHED_CHARACTERS // LONGEST

    for at in range(room + 10):
        cache.read(a_long_pod(str(at), text))

    kept = [at for at in range(room + 10) if cache.get(f"uid-{at}") is not None]
    assert kept == list(range(10, room + 10))


def test_a_pod_that_is_read_again_or_forgotten_is_counted_once() -> None:
    cache = a_cache()
    long, longer = "x" * (LONGEST // 2), "y" * (LONGEST // 2)
    small = msgspec.convert(a_pod("small"), Pod)
    cache.read(small)

    for _ in range(2 * CACHED_CHARACTERS // LONGEST):
        cache.read(a_long_pod("one", long))
        cache.read(a_long_pod("one", longer))
    for at in range(2 * CACHED_CHARACTERS // LONGEST):
        cache.read(a_long_pod(str(at), long))
        cache.forget(f"uid-{at}")

    assert cache.get("uid-small") is not None
