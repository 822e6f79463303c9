from adapters.dialects.dialect import Dialect
from adapters.dialects.volcano.tests.builders import a_container, a_kube_node, a_pod, idle, volcano


def test_volcano_implements_the_dialect_interface() -> None:
    dialect: Dialect = volcano()

    assert dialect.name == "volcano"


def test_requests_and_cards_carry_its_name() -> None:
    request = volcano().read_request(a_pod(a_container(number=1)))
    (card,) = volcano().read_node(a_kube_node(idle(1)), None).cards

    assert request.dialect == "volcano"
    assert card.dialects == {"volcano"}
    assert (request.vendor, card.vendor) == (None, "nvidia")


def test_no_resource_of_another_dialect_is_ignored() -> None:
    assert volcano().companions == frozenset()
