from e2e.adversary.terms import Terms, broken_terms


def said(left: Terms, right: Terms) -> list[str]:
    """The first word of each broken rule, which does not depend on the order of the two."""
    found, reverse = (
        [text.split(": ")[0] for text in broken_terms(*pair)]
        for pair in ((left, right), (right, left))
    )
    assert found == reverse
    return found


def test_normal_tasks_share_with_normal_ones_only() -> None:
    assert said(Terms(), Terms("online")) == ["classes"]
    assert said(Terms(), Terms()) == said(Terms("offline"), Terms("online")) == []


def test_two_qos_policies_do_not_share_a_card_and_none_suits_every_policy() -> None:
    assert said(Terms(qos="fixed-share"), Terms(qos="burst-share")) == ["QoS"]
    assert said(Terms(qos="fixed-share"), Terms()) == []


def test_a_group_that_spreads_has_one_pod_on_a_card() -> None:
    assert said(Terms(group="g"), Terms(group="g")) == ["groups"]
    assert said(Terms(group="g"), Terms(group="h")) == []
