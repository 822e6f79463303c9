"""Every field of the ledger that the agent watches, with hostile values.

None ends the watch of the node's ledger or hides the ledger that comes next, and while the ledger
cannot be read no container gets a share.
"""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.reports import HardwarePublisher
from adapters.agent.apiserver.tests.test_ledger_watch import (
    chunked,
    event,
    follow,
    hold,
    knows,
    listed,
    plain,
    thing,
)
from adapters.agent.apiserver.tests.test_ledger_watch import short_delays as _short_delays
from adapters.agent.grants import LedgerGrants
from adapters.tests.hostile_fields import FieldPath, fields, with_value
from adapters.tests.hostile_texts import VALUES
from adapters.wire.api import WatchEvent
from adapters.wire.records.hardware import HardwareRecord
from adapters.wire.records.ledger import LedgerObject, LedgerRecord

short_delays = _short_delays

ENCODED: dict[str, type] = {"spec": LedgerRecord, "status": HardwareRecord}
FIELDS = sorted(set(fields(inspect.type_info(LedgerObject), ENCODED)), key=str)

MOST = settings().max_examples
"""Examples; few of them, but for ``make fuzz``: each is a server and a watch."""


def hostile(path: FieldPath, name: str) -> bytes:
    return with_value(thing("5"), path, VALUES[name])


def changed(what: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":' + what + b"}\n"


def is_readable(line: bytes) -> bool:
    """Whether the line is JSON, whatever object it has."""
    try:
        msgspec.json.decode(line, type=WatchEvent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def attack(first: bytes, *others: bytes) -> None:
    """List a hostile ledger and watch it change to others, and then to a good one."""
    lines = [changed(each) for each in others]
    text = listed("@").replace(b'"@"', first)

    async def list_(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, text)

    async def watch(writer: asyncio.StreamWriter, _: str) -> None:
        await chunked(writer, *lines, event("MODIFIED", thing("7", "uid-good")))
        await asyncio.sleep(10)

    async def again(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed(thing("7", "uid-good")))

    publisher = HardwarePublisher(AgentCredentials("", 1, None), "a", lambda: None)
    good, on_status = knows("uid-good"), publisher.on_status
    requests = follow(list_, watch, again, hold, until=good, on_status=on_status)

    if all(map(is_readable, (changed(first), *lines))):
        assert len(requests) == 2


@settings(max_examples=MOST if MOST > 1000 else 5)
@given(
    st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from([*VALUES])), min_size=2, max_size=9)
)
def test_no_value_ends_the_watch_or_hides_the_next_ledger(
    values: list[tuple[FieldPath, str]],
) -> None:
    attack(*(hostile(path, name) for path, name in values))


@pytest.mark.parametrize("number", range(5))
def test_each_field_is_fed(number: int) -> None:
    names = [*VALUES]
    found = [hostile(path, names[at % len(names)]) for at, path in enumerate(FIELDS)]

    attack(*found[number::5])


@pytest.mark.parametrize("value", ["null", '"x"', "[]", '{"spec":[]}', '{"spec":{"node":1}}'])
def test_a_ledger_that_cannot_be_read_grants_nothing(value: str) -> None:
    asked = asyncio.Event()

    async def list_(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed(thing("1")))

    async def watch(writer: asyncio.StreamWriter, _: str) -> None:
        await asked.wait()
        await chunked(writer, event("MODIFIED", json.loads(value)))
        await asyncio.sleep(10)

    def until(grants: LedgerGrants) -> bool:
        if knows("uid-1")(grants):
            asked.set()
            return False
        return asked.is_set()

    follow(list_, watch, until=until)
