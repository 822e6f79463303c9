"""NVIDIA's management library NVML by ctypes, as far as the agent needs it.

Source of layouts and numbers: nvml.h as NVIDIA's own binding repeats it (nvidia-ml-py 13.615); a
test compares them. The agent does not use that binding, because it adds 5.3 MiB for thirty calls.
The library comes with the driver. It is opened at the first call, and at a later one where it is
not installed yet.
"""

import ctypes
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from threading import RLock
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")

_TEXT = 96


class NvmlReturn(IntEnum):
    """The error codes that the agent handles or logs by name."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23


class NvmlError(RuntimeError):
    """The library is missing, or a call failed.

    Attributes:
        code: see ``NvmlReturn``; None where the library or the function is missing.
    """

    def __init__(self, call: str, code: int | None, problem: str) -> None:
        super().__init__(f"{call}: {problem}")
        self.code = code


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Pci(ctypes.Structure):
    """PCI address of a device."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )

    @property
    def address(self) -> str:
        """Such as ``0000:3b:00.0``, in lower case, as the kernel writes it."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.0"


@dataclass(frozen=True, slots=True)
class NvidiaCard:
    """A card as NVML describes it.

    Attributes:
        index: number in NVML and nvidia-smi.
        minor: number of its device node.
        bus_id: such as ``0000:3b:00.0``, in lower case.
        memory: bytes.
    """

    uuid: str
    index: int
    minor: int
    name: str
    bus_id: str
    memory: int


@dataclass(frozen=True, slots=True)
class CardReading:
    """How busy a card is.

    Attributes:
        memory: bytes in use by all processes.
        compute: percent of the time during which a kernel ran; 0 in MIG mode, where NVML has none.
        bus: percent of the time during which memory was read or written; 0 in MIG mode.
    """

    uuid: str
    memory: int
    compute: int
    bus: int


@dataclass(slots=True)
class Nvml:
    """The library.

    Attributes:
        library: the opened library; None until the first call opens it.
        lock: hold it for several calls whose results must belong together.
        incomplete: whether the last ``cards`` left out a card that failed.
    """

    library: Any = None
    lock: RLock = field(default_factory=RLock)
    incomplete: bool = False
    _ready: bool = field(default=False)

    def cards(self) -> list[NvidiaCard]:
        """All cards that answer, by index; one that does not answer does not hide the others.

        Raises:
            NvmlError: the library is missing, or no card answers.
        """
        found: list[NvidiaCard] = []
        problem: NvmlError | None = None
        with self.lock:
            for index in range(self._count()):
                try:
                    found.append(self._card(index))
                except NvmlError as error:
                    problem = error
        self.incomplete = problem is not None
        if problem is not None and not found:
            raise problem
        return found

    def readings(self) -> list[CardReading]:
        """The loads of the cards that answer.

        Raises:
            NvmlError: the library is missing, or fails.
        """
        with self.lock:
            found = [self._reading(index) for index in range(self._count())]
        return [use for use in found if use is not None]

    def reopen(self) -> None:
        """Shut NVML down, so that the next call starts it: only then it looks for cards."""
        with self.lock:
            if self._ready:
                self._ready = False
                self._invoke("nvmlShutdown")

    def handle_of(self, uuid: str) -> ctypes.c_void_p:
        """NVML's handle of a card.

        Raises:
            NvmlError: there is no such card, or the call fails.
        """
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle))
        return handle

    def _reading(self, index: int) -> CardReading | None:
        memory, busy = _Memory(), _Utilization()
        try:
            handle = self._handle(index)
            self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
            uuid = self.uuid(handle)
        except NvmlError:
            return None
        try:
            self.call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy))
        except NvmlError:
            busy = _Utilization()  # a card in MIG mode has none
        return CardReading(uuid, int(memory.used), int(busy.gpu), int(busy.memory))

    def _count(self) -> int:
        return self.number("nvmlDeviceGetCount_v2")

    def _handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def _card(self, index: int) -> NvidiaCard:
        handle = self._handle(index)
        memory, pci = _Memory(), Pci()
        self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        return NvidiaCard(
            uuid=self.uuid(handle),
            index=index,
            minor=self.number("nvmlDeviceGetMinorNumber", handle),
            name=self.text("nvmlDeviceGetName", handle),
            bus_id=pci.address,
            memory=int(memory.total),
        )

    def uuid(self, handle: ctypes.c_void_p) -> str:
        """The uuid of a card or of a MIG device."""
        return self.text("nvmlDeviceGetUUID", handle)

    def number(self, name: str, *arguments: object) -> int:
        """Call a function that returns one number, in its last argument."""
        value = ctypes.c_uint()
        self.call(name, *arguments, ctypes.byref(value))
        return value.value

    def text(self, name: str, handle: ctypes.c_void_p) -> str:
        """Call a function that returns a string."""
        value = ctypes.create_string_buffer(_TEXT)
        self.call(name, handle, value, ctypes.c_uint(_TEXT))
        return value.value.decode("utf-8", "replace")

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the library.

        Raises:
            NvmlError: the library or the function is missing, or the call fails.
        """
        if not self._ready:
            self._open()
        self._invoke(name, *arguments)

    def _invoke(self, name: str, *arguments: object) -> None:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise NvmlError(name, None, "the library is too old for this function") from None
        code = int(function(*arguments))
        if code:
            raise NvmlError(name, code, _description(code))

    def _open(self) -> None:
        if self.library is None:
            try:
                self.library = ctypes.CDLL(LIBRARY)
            except OSError as error:
                reason = str(error).removeprefix(f"{LIBRARY}: ")
                raise NvmlError(LIBRARY, None, reason) from error
        self._invoke("nvmlInit_v2")
        self._ready = True


def _description(code: int) -> str:
    try:
        return NvmlReturn(code).name.lower().replace("_", " ")
    except ValueError:
        return f"error {code}"


def capability(folder: Path) -> int | None:
    """Minor number of the device node of one capability; None where the driver reports none.

    Args:
        folder: below ``CAPABILITIES``, such as ``gpu0/mig/gi1/access``.

    Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities".
    """
    try:
        lines = folder.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "DeviceFileMinor" and value.strip().isdigit():
            return int(value)
    return None
