"""Which cards must not be sold anew, and until when.

A card is unhealthy when it does not answer, when its driver says that it must be reset, and after
an error (Xid) that is no application's own. NVIDIA's plugin never takes that back; here a card is
healthy again when it was away and has returned, which a reset does, or when its driver says that
nothing needs to be done and it was quiet for a while. Drivers that do not say leave it unhealthy.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Of an application, not of its card: NVIDIA/k8s-device-plugin internal/rm/health.go
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})

QUIET_PERIOD = 300.0
"""Seconds without an error after which the driver is believed that nothing needs to be done."""

# nvml.h, NVML_GPU_RECOVERY_ACTION_*, but for 5, which is not about the card
RECOVERY_ACTIONS = {
    1: "a reset of the card",
    2: "a restart of the node",
    3: "that its peers are drained",
    4: "that it is drained and reset",
    6: "a reset of its bus",
    7: "a restart of the system",
}
"""What a driver can ask for; 0 is nothing."""


@dataclass(slots=True)
class Health:
    """What is known against each card. Errors come from a thread of their own.

    Attributes:
        ignored: errors that say nothing about a card.
        now: seconds that only go forward.
    """

    ignored_xids: frozenset[int] = APPLICATION_XIDS
    now: Callable[[], float] = time.monotonic
    _errors: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def record_xid(self, uuid: str, xid: int) -> bool:
        """Note an error; whether it says something about the card."""
        if xid in self.ignored_xids:
            return False
        self._errors[uuid] = (xid, self.now())
        return True

    def clear(self, uuid: str) -> None:
        """A card that was away is there again: nothing from before counts."""
        self._errors.pop(uuid, None)

    def problem(self, uuid: str, action: int | None) -> str:
        """What is wrong with a card that answers; empty where nothing is.

        Args:
            uuid: of the card.
            action: what its driver asks for; None where it does not say.
        """
        if action in RECOVERY_ACTIONS:
            return f"its driver asks for {RECOVERY_ACTIONS[action]}"
        found = self._errors.get(uuid)
        if found is None:
            return ""
        xid, when = found
        if action == 0 and self.now() - when >= QUIET_PERIOD:
            # Unless a newer one came in this moment.
            if self._errors.get(uuid) == found:
                del self._errors[uuid]
            return ""
        return f"Xid {xid}"
