"""The text of a node lock."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cluster.node_lock import Lock

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)), NAMES, NAMES)
def test_what_was_written_is_read(since: datetime, namespace: str, name: str) -> None:
    lock = Lock(since, namespace, name)

    assert Lock.read(lock.write()) == lock


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("2026-01-02T03:04:05Z,ns,pod", ("ns", "pod")),
        ("2026-01-02T11:04:05+08:00,ns,pod", ("ns", "pod")),
        ("2026-01-02T03:04:05Z", ("", "")),
    ],
)
def test_what_hami_writes_is_read(text: str, owner: tuple[str, str]) -> None:
    lock = Lock.read(text)

    assert lock.since == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (lock.namespace, lock.name) == owner


@given(st.text())
def test_any_text_is_a_lock(text: str) -> None:
    lock = Lock.read(text)

    assert lock.since is None or lock.since.tzinfo is not None
