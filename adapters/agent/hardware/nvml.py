"""NVIDIA's management library NVML, as far as the agent needs it, by NVIDIA's own binding.

The library comes with the driver. The binding opens it at the first call, and at a later one where
it is not installed yet.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import pynvml

from adapters.agent.hardware.model import CardLoad

LIBRARY = "libnvidia-ml.so.1"

_PROBLEMS = {
    code: name.removeprefix("NVML_ERROR_").lower().replace("_", " ")
    for name, code in vars(pynvml).items()
    if name.startswith("NVML_ERROR_")
}


class NvmlError(RuntimeError):
    """The library is missing, or a call failed.

    Attributes:
        code: one of NVML_ERROR_*; None where the library or the function is missing.
    """

    def __init__(self, call: str, code: int | None, problem: str) -> None:
        super().__init__(f"{call}: {problem}")
        self.code = code


@dataclass(frozen=True, slots=True)
class NvidiaCard:
    """A card as NVML describes it.

    Attributes:
        index: number in NVML and nvidia-smi.
        bus_id: such as ``0000:3b:00.0``, in lower case.
        memory: bytes.
    """

    uuid: str
    index: int
    minor: int
    name: str
    bus_id: str
    memory: int


@dataclass(slots=True)
class Nvml:
    """The library.

    Attributes:
        lock: hold it for several calls whose results must belong together.
        incomplete: whether the last ``cards`` left out a card that failed.
    """

    lock: RLock = field(default_factory=RLock)
    incomplete: bool = False
    _ready: bool = field(default=False)

    def cards(self) -> list[NvidiaCard]:
        """List the cards that answer, by index; one that does not answer does not hide the others.

        Raises:
            NvmlError: the library is missing, or no card answers.
        """
        found: list[NvidiaCard] = []
        problem: NvmlError | None = None
        with self.lock:
            for index in range(self.call("nvmlDeviceGetCount")):
                try:
                    handle = self.call("nvmlDeviceGetHandleByIndex", index)
                    card = NvidiaCard(
                        uuid=self.call("nvmlDeviceGetUUID", handle),
                        index=index,
                        minor=self.call("nvmlDeviceGetMinorNumber", handle),
                        name=self.call("nvmlDeviceGetName", handle),
                        bus_id=address(self.call("nvmlDeviceGetPciInfo", handle)),
                        memory=self.call("nvmlDeviceGetMemoryInfo", handle).total,
                    )
                except NvmlError as error:
                    problem = error
                else:
                    found.append(card)
        self.incomplete = problem is not None
        if problem is not None and not found:
            raise problem
        return found

    def readings(self) -> dict[str, CardLoad]:
        """Read the loads of the cards that answer, by uuid; without compute in MIG mode.

        Raises:
            NvmlError: the library is missing, or fails.
        """
        found: dict[str, CardLoad] = {}
        with self.lock:
            for index in range(self.call("nvmlDeviceGetCount")):
                with suppress(NvmlError):
                    handle = self.call("nvmlDeviceGetHandleByIndex", index)
                    memory = self.call("nvmlDeviceGetMemoryInfo", handle).used
                    uuid = self.call("nvmlDeviceGetUUID", handle)
                    found[uuid] = CardLoad(memory, 0)
                    busy = self.call("nvmlDeviceGetUtilizationRates", handle)  # fails in MIG mode
                    found[uuid] = CardLoad(memory, busy.gpu, busy.memory)
        return found

    def reopen(self) -> None:
        """Shut NVML down, so that the next call starts it: only then it looks for cards."""
        with self.lock:
            if self._ready:
                self._ready = False
                _invoke("nvmlShutdown")

    def handle_of(self, uuid: str) -> Any:
        """Return NVML's handle of a card.

        Raises:
            NvmlError: there is no such card, or the call fails.
        """
        return self.call("nvmlDeviceGetHandleByUUID", uuid)

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function of the binding, and return what it returns.

        Raises:
            NvmlError: the library or the function is missing, or the call fails.
        """
        if not self._ready:
            _invoke("nvmlInit")
            self._ready = True
        return _invoke(name, *arguments)


def _invoke(name: str, *arguments: object) -> Any:
    try:
        return getattr(pynvml, name)(*arguments)
    except pynvml.NVMLError as error:
        code = error.value
        if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            reason = str(error.__context__ or error).removeprefix(f"{LIBRARY}: ")
            raise NvmlError(LIBRARY, None, reason) from error
        if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise NvmlError(name, None, "the library is too old for this function") from error
        raise NvmlError(name, code, _PROBLEMS.get(code, f"error {code}")) from error
    except UnicodeDecodeError as error:
        raise NvmlError(name, None, f"a text that is no UTF-8: {error}") from error


def address(pci: Any) -> str:
    """Return an address such as ``0000:3b:00.0``, in lower case, as the kernel writes it."""
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
