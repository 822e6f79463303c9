import gc
import weakref

import pytest

from adapters.stores.store import kept


class Circle:
    """Refers to itself, so that only the garbage collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_made_within_is_left_out_of_later_collections() -> None:
    before = gc.get_freeze_count()

    with kept():
        assert not gc.isenabled()
        made = [[] for _ in range(10_000)]  # type: ignore[var-annotated]

    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(made)
    gc.unfreeze()


def test_earlier_garbage_is_freed_first() -> None:
    garbage = weakref.ref(Circle())

    with kept():
        assert garbage() is None
    gc.unfreeze()


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(OSError, match="gone"), kept():
        raise OSError("gone")

    assert gc.isenabled()
