"""Results that are computed before an explanation, a few at a time."""

from dataclasses import replace

import numpy as np
import pytest

from core.feasibility import evaluation as engine
from core.feasibility.cache import FeasibilityCache
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.reason import Reason
from core.requests.request import Request
from core.tests.builders import a_container, a_ledger, a_request

SIZES = 6


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes for which ``fit`` ran."""
    ran: list[str] = []

    def counted(request: Request, ledger: NodeLedger) -> Placement | Reason:
        ran.append(ledger.node.name)
        return original(request, ledger)

    original = fit
    monkeypatch.setattr(engine, "fit", counted)
    return ran


def different(count: int = SIZES) -> Inventory:
    """Nodes of different classes, and none of them large enough."""
    return Inventory([a_ledger(f"n{size}", memory=(1 + size) * GIB) for size in range(count)])


LARGE = a_request(a_container(memory=100 * GIB))


def test_nodes_that_the_columns_exclude_are_prepared_class_by_class(fits: list[str]) -> None:
    inventory = different()
    evaluation = FeasibilityCache().evaluate(LARGE, inventory)

    done = [evaluation.prepare(inventory.rows(), 2) for _ in range(3)]
    prepared = len(fits)
    reasons = evaluation.explain()

    assert done == [False, False, True]
    assert (prepared, len(fits), len(reasons)) == (SIZES, SIZES, SIZES)


def test_nodes_that_are_alone_are_prepared_one_by_one(fits: list[str]) -> None:
    inventory = different()
    evaluation = FeasibilityCache().evaluate(
        replace(LARGE, allow_uuids=frozenset({"n1-0"})), inventory
    )

    done = [evaluation.prepare(inventory.rows(), 4) for _ in range(2)]
    evaluation.explain()

    assert (done, len(fits)) == ([False, True], SIZES)


def test_a_new_evaluation_keeps_what_holds_still(fits: list[str]) -> None:
    inventory, cache = different(), FeasibilityCache()
    asked = replace(LARGE, allow_uuids=frozenset({"n1-0"}))
    earlier = cache.evaluate(asked, inventory)
    assert earlier.prepare(inventory.rows(), SIZES)
    inventory.put(a_ledger("n2", memory=50 * GIB))

    later = cache.evaluate(asked, inventory).continued(earlier)

    assert later.prepare(inventory.rows(), 1)
    assert fits[SIZES:] == ["n2"]
    assert "50" not in later.reasons(["n1"])["n1"].text()


def test_unknown_nodes_and_refused_requests_need_nothing(fits: list[str]) -> None:
    inventory, cache = different(), FeasibilityCache()
    unknown = np.array([len(inventory)])

    assert cache.evaluate(LARGE, inventory).prepare(unknown, 0)
    assert cache.evaluate(LARGE, inventory, refusal="no").prepare(inventory.rows(), 0)
    assert not fits


def test_nodes_that_would_fit_if_they_were_empty_are_found() -> None:
    inventory, cache = different(), FeasibilityCache()
    asked = a_request(a_container(memory=4 * GIB))

    found = cache.evaluate(asked, inventory).resolvable(inventory.names())

    assert found == ["n3", "n4", "n5"]
    assert cache.evaluate(asked, inventory, refusal="no").resolvable(found) == []
