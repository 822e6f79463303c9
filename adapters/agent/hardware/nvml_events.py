"""The health of cards as NVML reports it: errors (Xids), and the recovery that a card needs."""

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from adapters.agent.hardware.nvml import Nvml, NvmlError, NvmlReturn
from adapters.agent.log import log_event

WAIT_TIMEOUT = 1.0
"""Seconds of one wait for an error."""

REOPEN_INTERVAL = 30.0
"""Seconds until NVML is started again: only then it finds a card that has returned."""

_XID = 0x8
_RECOVERY = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""


class _Event(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Value(ctypes.Union):
    _fields_ = (("number", ctypes.c_uint), ("large", ctypes.c_ulonglong))


class _Field(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", _Value),
    )


def recovery_action(nvml: Nvml, uuid: str) -> int | None:
    """The recovery that the driver requests for a card, 0 for none; None where it reports none."""
    value = _Field(field=_RECOVERY)
    try:
        card = nvml.handle_of(uuid)
        nvml.call("nvmlDeviceGetFieldValues", card, ctypes.c_int(1), ctypes.byref(value))
    except NvmlError:
        return None
    return None if value.code else int(value.value.number)


@dataclass(slots=True)
class XidListener:
    """Waits for errors on its own thread: NVML keeps only the latest error of a card.

    Attributes:
        nvml: the library.
        on_xid: called on that thread with the card's uuid and the number of the error.
    """

    nvml: Nvml
    on_xid: Callable[[str, int], None]
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _logged: str = ""

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="xid", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.listen(time.monotonic() + REOPEN_INTERVAL)
            except NvmlError as error:
                if str(error) != self._logged:
                    self._logged = str(error)
                    log_event("nvml_events.failed", reason=self._logged)
                # A missing library rarely appears soon.
                self._ended.wait(REOPEN_INTERVAL if error.code is None else WAIT_TIMEOUT)

    def listen(self, until: float) -> None:
        """Wait for errors of all cards.

        Args:
            until: as of ``time.monotonic()``; then this returns if a card did not answer, so that
                NVML is started again. With all cards it returns only after ``stop``.

        Raises:
            NvmlError: NVML fails.
        """
        events = ctypes.c_void_p()
        self.nvml.call("nvmlEventSetCreate", ctypes.byref(events))
        try:
            for card in self.nvml.cards():
                self._register(card.uuid, events)
            while not self._ended.is_set():
                self._wait(events)
                if self.nvml.incomplete and time.monotonic() >= until:
                    break
        finally:
            self._free(events)
        if not self._ended.is_set():
            self.nvml.reopen()

    def _register(self, uuid: str, events: ctypes.c_void_p) -> None:
        try:
            card = self.nvml.handle_of(uuid)
            self.nvml.call("nvmlDeviceRegisterEvents", card, ctypes.c_ulonglong(_XID), events)
        except NvmlError as error:
            log_event("nvml_events.failed", card=uuid, reason=str(error))

    def _wait(self, events: ctypes.c_void_p) -> None:
        event = _Event()
        wait = ctypes.c_uint(int(WAIT_TIMEOUT * 1000))
        try:
            self.nvml.call("nvmlEventSetWait_v2", events, ctypes.byref(event), wait)
        except NvmlError as error:
            if error.code == NvmlReturn.TIMEOUT:
                return
            raise
        if event.type == _XID:
            self.on_xid(self.nvml.uuid(ctypes.c_void_p(event.device)), int(event.data))

    def _free(self, events: ctypes.c_void_p) -> None:
        try:
            self.nvml.call("nvmlEventSetFree", events)
        except NvmlError as error:
            log_event("nvml_events.failed", reason=str(error))
