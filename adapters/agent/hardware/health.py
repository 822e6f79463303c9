"""Which cards are unhealthy, so that they get no new allocations, and until when.

A card is unhealthy when it does not answer, when its driver requests a reset, and after an error
(Xid) that is not an application's own. In NVIDIA's device plugin it stays so; here it becomes
healthy when it was away and has returned, as after a reset, or when its driver requests no action
and there was no error for a while. With a driver that reports no action it stays unhealthy.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Errors of an application, not of its card: NVIDIA/k8s-device-plugin internal/rm/health.go
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})

QUIET_PERIOD = 300.0
"""Seconds without an error until a driver that requests no action makes the card healthy."""

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
        ignored_xids: errors that do not make a card unhealthy.
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
        """Why a card that answers is unhealthy; empty for a healthy one.

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
