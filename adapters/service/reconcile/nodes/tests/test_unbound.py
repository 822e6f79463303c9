"""Nodes that have an allocation whose Binding never came."""

import msgspec

from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.reconcile.looks import UnboundScanner
from adapters.service.tests.builders import DIALECTS, a_node, a_pod, read_pod
from adapters.stores.store import Change, Stored
from adapters.wire.kube import Pod
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement

POD = read_pod(a_pod("p"))


def a_record(*pods: Pod) -> Change:
    ledger = NodeLedger.of(read_node(a_node("n1"), None, DIALECTS)[0])
    for pod in pods:
        dialect = dialect_of(pod, DIALECTS)
        assert dialect is not None
        request = dialect.read_request(pod)
        placement = fit(request, ledger)
        assert isinstance(placement, Placement)
        ledger = ledger.reserve(Allocation.of(request, placement)).commit(request.uid)
    return Change("n1", Stored(ledger, "1"))


class Rig:
    def __init__(self, record: Change) -> None:
        self.named: list[str] = []
        self.book, self.cache = LedgerCache(), ClusterCache()
        self.scanner = UnboundScanner(self.book, self.cache, self.named.append)
        self.written(record)

    def written(self, record: Change) -> None:
        self.book.apply(record)
        self.scanner.changed(record.node)

    def bind(self, pod: Pod) -> None:
        spec = msgspec.structs.replace(pod.spec, node_name="n1")
        self.cache.put_pod(msgspec.structs.replace(pod, spec=spec))


def test_a_node_whose_pod_is_not_bound_a_scan_later_is_found_once() -> None:
    rig = Rig(a_record(POD))
    rig.cache.put_pod(POD)

    rig.scanner.scan()
    at_once = [*rig.named]
    rig.scanner.scan()
    rig.scanner.scan()

    assert at_once == [], "its Binding may be on the way"
    assert rig.named == ["n1"]


def test_a_node_whose_pod_was_deleted_is_found() -> None:
    rig = Rig(a_record(POD))

    rig.scanner.scan()
    rig.scanner.scan()

    assert rig.named == ["n1"]


def test_a_node_whose_pods_are_all_bound_is_not_found() -> None:
    rig = Rig(a_record(POD))
    rig.bind(POD)

    rig.scanner.scan()
    rig.scanner.scan()

    assert rig.named == []


def test_a_ledger_that_was_deleted_meanwhile_is_not_found() -> None:
    rig = Rig(a_record(POD))

    rig.scanner.scan()
    rig.book.apply(Change("n1", None))
    rig.scanner.scan()

    assert rig.named == []
