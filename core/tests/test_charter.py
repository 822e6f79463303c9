import doctest

import core


def test_the_example_of_the_charter_is_true() -> None:
    failed, tried = doctest.testmod(core)

    assert (failed, tried > 0) == (0, True)
