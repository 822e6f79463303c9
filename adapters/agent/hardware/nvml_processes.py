"""The processes on NVIDIA's cards, and the versions of driver and library, through NVML."""

import ctypes
from dataclasses import dataclass

from adapters.agent.hardware.nvml import Nvml, NvmlError, NvmlReturn

_NOT_AVAILABLE = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE, of a process's memory."""
_WHOLE_CARD = (1 << 32) - 1
_MORE = 8
"""Processes that may start between two calls."""
_VERSION = 80
"""NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE."""


class Process(ctypes.Structure):
    """``nvmlProcessInfo_v2_t``, which the functions of version 3 fill."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process with a compute context on a card.

    Attributes:
        pid: in the host's name space.
        memory: bytes; None where the driver does not say.
        gpu_instance: number of its MIG instance; None on a card that is not in MIG mode.
    """

    pid: int
    memory: int | None
    gpu_instance: int | None = None


def processes(nvml: Nvml, uuid: str) -> tuple[CardProcess, ...]:
    """The processes on a card, by pid.

    Raises:
        NvmlError: the card does not answer, or the library reports none.
    """
    with nvml.lock:
        card, count = nvml.handle_of(uuid), ctypes.c_uint()
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        try:
            nvml.call(name, card, ctypes.byref(count), None)
        except NvmlError as error:
            if error.code != NvmlReturn.INSUFFICIENT_SIZE:
                raise
        if not count.value:
            return ()
        count.value += _MORE
        found = (Process * count.value)()
        nvml.call(name, card, ctypes.byref(count), found)
    return tuple(sorted(map(_process, found[: count.value]), key=lambda each: each.pid))


def versions(nvml: Nvml) -> tuple[str, str]:
    """The versions of the driver and of the library.

    Raises:
        NvmlError: the library is missing, or fails.
    """
    return _text(nvml, "nvmlSystemGetDriverVersion"), _text(nvml, "nvmlSystemGetNVMLVersion")


def _process(found: Process) -> CardProcess:
    memory, part = int(found.used_memory), int(found.gpu_instance)
    return CardProcess(
        int(found.pid),
        None if memory == _NOT_AVAILABLE else memory,
        None if part == _WHOLE_CARD else part,
    )


def _text(nvml: Nvml, name: str) -> str:
    value = ctypes.create_string_buffer(_VERSION)
    nvml.call(name, value, ctypes.c_uint(_VERSION))
    return value.value.decode("utf-8", "replace")
