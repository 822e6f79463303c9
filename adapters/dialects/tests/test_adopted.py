"""Pods that other schedulers bound, adopted by the records of those schedulers."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adoption import adopt
from adapters.dialects.merge import read_node
from adapters.dialects.tests.builders import ALL, DEVICE, GOLDEN, KUBE, NODE, PROBLEMS, bound
from adapters.wire.kube import KubeNode, Metadata, Pod
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation


def adopted(pod: Pod) -> Allocation:
    found = adopt(pod, NODE, ALL)
    assert found is not None
    return found


def plain(found: Allocation) -> dict[str, object]:
    """The fields that differ from the simplest allocation, as in JSON."""
    plain = Allocation("7", "d/p", found.dialect, "n", ())
    whole, least = msgspec.to_builtins(found, order="sorted"), msgspec.to_builtins(plain)
    whole, least = ({**each.pop("terms"), **each} for each in (whole, least))
    return {
        key: value
        for key, value in sorted(whole.items())
        if value != least[key] or key in ("dialect", "grants")
    }


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*.in.json")), ids=lambda path: path.name)
def test_a_pod_that_another_scheduler_bound_has_the_allocation_of_that_schedulers_record(
    case: Path, *, rewrite_golden: bool
) -> None:
    pod = msgspec.convert(json.loads(case.read_text())["pod"], Pod)
    expected = case.with_name(case.name.replace(".in.", ".out."))

    text = json.dumps(plain(adopted(pod)), indent=2) + "\n"

    if rewrite_golden:
        expected.write_text(text)
    assert text == expected.read_text()


def test_the_node_of_the_examples_is_read_without_a_doubt() -> None:
    assert PROBLEMS == ()
    assert [card.uuid for card in NODE.cards] == ["m0", "u0", "m1", "u1", "u2"]


def test_an_allocation_of_a_missing_card_is_kept_and_counts_when_the_card_returns() -> None:
    record = {"volcano.sh/vgpu-ids-new": "u1,NVIDIA,3000,50:"}
    pod = bound({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000}, record)
    whole, _ = read_node(KUBE, DEVICE, ALL)
    less, _ = read_node(
        KubeNode(
            Metadata(
                name="n",
                annotations={
                    "volcano.sh/node-vgpu-register": "u0,10,81920,NVIDIA-A100,true,hami-core:"
                },
            )
        ),
        None,
        ALL,
    )

    found = adopt(pod, less, ALL)
    assert found is not None
    without = NodeLedger.of(less).adopt(found)
    later = without.with_node(whole)

    assert [problem.text for problem in without.problems()] == [
        "holds card u1, which the node does not have"
    ]
    use = later.usages[[card.uuid for card in whole.cards].index("u1")]
    assert (use.memory, use.compute) == (3000 << 20, 50)
    assert later.problems() == ()


pieces = st.lists(
    st.sampled_from(["u0", "u2", "m0", "[group1-0]", ",", "NVIDIA", "0", "4096", "101", ":", ";"])
).map("".join)
records = st.dictionaries(
    st.sampled_from(
        [
            "volcano.sh/vgpu-ids-new",
            "hami.io/metax-sgpu-devices-allocated",
            "hami.io/metax-gpu-devices-allocated",
            "metax-tech.com/gpu-devices-allocated",
            "hami.io/vgpu-devices-allocated",
            "scheduling.koordinator.sh/device-allocated",
            "hami.io/vgpu-node",
        ]
    ),
    st.one_of(pieces, st.text(max_size=9), st.just("n")),
)
requested = st.sampled_from(
    [
        "volcano.sh/vgpu-number",
        "volcano.sh/vgpu-memory",
        "volcano.sh/gpu-memory",
        "metax-tech.com/sgpu",
        "metax-tech.com/vcore",
        "metax-tech.com/gpu",
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "koordinator.sh/gpu",
        "koordinator.sh/rdma",
    ]
)


@given(
    st.dictionaries(requested, st.sampled_from([0, 1, 2, "many"]), min_size=1, max_size=2), records
)
def test_any_record_allocates_or_blocks_and_nothing_is_raised(
    limits: dict[str, int | str], record: dict[str, str]
) -> None:
    found = adopt(bound(limits, record), NODE, ALL)

    if found is not None and found.unread is not None:
        assert found.grants == ()
        assert found.unread


@given(records)
def test_a_pod_with_a_card_is_never_adopted_without_one(record: dict[str, str]) -> None:
    found = adopted(bound({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 0}, record))

    assert found.grants or found.blocked == {"u0", "u1", "u2", "m0", "m1"}
