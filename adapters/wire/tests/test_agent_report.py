"""Reports of node agents, which a container or a foreign node can make say anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.agent_report import ContainerReport, NodeReport, Use, parse, short

CARD = "GPU-" + "a" * 60


def of_container(name: str, value: str, node: str = "n1") -> str:
    labels = f'node="{node}",namespace="default",pod="p",container="main",uuid="{short(CARD)}"'
    return f"dragoman_container_{name}{{{labels}}} {value}\n"


def of_card(name: str, value: str, node: str = "n1") -> str:
    return f'hami_host_gpu_{name}{{node="{node}",device_uuid="{short(CARD)}"}} {value}\n'


def test_amounts_are_bytes_and_percent() -> None:
    text = (
        of_container("memory_granted_bytes", "100")
        + of_container("memory_used_bytes", "40")
        + of_container("memory_limit_bytes", "90")
        + of_container("compute_used_ratio", "0.25")
        + of_card("memory_used_bytes", "70")
        + of_card("utilization_ratio", "30")
        + "dragoman_node_containers_unserved 2\n"
    )

    expected = ContainerReport("default/p", "main", short(CARD), 100, 40, 90, 25)
    assert parse(text, "n1") == NodeReport((expected,), {short(CARD): Use(70, 30)}, 2)


def test_what_it_says_of_another_node_is_left_out() -> None:
    text = of_container("memory_used_bytes", "40", "n2") + of_card("memory_used_bytes", "70", "n2")

    assert parse(text, "n1") == NodeReport()


@pytest.mark.parametrize(
    ("value", "used"), [("-1", None), ("NaN", None), ("+Inf", 2**63), ("1e300", 2**63), ("0", 0)]
)
def test_an_impossible_amount_is_unknown_and_one_beyond_64_bits_the_largest(
    value: str, used: int | None
) -> None:
    found = parse(
        of_container("memory_used_bytes", value) + of_card("memory_used_bytes", value), "n1"
    )

    assert [each.used for each in found.containers] == ([] if used is None else [used])
    assert [use.memory for use in found.cards.values()] == ([] if used is None else [used])


@given(st.text() | st.text().map(lambda text: f"dragoman_container_memory_used_bytes{text}"))
def test_any_text_is_a_report_or_a_value_error(text: str) -> None:
    try:
        found = parse(text, "n1")
    except ValueError:
        return
    assert isinstance(found, NodeReport)
