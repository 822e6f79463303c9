"""The health of cards as NVML reports it: errors (Xids), and the recovery that a card needs."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from adapters.agent.hardware.nvml import Nvml, NvmlError
from adapters.agent.log import log_event

WAIT_TIMEOUT = 1.0
"""Seconds of one wait for an error."""

REOPEN_INTERVAL = 30.0
"""Seconds until NVML is started again: only then it finds a card that has returned."""


def recovery_action(nvml: Nvml, uuid: str) -> int | None:
    """Ask the driver which recovery a card needs, 0 for none; None where it reports none."""
    try:
        card = nvml.handle_of(uuid)
        fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        (found,) = nvml.call("nvmlDeviceGetFieldValues", card, fields)
    except NvmlError:
        return None
    return None if found.nvmlReturn else int(found.value.uiVal)


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
        events = self.nvml.call("nvmlEventSetCreate")
        try:
            for card in self.nvml.cards():
                self._register(card.uuid, events)
            while not self._ended.is_set():
                self._wait(events)
                if self.nvml.incomplete and time.monotonic() >= until:
                    break
        finally:
            try:
                self.nvml.call("nvmlEventSetFree", events)
            except NvmlError as error:
                log_event("nvml_events.failed", reason=str(error))
        if not self._ended.is_set():
            self.nvml.reopen()

    def _register(self, uuid: str, events: Any) -> None:
        try:
            card = self.nvml.handle_of(uuid)
            kinds = pynvml.nvmlEventTypeXidCriticalError
            self.nvml.call("nvmlDeviceRegisterEvents", card, kinds, events)
        except NvmlError as error:
            log_event("nvml_events.failed", card=uuid, reason=str(error))

    def _wait(self, events: Any) -> None:
        try:
            event = self.nvml.call("nvmlEventSetWait_v2", events, int(WAIT_TIMEOUT * 1000))
        except NvmlError as error:
            if error.code == pynvml.NVML_ERROR_TIMEOUT:
                return
            raise
        if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
            uuid = self.nvml.call("nvmlDeviceGetUUID", event.device)
            self.on_xid(uuid, int(event.eventData))
