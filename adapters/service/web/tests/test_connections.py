"""Which connection gives way, and which has waited too long."""

import asyncio

import pytest

from adapters.service.settings.sections import LimitSettings
from adapters.service.tests.builders import run
from adapters.service.web.limits import SPARE_CONNECTIONS, Connections
from adapters.service.web.limits import ConnectionPhase as Phase


class Wire:
    def __init__(self) -> None:
        self.dropped = False
        self.expired: list[Phase] = []

    def drop(self) -> None:
        self.dropped = True

    def expire(self, phase: Phase) -> None:
        self.expired.append(phase)


def opened(connections: Connections, *phases: Phase) -> list[Wire]:
    wires = [Wire() for _ in phases]
    for at, (wire, phase) in enumerate(zip(wires, phases, strict=True)):
        connections.enter(wire, phase, at)
    return wires


@pytest.mark.parametrize(
    ("phases", "evicted"),
    [
        ((Phase.IDLE, Phase.HEAD, Phase.HEAD), 1),
        ((Phase.BODY, Phase.IDLE, Phase.IDLE), 1),
        ((Phase.HANDLING, Phase.BODY, Phase.CLOSING), 2),
        ((Phase.HANDLING, Phase.BODY, Phase.BODY), 1),
    ],
)
def test_the_oldest_of_those_that_wait_for_the_client_gives_way(
    phases: tuple[Phase, ...], evicted: int
) -> None:
    connections = Connections(LimitSettings.model_construct(connections=3), lambda: None)
    wires = opened(connections, *phases)

    assert run(connections.make_room()) is False
    assert [wire.dropped for wire in wires] == [at == evicted for at in range(3)]


def test_beyond_the_limit_some_are_admitted_for_probes_and_further_ones_wait() -> None:
    async def work() -> bool:
        connections = Connections(LimitSettings.model_construct(connections=1), lambda: None)
        (first, *_) = opened(connections, Phase.HANDLING)
        for _ in range(SPARE_CONNECTIONS):
            assert await connections.make_room()
            opened(connections, Phase.HANDLING)
        waiting = asyncio.create_task(connections.make_room())
        await asyncio.sleep(0)
        assert not waiting.done()

        connections.remove(first)

        return await waiting

    assert run(work()) is True


def test_a_phase_that_takes_too_long_expires_and_handling_and_idle_do_not() -> None:
    connections = Connections(
        LimitSettings.model_construct(head_seconds=10, body_seconds=20), lambda: None
    )
    wires = opened(
        connections,
        Phase.HEAD,
        Phase.BODY,
        Phase.HANDLING,
        Phase.IDLE,
    )

    connections.expire(10)
    assert [wire.expired for wire in wires] == [[Phase.HEAD], [], [], []]
    connections.remove(wires[0])
    connections.expire(1000)
    assert [wire.expired for wire in wires] == [
        [Phase.HEAD],
        [Phase.BODY],
        [],
        [],
    ]
