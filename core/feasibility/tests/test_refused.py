"""A request that the quota refuses fits no node, whatever is free."""

import numpy as np

from core.feasibility.cache import FeasibilityCache
from core.feasibility.inventory import Inventory
from core.requests.reason import Cause
from core.tests.builders import a_card, a_request, empty

TEXT = "quota of namespace ml: memory 1 GiB short"


def test_every_answer_is_no_with_the_same_reason() -> None:
    inventory = Inventory([empty(a_card("a"), name="n1"), empty(a_card("b"), name="n2")])
    cache, rows = FeasibilityCache(), np.array([0, 1])
    assert cache.evaluate(a_request(), inventory).fits("n1")

    refused = cache.evaluate(a_request(), inventory, refusal=TEXT)

    assert refused.warm(rows, 1)
    assert refused.classify(rows, 1)
    assert not refused.groups(rows).any()
    assert not refused.fitting(rows).any()
    assert not refused.ranks(rows).any()
    assert not refused.fits("n1")
    assert refused.values("n1") is None
    found = refused.rejection("n1")
    assert found is not None
    assert (found.reason.cause, found.reason.text(), found.unresolvable) == (
        Cause.QUOTA, TEXT, True,
    )  # fmt: skip
    assert [reason.text() for reason in refused.decide().reasons.values()] == [TEXT, TEXT]
