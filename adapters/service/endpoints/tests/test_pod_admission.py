import json

import pytest

from adapters.dialects.dialect import DialectError
from adapters.service.endpoints.pod_admission import KEY, required

LONG = "c" * 54


def test_each_container_that_requests_a_share_requires_the_plugin() -> None:
    found = required("dragoman", {"main", "warm"}, {"other": "kept"})

    assert found == {f"{KEY}/container.{name}": '["dragoman"]' for name in ("main", "warm")}


@pytest.mark.parametrize("key", [f"{KEY}/container.main", f"{KEY}/pod", KEY])
def test_plugins_that_the_author_requires_stay_required(key: str) -> None:
    found = required("dragoman", {"main"}, {key: '["audit", "audit"]'})

    assert json.loads(found[f"{KEY}/container.main"]) == ["audit", "dragoman"]


def test_only_the_most_specific_requirement_counts_as_in_the_runtime() -> None:
    there = {KEY: '["a"]', f"{KEY}/pod": '["b"]', f"{KEY}/container.main": "[]"}

    assert required("dragoman", {"main"}, there) == {f"{KEY}/container.main": '["dragoman"]'}


def test_an_existing_requirement_is_left_unchanged() -> None:
    once = required("dragoman", {"main"}, {})

    assert required("dragoman", {"main"}, once) == once


def test_a_container_name_too_long_for_a_key_makes_the_pod_require_the_plugin() -> None:
    found = required("dragoman", {LONG, "main"}, {KEY: '["audit"]'})

    assert found == {
        f"{KEY}/pod": '["audit","dragoman"]',
        f"{KEY}/container.main": '["audit","dragoman"]',
    }


@pytest.mark.parametrize("value", ["[lab]", "lab", '{"a": 1}', "[1]", ""])
def test_an_invalid_list_of_plugins_is_rejected_with_its_key(value: str) -> None:
    with pytest.raises(DialectError, match=r"pod\]: .*list of names in JSON"):
        required("dragoman", {"main"}, {f"{KEY}/pod": value})
