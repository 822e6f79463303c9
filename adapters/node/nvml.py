"""NVIDIA's management library, as far as the agent asks it, by ctypes.

Source: nvml.h of the CUDA toolkit. The library comes with the driver; it is opened when it is first
asked, and asked again later where it is not there yet.
"""

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")

_TEXT = 96
_MIG_ON = 1
_NOT_FOUND = 6


class NvmlError(RuntimeError):
    """The library is not there, or says no."""

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


class _Pci(ctypes.Structure):
    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class _Placement(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


class _InstanceInfo(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("id", ctypes.c_uint),
        ("profile_id", ctypes.c_uint),
        ("placement", _Placement),
    )


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG device.

    Attributes:
        name: as the library says it, such as ``NVIDIA A100-SXM4-40GB MIG 1g.5gb``.
        gpu_instance: its number on the card.
        compute_instance: its number in the GPU instance.
        start: first memory slice of the GPU instance.
    """

    uuid: str
    name: str
    gpu_instance: int
    compute_instance: int
    start: int


@dataclass(frozen=True, slots=True)
class NvidiaCard:
    """A card as the library describes it.

    Attributes:
        index: by which the library and nvidia-smi count.
        minor: number of its device node.
        bus_id: such as ``0000:3b:00.0``, in lower case.
        memory: bytes.
        mig: its MIG devices; None where the card is not in MIG mode.
    """

    uuid: str
    index: int
    minor: int
    name: str
    bus_id: str
    memory: int
    mig: tuple[MigInstance, ...] | None


@dataclass(slots=True)
class Nvml:
    """The library.

    Attributes:
        library: the opened one; opened when it is first asked if it is not given.
    """

    library: Any = None
    _ready: bool = field(default=False)

    def cards(self) -> list[NvidiaCard]:
        """All cards, by index.

        Raises:
            NvmlError: the library is not there, or says no.
        """
        return [self._card(index) for index in range(self._count())]

    def use(self) -> list[tuple[str, int, int]]:
        """Uuid, bytes in use and percent of compute of each card; in MIG mode 0 percent.

        Raises:
            NvmlError: the library is not there, or says no.
        """
        found: list[tuple[str, int, int]] = []
        for index in range(self._count()):
            handle = self._handle(index)
            memory, busy = _Memory(), _Utilization()
            self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
            try:
                self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy))
            except NvmlError:
                busy = _Utilization()  # a card in MIG mode has none
            found.append((self._uuid(handle), int(memory.used), int(busy.gpu)))
        return found

    def _count(self) -> int:
        return self._number("nvmlDeviceGetCount_v2")

    def _handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def _card(self, index: int) -> NvidiaCard:
        handle = self._handle(index)
        memory, pci = _Memory(), _Pci()
        self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        self._call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        return NvidiaCard(
            uuid=self._uuid(handle),
            index=index,
            minor=self._number("nvmlDeviceGetMinorNumber", handle),
            name=self._text("nvmlDeviceGetName", handle),
            bus_id=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
            memory=int(memory.total),
            mig=self._mig(handle),
        )

    def _mig(self, handle: ctypes.c_void_p) -> tuple[MigInstance, ...] | None:
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        try:
            self._call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
        except NvmlError:
            return None  # a card that knows no MIG
        if current.value != _MIG_ON:
            return None
        most = self._number("nvmlDeviceGetMaxMigDeviceCount", handle)
        found = (self._instance(handle, place) for place in range(most))
        return tuple(instance for instance in found if instance is not None)

    def _instance(self, card: ctypes.c_void_p, place: int) -> MigInstance | None:
        handle, instance, info = ctypes.c_void_p(), ctypes.c_void_p(), _InstanceInfo()
        try:
            self._call(
                "nvmlDeviceGetMigDeviceHandleByIndex",
                card,
                ctypes.c_uint(place),
                ctypes.byref(handle),
            )
        except NvmlError as error:
            if error.code == _NOT_FOUND:
                return None
            raise
        number = self._number("nvmlDeviceGetGpuInstanceId", handle)
        self._call(
            "nvmlDeviceGetGpuInstanceById", card, ctypes.c_uint(number), ctypes.byref(instance)
        )
        self._call("nvmlGpuInstanceGetInfo", instance, ctypes.byref(info))
        return MigInstance(
            uuid=self._uuid(handle),
            name=self._text("nvmlDeviceGetName", handle),
            gpu_instance=number,
            compute_instance=self._number("nvmlDeviceGetComputeInstanceId", handle),
            start=int(info.placement.start),
        )

    def _uuid(self, handle: ctypes.c_void_p) -> str:
        return self._text("nvmlDeviceGetUUID", handle)

    def _number(self, name: str, *words: object) -> int:
        value = ctypes.c_uint()
        self._call(name, *words, ctypes.byref(value))
        return value.value

    def _text(self, name: str, handle: ctypes.c_void_p) -> str:
        value = ctypes.create_string_buffer(_TEXT)
        self._call(name, handle, value, ctypes.c_uint(_TEXT))
        return value.value.decode("utf-8", "replace")

    def _call(self, name: str, *words: object) -> None:
        if not self._ready:
            self._open()
        self._ask(name, *words)

    def _ask(self, name: str, *words: object) -> None:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise NvmlError(name, None, "the library is too old to know it") from None
        code = int(function(*words))
        if code:
            raise NvmlError(name, code, f"error {code}")

    def _open(self) -> None:
        if self.library is None:
            try:
                self.library = ctypes.CDLL(LIBRARY)
            except OSError as error:
                raise NvmlError(LIBRARY, None, str(error)) from error
        self._ask("nvmlInit_v2")
        self._ready = True


def capability(folder: Path) -> int | None:
    """Minor number of the device node of one capability; None where the driver names none.

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
