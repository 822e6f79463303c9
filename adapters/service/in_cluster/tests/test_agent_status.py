import msgspec

from adapters.cluster.watch.object_tracker import Identity
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.in_cluster.watches import LedgerHandler
from adapters.wire.kube import Metadata, Unreadable
from adapters.wire.records.hardware import NodeHardware, encode
from adapters.wire.records.ledger import LedgerObject
from core.hardware.card import Card
from core.hardware.quantity import GIB

HARDWARE = NodeHardware((Card("GPU-0", "a", 0, "nvidia", "A", GIB, 1),))


class Inner:
    """A handler that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_update(self, thing: LedgerObject) -> None:
        self.calls.append(f"changed {thing.metadata.name}")

    def on_delete(self, what: Identity) -> None:
        self.calls.append(f"gone {what.name}")

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        self.calls.append(f"{what.name}: {problem}")

    def on_synced(self) -> None:
        self.calls.append("synced")


def thing(status: bytes) -> LedgerObject:
    return LedgerObject(Metadata(name="a"), msgspec.Raw(b"{}"), msgspec.Raw(status))


def test_the_cache_gets_each_change_of_an_agents_report_once() -> None:
    named: list[str] = []
    inner, cache = Inner(), ClusterCache(named.append)
    sink = LedgerHandler(inner, cache.put_hardware, lambda *_: None)

    sink.on_update(thing(encode(HARDWARE)))
    sink.on_synced()
    sink.on_update(thing(encode(HARDWARE)))
    sink.on_update(thing(b""))
    sink.on_update(thing(encode(HARDWARE)))
    sink.on_delete(Identity("", "a", ""))

    assert named == ["a"] * 4
    assert cache.hardware == {}
    assert inner.calls == ["changed a", "synced", *["changed a"] * 3, "gone a"]


def test_a_status_that_cannot_be_read_is_reported_and_leaves_the_earlier_one() -> None:
    unread: list[str] = []
    inner, cache = Inner(), ClusterCache()
    sink = LedgerHandler(
        inner, cache.put_hardware, lambda node, text: unread.append(f"{node}: {text}")
    )
    sink.on_update(thing(encode(HARDWARE)))

    sink.on_update(thing(b"[]"))
    sink.on_unreadable(Unreadable("", "a", ""), "what a mess")

    assert cache.hardware == {"a": HARDWARE}
    assert unread[0].startswith("a: the status of the ledger cannot be read")
    assert inner.calls == ["changed a", "changed a", "a: what a mess"]
