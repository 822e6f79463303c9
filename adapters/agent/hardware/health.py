"""Which cards are unhealthy, so that they get no new allocations, and until when.

A card is unhealthy when it does not answer, when its driver requests a reset, and after an error
(Xid) that is not an application's own. In NVIDIA's device plugin it stays so; here it becomes
healthy when it was away and has returned, as after a reset, or when its driver requests no action
and there was no error for a while. With a driver that reports no action it stays unhealthy.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pynvml

from adapters.agent.hardware.nvml import Nvml, NvmlError
from adapters.agent.log import log_event

# Errors of an application, not of its card: NVIDIA/k8s-device-plugin internal/rm/health.go
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})

QUIET_PERIOD = 300.0
"""Seconds without an error until a driver that requests no action makes the card healthy."""

WAIT_TIMEOUT = 1.0
"""Seconds of one wait for an error."""

REOPEN_INTERVAL = 30.0
"""Seconds until NVML is started again: only then it finds a card that has returned."""

# nvml.h, NVML_GPU_RECOVERY_ACTION_*, except 5, which is not about the card
RECOVERY_ACTIONS = {
    1: "a reset of the card",
    2: "a restart of the node",
    3: "that its peers are drained",
    4: "that it is drained and reset",
    6: "a reset of its bus",
    7: "a restart of the system",
}
"""What a driver can request; 0 is nothing."""


@dataclass(slots=True)
class Health:
    """The errors of each card. ``record_xid`` is called on another thread.

    Attributes:
        now: seconds that only go forward.
    """

    ignored_xids: frozenset[int] = APPLICATION_XIDS
    now: Callable[[], float] = time.monotonic
    _errors: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def record_xid(self, uuid: str, xid: int) -> bool:
        """Record an error; return whether it makes the card unhealthy."""
        if xid in self.ignored_xids:
            return False
        self._errors[uuid] = (xid, self.now())
        return True

    def clear(self, uuid: str) -> None:
        """Forget the errors of a card that was away and has returned."""
        self._errors.pop(uuid, None)

    def problem(self, uuid: str, action: int | None) -> str:
        """Return why a card that answers is unhealthy; empty for a healthy one.

        Args:
            uuid: of the card.
            action: what its driver requests; None where the driver does not report it.
        """
        if action in RECOVERY_ACTIONS:
            return f"its driver requests {RECOVERY_ACTIONS[action]}"
        found = self._errors.get(uuid)
        if found is None:
            return ""
        xid, when = found
        if action == 0 and self.now() - when >= QUIET_PERIOD:
            # Unless a newer error was recorded in the meantime.
            if self._errors.get(uuid) == found:
                del self._errors[uuid]
            return ""
        return f"Xid {xid}"


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
        critical = pynvml.nvmlEventTypeXidCriticalError
        events = self.nvml.call("nvmlEventSetCreate")
        try:
            for card in self.nvml.cards():
                try:
                    handle = self.nvml.handle_of(card.uuid)
                    self.nvml.call("nvmlDeviceRegisterEvents", handle, critical, events)
                except NvmlError as error:
                    log_event("nvml_events.failed", card=card.uuid, reason=str(error))
            while not self._ended.is_set():
                try:
                    event = self.nvml.call("nvmlEventSetWait_v2", events, int(WAIT_TIMEOUT * 1000))
                except NvmlError as error:
                    if error.code != pynvml.NVML_ERROR_TIMEOUT:
                        raise
                else:
                    if event.eventType == critical:
                        uuid = self.nvml.call("nvmlDeviceGetUUID", event.device)
                        self.on_xid(uuid, int(event.eventData))
                if self.nvml.incomplete and time.monotonic() >= until:
                    break
        finally:
            try:
                self.nvml.call("nvmlEventSetFree", events)
            except NvmlError as error:
                log_event("nvml_events.failed", reason=str(error))
        if not self._ended.is_set():
            self.nvml.reopen()
