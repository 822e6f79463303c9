import pytest

from core.requests.request import PodRef
from core.tests.builders import a_grant, held


def test_a_pod_is_written_as_its_namespace_and_its_name() -> None:
    assert str(PodRef("ml", "trainer-0", "u1")) == "ml/trainer-0"


def test_what_is_written_is_read_again() -> None:
    ref = PodRef("ml", "trainer-0", "u1")

    assert PodRef.parse(str(ref), "u1") == ref
    assert PodRef.parse("ml/trainer-0") == PodRef("ml", "trainer-0", "")


def test_two_pods_of_one_name_differ_by_uid() -> None:
    assert PodRef("ml", "trainer-0", "u1") != PodRef("ml", "trainer-0", "u2")


@pytest.mark.parametrize("text", ["ml", "ml/"])
def test_text_without_a_name_gives_an_empty_name(text: str) -> None:
    assert PodRef.parse(text) == PodRef("ml", "")


def test_an_allocation_names_its_pod_by_a_reference() -> None:
    allocation = held(a_grant("n0-0"), uid="u1")

    assert str(allocation.pod_ref) == allocation.pod
    assert allocation.pod_ref.uid == "u1"
