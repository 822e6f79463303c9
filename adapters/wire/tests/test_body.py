"""Bodies whose values would need far more memory than their text."""

import tracemalloc
from collections.abc import Callable

import pytest

from adapters.wire import body, extender, volcano
from adapters.wire.body import BodyError

MIB = 1 << 20
LONG = 8 * MIB

POD = b'{"metadata":{"name":"a","uid":"u"}}'


def filtered(content: bytes) -> object:
    return extender.read_args(content)


def task_pod(content: bytes) -> object:
    return volcano.pod_of(volcano.read_predicate(content).task)


DENSE: dict[str, tuple[Callable[[bytes], object], bytes, bytes, bytes]] = {
    "containers": (
        filtered,
        b'{"Pod":{"spec":{"containers":[',
        b"{},",
        b'{}]}},"NodeNames":["a"]}',
    ),
    "names": (filtered, b'{"Pod":' + POD + b',"NodeNames":[', b'"",', b'""]}'),
    "nodes": (filtered, b'{"Pod":' + POD + b',"Nodes":{"items":[', b"{},", b"{}]}}"),
    "victims": (
        extender.read_preemption,
        b'{"Pod":' + POD + b',"NodeNameToVictims":{"n":{"Pods":[',
        b"{},",
        b"{}]}}}",
    ),
    "uids": (
        extender.read_preemption,
        b'{"Pod":' + POD + b',"NodeNameToMetaVictims":{"n":{"Pods":[',
        b"{},",
        b"{}]}}}",
    ),
    "no victims": (
        extender.read_preemption,
        b'{"Pod":' + POD + b',"NodeNameToMetaVictims":{',
        b'"n":null,',
        b'"n":null}}',
    ),
    "task nodes": (volcano.read_prioritize, b'{"task":{},"nodes":[', b"{},", b"{}]}"),
    "evictees": (volcano.read_eviction, b'{"evictor":{},"evictees":[', b"{},", b"{}]}"),
    "containers of a task": (
        task_pod,
        b'{"node":{"Name":"n"},"task":{"Pod":{"spec":{"containers":[',
        b"{},",
        b"{}]}}}}",
    ),
}


@pytest.mark.parametrize("what", DENSE)
def test_millions_of_tiny_values_are_rejected_before_they_need_memory(what: str) -> None:
    read, head, item, end = DENSE[what]
    content = head + item * (LONG // len(item)) + end
    tracemalloc.start()
    try:
        with pytest.raises(BodyError, match=r"at most|more than"):
            read(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5 * LONG


def test_a_request_may_have_as_many_items_as_the_largest_clusters() -> None:
    node = b'{"metadata":{"name":"n"}},'
    content = b'{"Pod":' + POD + b',"Nodes":{"items":[' + node * 100_000 + node[:-1] + b"]}}"

    args = filtered(content)

    assert isinstance(args, extender.ExtenderArgs)
    assert args.names.names == ("n",) * 100_001
    assert len(args.encoded_nodes()) == 100_001
    assert body.MOST_ITEMS > 100_001


def test_the_items_of_each_request_are_counted_alone() -> None:
    content = b'{"task":{},"nodes":[' + b'{"Name":"n"},' * 150_000 + b'{"Name":"n"}]}'

    for _ in range(3):
        assert len(volcano.read_prioritize(content).nodes or ()) == 150_001


def test_the_uid_of_a_task_is_its_own_or_that_of_its_pod() -> None:
    content = b'{"evictor":{"UID":"e"},"evictees":[{"Pod":%b},{"UID":"x"},{}]}' % POD

    evictor, evictees = volcano.read_eviction(content)

    assert volcano.uid_of(evictor) == "e"
    assert [volcano.uid_of(task) for task, _ in evictees] == ["u", "x", ""]
    assert bytes(evictees[1][1]) == b'{"UID":"x"}'
