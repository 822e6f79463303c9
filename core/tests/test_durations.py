"""A duration is measured by one clock, from when this process saw a version first."""

from core.durations import SKEW, Sightings


def test_a_version_ages_from_when_it_is_seen_first() -> None:
    seen = Sightings()

    ages = [seen.age("a", "1", 5), seen.age("a", "1", 8), seen.age("b", "1", 8)]

    assert ages == [0, 3, 0]
    assert seen.age("a", "2", 9) == 0
    assert seen.age("a", "2", 20) == 11
    assert seen.age("b", "1", 20) == 12


def test_the_things_that_changed_longest_ago_are_forgotten() -> None:
    seen = Sightings(most=2)
    for key in "abc":
        seen.age(key, "1", 0)

    assert [seen.age(key, "1", 9) for key in "bca"] == [9, 9, 0]


def test_what_others_wrote_long_ago_is_old_at_first_sight_and_nothing_else() -> None:
    seen, wall = Sightings(), 10 * SKEW

    assert seen.since("a", wall - SKEW - 7, 0, wall) == 7
    assert seen.since("b", wall - 5, 0, wall) == 0
    assert seen.since("b", wall - 5, 9, wall + 9) == 9
    assert seen.since("c", wall + SKEW, 0, wall) == 0
