"""The agent's readings on a real card, beside the driver's tool."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest

from adapters.agent.config import AgentConfig
from adapters.agent.hardware.health import XidListener
from adapters.agent.hardware.model import Hardware
from adapters.agent.hardware.nvml import Nvml, NvmlError
from adapters.agent.hardware.nvml_mig import NvmlMigReader
from core.hardware.card import Mode
from core.hardware.quantity import MIB
from e2e.gpu.probe import probe
from e2e.gpu.reading import processes

HOLDER = Path(__file__).with_name("holder.py")
SIZE = 512 * MIB
ROUNDING = 64 * MIB
"""By which two readings of memory in use may differ, on a card that does other work too."""


@contextmanager
def holding(uuid: str, size: int) -> Iterator[int]:
    """A process with ``size`` bytes of a card; the memory that CUDA says the card has."""
    words = [sys.executable, str(HOLDER), uuid, str(size)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        if not first:
            why = process.stderr.read()
            if "libcuda.so.1" in why:
                pytest.skip("libcuda.so.1 is not installed: nothing can use the card")
            raise AssertionError(why)
        yield int(first)
        process.stdin.close()


def whole(hardware: Hardware) -> str:
    """A card that is not in MIG mode."""
    for card in hardware.cards:
        if card.mode is Mode.SHARED and card.healthy:
            return card.uuid
    pytest.skip("every card is in MIG mode or unhealthy")


@pytest.mark.usefixtures("hardware")
def test_agent_and_drivers_tool_read_the_same() -> None:
    found = probe(AgentConfig())
    if found.tool_problem:
        pytest.skip(found.tool_problem)

    assert [str(check) for check in found.differences] == []
    assert len(found.checks) > len(found.cards.cards)


def test_readings_of_load_agree_with_those_of_a_process(nvml: Nvml, hardware: Hardware) -> None:
    uuid = whole(hardware)

    def used() -> int:
        return nvml.readings()[uuid].memory

    before, known = used(), {each.pid for each in processes(nvml, uuid)}
    with holding(uuid, SIZE) as total:
        grown = used() - before
        new = [each for each in processes(nvml, uuid) if each.pid not in known]
        card = next(card for card in hardware.cards if card.uuid == uuid)

    assert grown >= SIZE - ROUNDING
    assert total <= card.memory
    assert new, "the process is not listed"
    memory = new[0].memory_mib
    if memory is None:
        pytest.skip("the driver does not say what a process has here")
    assert SIZE <= memory * MIB <= grown + ROUNDING


@pytest.mark.usefixtures("hardware")
def test_errors_of_the_library_have_the_numbers_by_which_the_agent_knows_them(nvml: Nvml) -> None:
    uuid = nvml.cards()[0].uuid

    def code(name: str, *words: object) -> int | None:
        with pytest.raises(NvmlError) as error:
            nvml.call(name, *words)
        return error.value.code

    unknown = "GPU-99999999-9999-9999-9999-999999999999"
    assert code("nvmlDeviceGetHandleByIndex", 999) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code("nvmlDeviceGetHandleByUUID", unknown) == pynvml.NVML_ERROR_NOT_FOUND
    nvml.reopen()
    assert nvml.cards()[0].uuid == uuid


def test_mig_mode_and_profiles_are_read_or_not_supported(nvml: Nvml, hardware: Hardware) -> None:
    reader = NvmlMigReader(nvml)
    for card in hardware.cards:
        handle = nvml.handle_of(card.uuid)
        instances = reader.instances(card.uuid)
        assert (instances is not None) == reader.is_enabled(handle) == (card.mode is Mode.MIG)
        for name, profile in reader.profiles(handle).items():
            assert 0 < profile.memorySizeMB * MIB <= card.memory, name
            assert 0 < profile.sliceCount <= 8, name


@pytest.mark.usefixtures("hardware")
def test_errors_of_cards_can_be_waited_for(nvml: Nvml) -> None:
    listener = XidListener(nvml, lambda _uuid, _xid: None)
    failed: list[NvmlError] = []

    def listen() -> None:
        try:
            listener.listen(time.monotonic() + 60)
        except NvmlError as error:
            failed.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    time.sleep(2)
    listener.stop()
    thread.join(30)

    assert not thread.is_alive()
    assert failed == []
