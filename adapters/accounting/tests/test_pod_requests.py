"""The cache of what pods request: bounded by pods and by their text."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from adapters.accounting.pod_requests import (
    CACHED_BYTES,
    LARGEST_POD,
    PodRequestCache,
    read,
)
from adapters.dialects.dialect import DialectError
from adapters.service.tests.builders import DIALECTS, a_pod, a_service, read_pod, run
from adapters.wire.kube import Pod

LONGEST = 256 << 10
"""Source: kubernetes/apimachinery/pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB."""

KEY = "example.com/text"


GOLDEN = sorted((Path(__file__).parents[2] / "dialects").glob("*/tests/golden/*.in.json"))


class _Example(msgspec.Struct):
    pods: tuple[Pod, ...] = ()


def example_pods() -> Iterator[Pod]:
    """The pods of every dialect's worked examples."""
    for path in GOLDEN:
        try:
            yield from msgspec.json.decode(path.read_bytes(), type=_Example).pods
        except msgspec.ValidationError:
            continue


def a_cache() -> PodRequestCache:
    return run(a_service()).service.pod_requests


def a_long_pod(name: str, text: str) -> Pod:
    return msgspec.convert(a_pod(name, annotations={KEY: text}), Pod)


def test_long_annotations_of_pods_do_not_fill_the_memory() -> None:
    cache, text = a_cache(), "x" * (LONGEST - len(KEY))
    room = CACHED_BYTES // LONGEST - 1  # the other fields count too

    for at in range(room + 10):
        cache.read(a_long_pod(str(at), text))

    kept = [at for at in range(room + 10) if cache.get(f"uid-{at}") is not None]
    assert kept == list(range(10, room + 10))


@pytest.mark.parametrize("part", ["container", "resource", "status", "annotation"])
def test_a_pod_that_the_api_server_cannot_store_is_refused_and_not_kept(part: str) -> None:
    text, plain = "x" * LARGEST_POD, a_pod()
    match part:
        case "container":
            plain["spec"]["containers"].append({"name": text})
        case "resource":
            plain["spec"]["containers"][0]["resources"]["limits"][text] = 1
        case "status":
            plain["status"] = {"containerStatuses": [{"name": text}]}
        case _:
            plain["metadata"]["annotations"] = {"example.com/a": text}
    cache = a_cache()

    with pytest.raises(DialectError, match="more than the 3145728 that the API server stores"):
        cache.read(msgspec.convert(plain, Pod))

    assert cache.get("uid-p") is None


@pytest.mark.parametrize("part", ["resource", "status"])
def test_every_field_of_a_pod_counts(part: str) -> None:
    """Statuses did not, so that pods of any size stayed."""
    cache, text = a_cache(), "x" * (LARGEST_POD // 2)
    room = CACHED_BYTES // len(text)

    for at in range(room + 1):
        plain = a_pod(f"{at}")
        if part == "resource":
            plain["spec"]["containers"][0]["resources"]["limits"][text] = 1
        else:
            plain["status"] = {"containerStatuses": [{"name": text}]}
        cache.read(msgspec.convert(plain, Pod))

    assert cache.get("uid-0") is None
    assert cache.get(f"uid-{room}") is not None


def test_a_pod_that_is_read_again_or_forgotten_is_counted_once() -> None:
    cache = a_cache()
    long, longer = "x" * (LONGEST // 2), "y" * (LONGEST // 2)
    small = msgspec.convert(a_pod("small"), Pod)
    cache.read(small)

    for _ in range(2 * CACHED_BYTES // LONGEST):
        cache.read(a_long_pod("one", long))
        cache.read(a_long_pod("one", longer))
    for at in range(2 * CACHED_BYTES // LONGEST):
        cache.read(a_long_pod(str(at), long))
        cache.forget(f"uid-{at}")

    assert cache.get("uid-small") is not None


def test_a_pod_like_the_one_before_has_the_request_that_it_has_alone() -> None:
    compared = 0
    for pod in example_pods():
        metadata = msgspec.structs.replace(pod.metadata, name="alike", uid="uid-of-alike")
        alike = msgspec.structs.replace(pod, metadata=metadata)
        cache = PodRequestCache(DIALECTS)
        try:
            cache.read(pod)
        except DialectError:
            with pytest.raises(DialectError):
                cache.read(alike)
            continue
        assert cache.read(alike) == read(alike, DIALECTS)
        compared += 1
    assert compared > 20


def test_a_new_policy_holds_for_a_pod_like_the_one_before() -> None:
    cache = a_cache()
    assert cache.read(msgspec.convert(a_pod("first"), Pod)) is not None

    cache.configure(())

    assert cache.read(msgspec.convert(a_pod("second"), Pod)) is None


def test_what_others_count_of_a_pod_is_not_its_request() -> None:
    pod = msgspec.convert(a_pod(), Pod)
    cache = PodRequestCache(DIALECTS, lambda _: Pod())

    assert PodRequestCache(DIALECTS).read(pod) is not None
    assert cache.read(pod) is None


@pytest.mark.parametrize(
    ("limits", "annotations", "by_amount"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 900, "nvidia.com/gpucores": 100}, {}, True),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 100}, {}, True),
        ({"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "1Gi"}, {}, True),
        ({"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 100}, {}, True),
        (
            {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 100},
            {
                "scheduling.koordinator.sh/device-allocate-hint": (
                    '{"gpu": {"exclusivePolicy": "DeviceLevel"}}'
                )
            },
            False,
        ),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 90}, {}, False),
    ],
)
def test_a_card_that_is_exclusive_because_all_of_it_is_requested(
    limits: dict[str, object], annotations: dict[str, str], by_amount: bool
) -> None:
    found = PodRequestCache(DIALECTS).read(read_pod(a_pod(limits=limits, annotations=annotations)))

    assert found is not None
    (container,) = found.request.containers
    assert container.exclusive_by_amount is by_amount
    assert container.exclusive is (by_amount or bool(annotations))
