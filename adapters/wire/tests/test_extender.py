"""The arguments of preempt, whose two forms of victims become one; the texts of answers."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire import extender
from adapters.wire.body import BodyError
from adapters.wire.extender import ALL_SCORED, MAX_SCORE, plain_names, read_preemption

POD = {"metadata": {"name": "p"}}
IN_FULL = {"n1": {"Pods": [{"metadata": {"uid": "a"}}], "NumPDBViolations": 1}, "n2": None}
BY_UID = {"n1": {"Pods": [{"UID": "b"}], "NumPDBViolations": 2}, "n3": {"Pods": None}}


def proposals(**victims: object) -> object:
    return read_preemption(json.dumps({"Pod": POD, **victims}).encode()).proposals


def test_victims_in_full_are_read_by_their_uids() -> None:
    assert proposals(NodeNameToVictims=IN_FULL) == {"n1": (["a"], 1), "n2": ([], 0)}


def test_victims_by_uid_are_read() -> None:
    assert proposals(NodeNameToMetaVictims=BY_UID) == {"n1": (["b"], 2), "n3": ([], 0)}


def test_a_node_in_both_forms_counts_by_the_uids() -> None:
    both = proposals(NodeNameToVictims=IN_FULL, NodeNameToMetaVictims=BY_UID)

    assert both == {"n1": (["b"], 2), "n2": ([], 0), "n3": ([], 0)}


def test_no_victims_are_no_proposals() -> None:
    assert proposals() == {}


def test_arguments_without_a_pod_are_rejected() -> None:
    with pytest.raises(BodyError, match="Pod is missing"):
        read_preemption(b"{}")


@given(st.lists(st.tuples(st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True), st.booleans())))
def test_the_text_of_each_node_is_json(nodes: list[tuple[str, bool]]) -> None:
    texts = ['a "quoted" text', "ein längerer\n"]

    found = extender.node_texts([name for name, _ in nodes], texts, [one for _, one in nodes])

    assert (json.loads(found) or {}) == {name: texts[one] for name, one in nodes}


_SCORES = st.sampled_from((0, 0, 0, 5, MAX_SCORE))


@given(st.lists(_SCORES, max_size=2 * ALL_SCORED))
def test_a_node_without_a_score_has_0_and_others_have_more(scores: list[int]) -> None:
    names = [f"n{number}" for number in range(len(scores))]

    found = json.loads(extender.priorities(plain_names(names), np.array(scores, np.int64)))

    named = {one["Host"]: one["Score"] for one in found}
    assert [named.get(name, 0) for name in names] == scores
    is_short = len(scores) > ALL_SCORED and any(scores) and scores.count(0) > len(scores) / 2
    assert len(found) == (np.count_nonzero(scores) if is_short else len(scores))


def test_a_long_answer_names_every_node_where_all_have_0() -> None:
    names = plain_names([f"n{number}" for number in range(ALL_SCORED + 1)])

    found = json.loads(extender.priorities(names, np.zeros(len(names), np.int64)))

    assert {one["Score"] for one in found} == {0}
    assert len(found) == len(names)
