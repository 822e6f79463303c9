from adapters.dialects.dialect import Dialect
from adapters.dialects.volcano.tests.builders import asking, idle, kube_node, pod, volcano


def test_volcano_is_one_of_the_vocabularies() -> None:
    dialect: Dialect = volcano()

    assert dialect.name == "volcano"


def test_requests_and_cards_carry_its_name() -> None:
    request = volcano().read_request(pod(asking(number=1)))
    (card,) = volcano().read_node(kube_node(idle(1)), None).cards

    assert request.dialect == "volcano"
    assert card.dialects == {"volcano"}
    assert (request.vendor, card.vendor) == (None, "nvidia")


def test_nothing_of_another_vocabulary_is_passed_over() -> None:
    assert volcano().companions == frozenset()
