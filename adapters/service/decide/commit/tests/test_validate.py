"""Whether a choice of cards by another scheduler may stand."""

from dataclasses import replace

import pytest

from adapters.dialects.volcano import keys
from adapters.dialects.volcano.tests.builders import a_container, a_node, a_pod, entry, volcano
from adapters.service.decide.commit.validate import is_valid
from adapters.wire.kube import Amount
from core.ledger.node_ledger import NodeLedger


@pytest.mark.parametrize(
    ("memory", "chosen", "valid"),
    [
        (5120, "u0[group1-0],NVIDIA,5120,0:", True),
        (5121, "u0[group1-0],NVIDIA,5121,0:", False),
        (None, "u0[group4-0],NVIDIA,40960,0:", True),
        (None, "u0[group3-0],NVIDIA,40960,0:", False),
    ],
)
def test_a_choice_of_a_slice_is_valid_where_the_search_would_take_it(
    memory: Amount | None, chosen: str, *, valid: bool
) -> None:
    ledger = NodeLedger.of(a_node(entry("u0", mode="mig")))
    bound = a_pod(a_container(number=1, memory=memory), annotations={keys.ASSIGNED: chosen})
    request = replace(volcano().read_request(bound), notes=())

    grants = volcano().read_result(bound, request, ledger.node)

    assert is_valid(request, grants, ledger) is valid
